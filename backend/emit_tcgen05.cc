// Products of the unit tcgen05 (ir/matrix_units.def), and tensor memory: its allocation, its loads
// and stores by threads. One thread issues a product; descriptors say where its operands lie.
//
// Sources: PTX ISA, "TensorCore 5th Generation Family Instructions": shared memory descriptor,
// instruction descriptor, layout of D with M = 128, shape 32x32b.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llvm/IR/Constants.h>

#include <algorithm>
#include <map>

#include "backend/diagnostics.h"
#include "backend/emit_tcgen05.h"
#include "backend/emitter.h"
#include "backend/shared_operand.h"
#include "ir/matrix_unit.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;
using ir::OpKind;

namespace {

// The kind of instruction that multiplies a type, and what the type is called in its descriptor.
struct OperandKind {
  DType dtype;
  const char* kind;
  uint32_t code;
};
constexpr OperandKind kOperandKinds[] = {{DType::kF16, "f16", 0},     {DType::kBF16, "f16", 1},
                                         {DType::kTF32, "tf32", 2},   {DType::kE4M3, "f8f6f4", 0},
                                         {DType::kE5M2, "f8f6f4", 1}, {DType::kU8, "i8", 0},
                                         {DType::kI8, "i8", 1}};

const OperandKind* Kind(DType dtype) {
  for (const OperandKind& row : kOperandKinds)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

// Instruction descriptor (PTX ISA, table "Instruction descriptor format for .kind::tf32, f16,
// f8f6f4 and i8"): type of D at bit 4 (1: f32, 2: s32), of A at 7, of B at 10, transposition at 15
// and 16, N / 8 at 17, M / 16 at 24.
uint32_t InstructionDescriptor(const OperandKind& a, const OperandKind& b, bool trans_a,
                               bool trans_b, int64_t m, int64_t n) {
  const uint32_t d = std::string_view(a.kind) == "i8" ? 2 : 1;
  return d << 4 | a.code << 7 | b.code << 10 | uint32_t{trans_a} << 15 | uint32_t{trans_b} << 16 |
         static_cast<uint32_t>(n >> 3) << 17 | static_cast<uint32_t>(m >> 4) << 24;
}

// CTAs that make a product together.
int64_t GroupOf(const ir::Op& op) { return op.i("pair") ? 2 : 1; }
Substitutions Group(const ir::Op& op) { return {{"g", std::to_string(GroupOf(op))}}; }

// Registers that a load or a store moves at once: more make ptxas' allocation brittle.
constexpr int64_t kMostRegisters = 32;
// A load's registers are neighbours. Of a tile of several loads they are to be found beside what
// else is alive: with 32 in a row ptxas spilled what fits (attention, rows of 128 of 255).
constexpr int64_t kFewRegisters = 8;

// Columns behind a register in an address: written out, so that no address but the first takes one.
std::string Behind(int64_t columns) { return columns == 0 ? "" : "+" + std::to_string(columns); }

std::string Registers(size_t first, int64_t count) {
  std::string out;
  for (int64_t i = 0; i < count; ++i)
    out += (i ? ",$" : "$") + std::to_string(first + static_cast<size_t>(i));
  return out;
}

}  // namespace

// By the first warp; the others learn the address from shared memory. A CTA keeps what it has from
// beginning to end, and asks for nothing more: CTAs cannot wait for each other in a circle.
Result<void> Emitter::EmitTmemAlloc(const ir::Op& op) {
  llvm::Value* place = SmemAddress(op.i("offset"));
  FirstWarp([&] {
    CallPtx(b_, PtxInst::kTmemAlloc, Group(op), "r,n", {place, I32(op.i("columns"))});
    CallPtx(b_, PtxInst::kTmemRelinquish, Group(op), "", {});
  });
  CallPtx(b_, PtxInst::kTcFenceBefore, {});
  CallPtx(b_, PtxInst::kBarSync, {I32(0), I32(32 * fn_.launch.warps)});
  CallPtx(b_, PtxInst::kTcFenceAfter, {});
  Set(op.results[0],
      {b_.CreateAlignedLoad(b_.getInt32Ty(), SharedPointer(place, 0), llvm::Align(4))});
  return Done();
}

Result<void> Emitter::EmitTmemFree(const ir::Op& op) {
  CallPtx(b_, PtxInst::kTcFenceBefore, {});
  CallPtx(b_, PtxInst::kBarSync, {I32(0), I32(32 * fn_.launch.warps)});
  CallPtx(b_, PtxInst::kTcFenceAfter, {});
  FirstWarp([&] {
    CallPtx(b_, PtxInst::kTmemDealloc, Group(op), "r,n",
            {Scalar(op.operands[0]), I32(op.i("columns"))});
  });
  return Done();
}

// What one whole warp of the CTA does.
template <typename F>
void Emitter::FirstWarp(F&& body) {
  llvm::BasicBlock* first = NewBlock("first");
  llvm::BasicBlock* next = NewBlock("next");
  b_.CreateCondBr(b_.CreateICmpEQ(Warp(), I32(0)), first, next);
  b_.SetInsertPoint(first);
  CallPtx(b_, PtxInst::kWarpSync, {});
  body();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
}

Result<void> Emitter::EmitTcMma(const ir::Op& op) {
  const ir::Type& b_type = fn_.type(op.operands[2]);
  const bool in_tensor = op.i("a_column") >= 0;
  const ir::Type& a_type = in_tensor ? b_type : fn_.type(op.operands[1]);
  const bool trans_a = op.i("trans_a") != 0, trans_b = op.i("trans_b") != 0;
  const int64_t m = op.i("m"), n = RoundUp(op.i("n"), ir::kTensorColumnStep);
  const int64_t k = op.i("k"), k_begin = op.i("k_begin");
  const OperandKind *a_kind = Kind(a_type.dtype), *b_kind = Kind(b_type.dtype);
  const auto refuse = [&](const std::string& why) {
    return diags_.Report(kMmaOperand, op.at, why);
  };
  if (!a_kind || !b_kind || std::string_view(a_kind->kind) != b_kind->kind)
    return refuse(
        fmt::format("{} times {}", ir::Spelling(a_type.dtype), ir::Spelling(b_type.dtype)));
  SharedOperand a, b = SharedOperandOf(b_type, trans_b);
  if (!in_tensor) a = SharedOperandOf(a_type, trans_a);
  const auto check = [&](const ir::Type& type, const SharedOperand& o) -> Result<void> {
    if (!o.Regular())
      return refuse(fmt::format("panels of {} bytes with swizzle {}", o.span, o.swizzle));
    if (type.smem.rows % 8) return refuse("its rows are not a multiple of 8");
    return Done();
  };
  if (!in_tensor) TRY_VOID(check(a_type, a));
  TRY_VOID(check(b_type, b));
  const auto start = [&](size_t buffer, size_t slot, const SharedOperand& o) {
    llvm::Value* address = SlotAddress(op, buffer, slot);
    return b_.CreateOr(
        b_.CreateZExt(b_.CreateLShr(b_.CreateAnd(address, I32(0x3ffff)), 4), b_.getInt64Ty()),
        I64(static_cast<int64_t>(DescriptorOf(o))));
  };
  llvm::Value* tensor = Scalar(op.operands[0]);
  llvm::Value* a_start = in_tensor ? tensor : start(1, 3, a);
  llvm::Value* b_start = start(2, 4, b);
  // Of 64 rows every quarter of the lanes has 16 (layout F of the ISA); of a pair each CTA has all
  // lanes.
  const int64_t rows = op.i("pair") ? 2 * ir::kTensorLanes
                                    : std::min(ir::kTensorLanes, RoundUp(m, ir::kTensorLanes / 2));
  llvm::Value* descriptor = I32(InstructionDescriptor(*a_kind, *b_kind, trans_a, trans_b, rows, n));
  const int64_t step = 32 / ir::ByteSize(b_type.dtype);  // of k per instruction
  const auto at = [&](llvm::Value* from, const SharedOperand& o, int64_t row, int64_t column) {
    const int64_t bytes = o.Offset(row, column);
    CHECK(bytes % 16 == 0, "descriptor offset");
    return b_.CreateAdd(from, I64(bytes / 16));
  };
  // Elements of 16 bits lie two in a column, rows of the next 128 behind those of the last.
  const auto left = [&](int64_t row, int64_t column) {
    return row / ir::kTensorLanes * ir::TensorOperandColumns(1, k_begin + k) + column / 2;
  };
  for (int64_t row = 0; row < m; row += ir::kTensorLanes) {
    for (int64_t kk = 0; kk < k; kk += step) {
      llvm::Value* adds = kk == 0 ? Scalar(op.operands[5]) : b_.getTrue();
      Substitutions with = Group(op);
      with.push_back({"kind", a_kind->kind});
      with.push_back({"d", Behind(op.i("column") + row / ir::kTensorLanes * n)});
      if (in_tensor) with.push_back({"a", Behind(op.i("a_column") + left(row, k_begin + kk))});
      CallPtx(b_, in_tensor ? PtxInst::kTcMmaLeft : PtxInst::kTcMma, with,
              in_tensor ? "r,r,l,r,b" : "r,l,l,r,b",
              {tensor, in_tensor ? tensor : at(a_start, a, row, k_begin + kk),
               at(b_start, b, 0, k_begin + kk), descriptor, adds});
    }
  }
  return Done();
}

// Columns of the warp's lanes, piece by piece: body(shape, its size, address, what is behind it,
// words), the words by register of the piece. Rows are lanes, or 16 rows are half of the warp's
// lanes and the threads of a row share its columns: 8 of them, in elements of 32 bits, go to four
// registers, of 16 bits to two (PTX ISA, shapes 32x32b, 16x256b, 16x128b).
template <typename F>
void Emitter::TensorPieces(const ir::Op& op, llvm::Value* base, const ir::Type& tile, int64_t most,
                           F&& body) {
  const ir::Layout& layout = fn_.layouts[tile.layout];
  const bool half = layout.thread[0].dim == 1;
  const std::string& split = op.s("split");
  const int64_t warpgroups = role_.warps / 4, bytes = ir::ByteSize(tile.dtype);
  const auto columns = [&](int64_t elements) { return elements * bytes / 4; };
  const int64_t n = columns(RoundUp(op.i("n"), ir::kTensorColumnStep));
  const int64_t blocks = CeilDiv(tile.shape[0], ir::kTensorLanes) / (split == "m" ? warpgroups : 1);
  const int64_t part = split == "n" ? n / warpgroups : n;
  const int64_t wide = std::min(part, columns(RoundUp(tile.shape[1], ir::kTensorColumnStep)));
  llvm::Value* lanes = b_.CreateShl(b_.CreateAnd(Warp(), I32(3)), 21);  // 32 · quarter, at bit 16
  llvm::Value* from = b_.CreateAdd(base, lanes);
  const int64_t first = op.i("column") + columns(op.i("first"));
  if (warpgroups > 1 && split != "none")
    from = b_.CreateAdd(
        from, b_.CreateMul(b_.CreateLShr(Warp(), 2), I32(split == "m" ? blocks * n : part)));
  std::map<std::vector<int64_t>, size_t> word_at;  // of a thread, in half of the lanes
  for (int64_t r = 0; half && r < layout.regs(); ++r)
    word_at.try_emplace(layout.RegCoord(r), static_cast<size_t>(r * bytes / 4));
  const char* shape = !half ? "32x32b" : bytes == 4 ? "16x256b" : "16x128b";
  const int64_t unit = !half ? 1 : bytes == 4 ? 8 : 4, registers = !half ? 1 : bytes;
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t column = 0; column < wide;) {
      int64_t count = most / registers;
      while (count * unit > wide - column) count /= 2;
      std::vector<size_t> words;
      for (int64_t r = 0; r < count * registers; ++r) {
        if (!half) {
          words.push_back(static_cast<size_t>(block * wide + column + r));
          continue;
        }
        const int64_t of_eight = bytes == 4 ? r : 2 * r;  // an element of a row's eight
        const int64_t at = column * 4 / bytes + of_eight / 4 * 8 + of_eight % 2;
        words.push_back(word_at.at({of_eight / 2 % 2 * 8, at}));
      }
      body(shape, count, from, Behind(first + block * n + column), words);
      column += count * unit;
    }
}

