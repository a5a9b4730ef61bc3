// Scaled products of the unit tcgen05, and their scales in tensor memory.
//
// Sources: PTX ISA, "TensorCore 5th Generation Family Instructions": kinds mxf8f6f4, mxf4 and
// mxf4nvf4, their instruction descriptors, "Scale Factor Layout".
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llvm/IR/Constants.h>

#include "backend/diagnostics.h"
#include "backend/emit_tcgen05.h"
#include "backend/emitter.h"
#include "backend/shared_operand.h"
#include "ir/matrix_unit.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

namespace {

constexpr int64_t kInstructionBytes = 32;  // of K, of an instruction
constexpr int64_t kScalesOfColumn = 4;     // a byte each
constexpr int64_t kLanes = 32;             // of a quarter

// Kind and type code of a factor with one scale for `block` of K.
struct BlockKind {
  DType dtype;
  int64_t block;
  const char* kind;
  uint32_t code;
};
constexpr BlockKind kBlockKinds[] = {{DType::kE4M3, 32, "mxf8f6f4", 0},
                                     {DType::kE5M2, 32, "mxf8f6f4", 1},
                                     {DType::kE2M1X2, 32, "mxf4", 1},
                                     {DType::kE2M1X2, 16, "mxf4nvf4", 1}};

const BlockKind* BlockKindOf(DType dtype, int64_t block) {
  for (const BlockKind& row : kBlockKinds)
    if (row.dtype == dtype && row.block == block) return &row;
  return nullptr;
}

}  // namespace

// Instruction descriptor: id of B's scales at bit 4, types of A and B at 7 and 10, N / 8 at 17,
// type of the scales at 23 (1: ue8m0), M / 128 at 27, id of A's scales at 29. The id is the byte of
// a word that an instruction begins with.
Result<void> Emitter::EmitScaledMma(const ir::Op& op) {
  const ir::Type &a_type = fn_.type(op.operands[1]), &b_type = fn_.type(op.operands[2]);
  const int64_t block = op.i("block");
  const BlockKind *a_kind = BlockKindOf(a_type.dtype, block),
                  *b_kind = BlockKindOf(b_type.dtype, block);
  const auto refuse = [&](const std::string& why) {
    return diags_.Report(kMmaOperand, op.at, why);
  };
  if (!a_kind || !b_kind || std::string_view(a_kind->kind) != b_kind->kind)
    return refuse(fmt::format("{} times {}, a scale for {} of K", ir::Spelling(a_type.dtype),
                              ir::Spelling(b_type.dtype), block));
  const SharedOperand a = SharedOperandOf(a_type, false), b = SharedOperandOf(b_type, false);
  for (const auto& [type, o] : {std::pair(&a_type, &a), std::pair(&b_type, &b)}) {
    if (!o->Regular())
      return refuse(fmt::format("panels of {} bytes with swizzle {}", o->span, o->swizzle));
    if (type->smem.rows % 8) return refuse("its rows are not a multiple of 8");
  }
  const auto start = [&](size_t buffer, size_t slot, const SharedOperand& o) {
    llvm::Value* address = SlotAddress(op, buffer, slot);
    return b_.CreateOr(
        b_.CreateZExt(b_.CreateLShr(b_.CreateAnd(address, I32(0x3ffff)), 4), b_.getInt64Ty()),
        I64(static_cast<int64_t>(DescriptorOf(o))));
  };
  const auto at = [&](llvm::Value* from, const SharedOperand& o, int64_t row, int64_t column) {
    const int64_t bytes = o.Offset(row, column);
    CHECK(bytes % 16 == 0, "descriptor offset");
    return b_.CreateAdd(from, I64(bytes / 16));
  };
  const int64_t m = op.i("m"), n = RoundUp(op.i("n"), ir::kTensorColumnStep), k = op.i("k");
  const bool pairs = a_type.dtype == DType::kE2M1X2;
  const int64_t each = kInstructionBytes * (pairs ? 2 : 1) / block;  // scales of an instruction
  const uint32_t descriptor = a_kind->code << 7 | b_kind->code << 10 |
                              static_cast<uint32_t>(n >> 3) << 17 |
                              uint32_t{op.s("scale") == ir::Spelling(DType::kUE8M0)} << 23 |
                              static_cast<uint32_t>(ir::kTensorLanes >> 7) << 27;
  llvm::Value* tensor = Scalar(op.operands[0]);
  llvm::Value *a_start = start(1, 3, a), *b_start = start(2, 4, b);
  // Columns of a word of four scales: one for 32 rows.
  const int64_t a_word = RoundUp(m, ir::kTensorLanes) / kLanes,
                b_word = RoundUp(op.i("n"), ir::kTensorLanes) / kLanes;
  for (int64_t row = 0; row < m; row += ir::kTensorLanes) {
    llvm::Value* into = b_.CreateAdd(tensor, I32(op.i("column") + row / ir::kTensorLanes * n));
    for (int64_t kk = 0; kk < k; kk += kInstructionBytes) {
      const int64_t first = kk / kInstructionBytes * each, word = first / kScalesOfColumn;
      const auto id = static_cast<uint32_t>(first % kScalesOfColumn);
      CallPtx(b_, PtxInst::kTcMmaScaled, {{"kind", a_kind->kind}, {"each", std::to_string(each)}},
              "r,l,l,r,r,r,b",
              {into, at(a_start, a, row, kk), at(b_start, b, 0, kk),
               I32(descriptor | id << 4 | id << 29),
               b_.CreateAdd(tensor, I32(op.i("a_scales") + word * a_word + row / kLanes)),
               b_.CreateAdd(tensor, I32(op.i("b_scales") + word * b_word)),
               kk == 0 ? Scalar(op.operands[5]) : b_.getTrue()});
    }
  }
  return Done();
}

