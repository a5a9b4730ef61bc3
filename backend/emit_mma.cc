// Products: on the machine's matrix unit, which has a file of its own here (emit_wgmma.cc,
// emit_mma_sync.cc), or by plain multiply-adds.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backend/diagnostics.h"
#include "backend/emitter.h"
#include "support/check.h"

namespace tilec::backend {

using ir::DType;

Result<void> Emitter::EmitMma(const ir::Op& op) {
  switch (ir::UnitOf(op)) {
    case ir::MatrixUnit::kWgmma: return EmitWgmma(op);
    case ir::MatrixUnit::kMmaSync: return EmitMmaSync(op);
    case ir::MatrixUnit::kNone:
    case ir::MatrixUnit::kTcgen05: break;  // its products are no `mma` (emit_tcgen05.cc)
  }
  return diags_.Report(kMmaOperand, op.at, "no products are emitted for this matrix unit");
}

// An operand in shared memory, as a thread reads it.
struct Emitter::SimtOperand {
  PanelView view;
  bool transposed = false;
  DType dtype;
  std::map<int64_t, llvm::Value*> places;  // coordinates of its registers along M or N
};

// Its elements of type `d` from `at` on along k, by coordinate: `unroll` neighbours in one access
// where they are neighbours in memory.
std::map<int64_t, Regs> Emitter::LoadAlongK(const SimtOperand& of, llvm::Value* at, int64_t unroll,
                                            DType d) {
  std::map<int64_t, Regs> values;
  const PanelView& view = of.view;
  const size_t bytes = static_cast<size_t>(unroll * view.element_bytes);
  const bool together = !of.transposed && bytes <= 16 && view.panel_cols % unroll == 0 &&
                        view.pitch % static_cast<int64_t>(bytes) == 0;
  for (const auto& [coordinate, place] : of.places) {
    Regs raw;
    for (int64_t u = 0; u < unroll; ++u) {
      if (together && u) break;
      llvm::Value* kk = u ? b_.CreateAdd(at, I32(u)) : at;
      llvm::Value* address =
          of.transposed ? ElementAddress(view, kk, place) : ElementAddress(view, place, kk);
      const size_t size = together ? bytes : static_cast<size_t>(view.element_bytes);
      llvm::Type* word = b_.getIntNTy(
          static_cast<unsigned>(view.element_bytes == 8 ? 64 : std::min<size_t>(size * 8, 32)));
      const size_t words = size * 8 / word->getIntegerBitWidth();
      llvm::Type* type = words > 1 ? static_cast<llvm::Type*>(llvm::FixedVectorType::get(
                                         word, static_cast<unsigned>(words)))
                                   : word;
      llvm::Value* loaded =
          b_.CreateAlignedLoad(type, SharedPointer(address, 0), llvm::Align(size));
      Regs parts;
      for (size_t w = 0; w < words; ++w)
        parts.push_back(words > 1 ? b_.CreateExtractElement(loaded, w) : loaded);
      for (llvm::Value* v : FromMemory(parts, of.dtype, together ? static_cast<size_t>(unroll) : 1))
        raw.push_back(v);
    }
    values[coordinate] = Cast(raw, of.dtype, d);
  }
  return values;
}

Result<void> Emitter::EmitSimtDot(const ir::Op& op) {
  const ir::ValueId acc_id = op.operands[0];
  const ir::Type& acc_type = fn_.type(acc_id);
  const DType d = acc_type.dtype;
  if (ir::IsFloat(d) && ir::ByteSize(d) < 4)
    return Unsupported(op, fmt::format("a product accumulating in {}", ir::Spelling(d)));
  const int64_t k = op.i("k");
  const ir::Layout& layout = fn_.layout(acc_id);
  const ThreadPart& part = Part(acc_type.layout);
  SimtOperand operands[2];
  for (size_t i = 0; i < 2; ++i)
    operands[i] = {View(op.operands[1 + i], Scalar(op.operands[1 + i])),
                   op.i(i == 0 ? "trans_a" : "trans_b") != 0,
                   fn_.type(op.operands[1 + i]).dtype,
                   {}};
  const int64_t regs = layout.regs();
  for (int64_t r = 0; r < regs; ++r) {
    const std::vector<int64_t> c = layout.RegCoord(r);
    for (size_t i = 0; i < 2; ++i) {
      llvm::Value*& at = operands[i].places[c[i]];
      if (at) continue;
      at = b_.CreateAdd(part.coord[i], I32(c[i]));
      if (c[i] + part.max[i] >= acc_type.shape[i])  // padding reads the last element
        at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, at, I32(acc_type.shape[i] - 1));
    }
  }
  const int64_t unroll = k % 4 == 0 ? 4 : k % 2 == 0 ? 2 : 1;
  const Regs init = Get(acc_id);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* loop = NewBlock("dot");
  llvm::BasicBlock* after = NewBlock("dot.end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* at = b_.CreatePHI(b_.getInt32Ty(), 2);
  at->addIncoming(I32(0), before);
  std::vector<llvm::PHINode*> sums;
  for (llvm::Value* v : init) {
    sums.push_back(b_.CreatePHI(v->getType(), 2));
    sums.back()->addIncoming(v, before);
  }
  Regs acc(sums.begin(), sums.end());
  std::map<int64_t, Regs> values[2];
  for (size_t i = 0; i < 2; ++i) values[i] = LoadAlongK(operands[i], at, unroll, d);
  for (int64_t u = 0; u < unroll; ++u)
    for (int64_t r = 0; r < regs; ++r) {
      const std::vector<int64_t> c = layout.RegCoord(r);
      llvm::Value* x = values[0][c[0]][static_cast<size_t>(u)];
      llvm::Value* y = values[1][c[1]][static_cast<size_t>(u)];
      llvm::Value*& sum = acc[static_cast<size_t>(r)];
      if (d == DType::kF32 || d == DType::kTF32 || d == DType::kF64)
        sum = Fma(x, y, sum);
      else
        sum = b_.CreateAdd(sum, b_.CreateMul(x, y));
    }
  llvm::Value* next = b_.CreateAdd(at, I32(unroll));
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  at->addIncoming(next, latch);
  for (size_t r = 0; r < sums.size(); ++r) sums[r]->addIncoming(acc[r], latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next, I32(k)), loop, after);
  b_.SetInsertPoint(after);
  Set(op.results[0], std::move(acc));
  return Done();
}

}  // namespace tilec::backend