Result<void> Emitter::EmitTmemLoad(const ir::Op& op) {
  const ir::Type& tile = fn_.type(op.results[0]);
  if (role_.warps % 4 || role_.first_warp % 4)
    return diags_.Report(kMmaOperand, op.at, "it is not run by whole warpgroups");
  CallPtx(b_, PtxInst::kWarpSync, {});
  Regs words(static_cast<size_t>(fn_.layout(op.results[0]).regs()));
  const int64_t most =
      static_cast<int64_t>(words.size()) > kMostRegisters ? kFewRegisters : kMostRegisters;
  TensorPieces(op, Scalar(op.operands[0]), tile, most,
               [&](const char* shape, int64_t size, llvm::Value* address, const std::string& behind,
                   const std::vector<size_t>& places) {
                 const auto count = static_cast<int64_t>(places.size());
                 std::string constraints;
                 for (int64_t i = 0; i < count; ++i) constraints += i ? ",=r" : "=r";
                 const std::vector<llvm::Value*> got =
                     CallPtx(b_, PtxInst::kTmemLd,
                             {{"shape", shape},
                              {"n", std::to_string(size)},
                              {"r", Registers(0, count)},
                              {"a", "$" + std::to_string(count) + behind}},
                             constraints + ",r", {address});
                 for (size_t i = 0; i < got.size(); ++i) words[places[i]] = got[i];
               });
  // Tied, so that nothing that reads them stands in front of the wait.
  words = CallTied(b_, PtxInst::kTmemWaitLd, {}, words, "", {});
  Regs values;
  for (llvm::Value* w : words)
    values.push_back(ir::IsFloat(tile.dtype) ? b_.CreateBitCast(w, b_.getFloatTy()) : w);
  Set(op.results[0], std::move(values));
  return Done();
}