// Each warp of the first warpgroup to its own quarter of the lanes. What the tile has not is 0: an
// instruction may multiply it with zeros, and NaN times zero is NaN.
Result<void> Emitter::EmitTmemScales(const ir::Op& op) {
  if (role_.warps % 4 || role_.first_warp % 4)
    return diags_.Report(kMmaOperand, op.at, "it is not run by whole warpgroups");
  const std::vector<int64_t>& shape = fn_.type(op.operands[0]).shape;
  const auto rows_dim = static_cast<size_t>(op.i("rows"));
  const int64_t scales = shape[1 - rows_dim], held = RoundUp(scales, kScalesOfColumn);
  const int64_t columns = RoundUp(shape[rows_dim], ir::kTensorLanes) / kLanes;  // of a word
  const Regs& have = Get(op.operands[0]);
  llvm::BasicBlock* next = nullptr;
  if (role_.warps > 4) {
    llvm::BasicBlock* first = NewBlock("first");
    next = NewBlock("next");
    b_.CreateCondBr(b_.CreateICmpULT(Warp(), I32(4)), first, next);
    b_.SetInsertPoint(first);
  }
  CallPtx(b_, PtxInst::kWarpSync, {});
  llvm::Value* lanes = b_.CreateShl(b_.CreateAnd(Warp(), I32(3)), 21);  // 32 · quarter, at bit 16
  llvm::Value* from =
      b_.CreateAdd(b_.CreateAdd(Scalar(op.operands[1]), I32(op.i("column"))), lanes);
  constexpr int64_t kAtOnce = 4;
  for (int64_t word = 0; word < held / kScalesOfColumn; ++word)
    for (int64_t column = 0; column < columns; column += kAtOnce) {
      std::vector<llvm::Value*> args = {b_.CreateAdd(from, I32(word * columns + column))};
      std::string constraints = "r", registers;
      for (int64_t c = 0; c < kAtOnce; ++c) {
        llvm::Value* bytes = I32(0);
        for (int64_t i = 0; i < kScalesOfColumn; ++i) {
          const int64_t s = word * kScalesOfColumn + i;
          if (s >= scales) continue;
          llvm::Value* byte =
              b_.CreateZExt(have[static_cast<size_t>((column + c) * held + s)], b_.getInt32Ty());
          bytes = b_.CreateOr(bytes, b_.CreateShl(byte, 8 * i));
        }
        args.push_back(bytes);
        constraints += ",r";
        registers += fmt::format("{}${}", c ? "," : "", c + 1);
      }
      CallPtx(b_, PtxInst::kTmemSt,
              {{"shape", "32x32b"}, {"n", std::to_string(kAtOnce)}, {"r", registers}, {"a", "$0"}},
              constraints, args);
    }
  CallPtx(b_, PtxInst::kTmemWaitSt, {});
  if (next) {
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
  }
  return Done();
}

}  // namespace tilec::backend