Result<void> Emitter::EmitTmemStore(const ir::Op& op) {
  const ir::Type& tile = fn_.type(op.operands[0]);
  if (role_.warps % 4 || role_.first_warp % 4)
    return diags_.Report(kMmaOperand, op.at, "it is not run by whole warpgroups");
  Regs words;
  for (llvm::Value* v : Pack(Get(op.operands[0]), tile.dtype))
    words.push_back(b_.CreateBitCast(v, b_.getInt32Ty()));
  // Where all warpgroups have the whole tile, the first one stores it.
  const bool alone = op.s("split") == "none" && role_.warps > 4;
  llvm::BasicBlock* next = nullptr;
  if (alone) {
    llvm::BasicBlock* first = NewBlock("first");
    next = NewBlock("next");
    b_.CreateCondBr(b_.CreateICmpULT(Warp(), I32(4)), first, next);
    b_.SetInsertPoint(first);
  }
  CallPtx(b_, PtxInst::kWarpSync, {});
  TensorPieces(op, Scalar(op.operands[1]), tile, kMostRegisters,
               [&](const char* shape, int64_t size, llvm::Value* address, const std::string& behind,
                   const std::vector<size_t>& places) {
                 const auto count = static_cast<int64_t>(places.size());
                 std::string constraints = "r";
                 std::vector<llvm::Value*> args = {address};
                 for (int64_t i = 0; i < count; ++i) {
                   constraints += ",r";
                   args.push_back(words[places[static_cast<size_t>(i)]]);
                 }
                 CallPtx(b_, PtxInst::kTmemSt,
                         {{"shape", shape},
                          {"n", std::to_string(size)},
                          {"r", Registers(1, count)},
                          {"a", "$0" + behind}},
                         constraints, args);
               });
  CallPtx(b_, PtxInst::kTmemWaitSt, {});
  if (alone) {
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
  }
  return Done();
}

Result<void> Emitter::EmitTensorMemory(const ir::Op& op) {
  switch (op.kind) {
    case OpKind::kTmemAlloc: return EmitTmemAlloc(op);
    case OpKind::kTmemFree: return EmitTmemFree(op);
    case OpKind::kTcMma: return op.i("block") ? EmitScaledMma(op) : EmitTcMma(op);
    case OpKind::kTcCommit:
      if (op.i("pair"))
        CallPtx(b_, PtxInst::kTcCommitAll, {MbarAddress(op, 0, 1), b_.getInt16(3)});
      else
        CallPtx(b_, PtxInst::kTcCommit, {MbarAddress(op, 0, 1)});
      return Done();
    case OpKind::kTcFence:
      CallPtx(b_, op.i("after") ? PtxInst::kTcFenceAfter : PtxInst::kTcFenceBefore, {});
      return Done();
    case OpKind::kTmemLoad: return EmitTmemLoad(op);
    case OpKind::kTmemStore: return EmitTmemStore(op);
    case OpKind::kTmemScales: return EmitTmemScales(op);
    default: break;
  }
  UNREACHABLE("no op of tensor memory");
}

}  // namespace tilec::backend
