// Atomics that the architecture lacks: a loop that compares and exchanges.
//
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "backend/emitter.h"

namespace tilec::backend {

using ir::DType;

namespace {

// What an element of 16 bits becomes: `old` and `value` are i16. A NaN takes no part in min and
// max, whose comparison is false for it the other way round.
llvm::Value* Combined16(llvm::IRBuilder<>& b, const std::string& kind, DType d, llvm::Value* old,
                        llvm::Value* value) {
  if (kind == "and") return b.CreateAnd(old, value);
  if (kind == "or") return b.CreateOr(old, value);
  if (kind == "xor") return b.CreateXor(old, value);
  const bool max = kind == "max";
  if (!ir::IsFloat(d)) {
    if (kind == "add") return b.CreateAdd(old, value);
    const bool sign = ir::IsSigned(d);
    llvm::Value* less = sign ? b.CreateICmpSLT(old, value) : b.CreateICmpULT(old, value);
    return max ? b.CreateSelect(less, value, old) : b.CreateSelect(less, old, value);
  }
  llvm::Type* type = d == DType::kBF16 ? b.getBFloatTy() : b.getHalfTy();
  llvm::Value *x = b.CreateBitCast(old, type), *y = b.CreateBitCast(value, type);
  if (kind == "add") return b.CreateBitCast(b.CreateFAdd(x, y), b.getInt16Ty());
  x = b.CreateFPExt(x, b.getFloatTy()), y = b.CreateFPExt(y, b.getFloatTy());
  llvm::Value* better = max ? b.CreateFCmpULT(x, y) : b.CreateFCmpUGT(x, y);
  return b.CreateSelect(b.CreateAnd(better, b.CreateFCmpORD(y, y)), value, old);
}

}  // namespace

// By comparing and exchanging elements of 16 bits until nobody came between; not words, of which
// half may lie behind the tensor. The first read is one of the atomics, too: a plain load races
// with those of other CTAs. Gives what was there, 0 where nothing is done.
llvm::Value* Emitter::Exchange16(const std::string& kind, DType d, llvm::Value* value,
                                 const MemPlace& place) {
  llvm::BasicBlock *before = b_.GetInsertBlock(), *after = nullptr;
  if (place.predicate) {
    llvm::BasicBlock* work = NewBlock("add");
    after = NewBlock("added");
    b_.CreateCondBr(place.predicate, work, after);
    b_.SetInsertPoint(work);
  }
  llvm::Value* mine = b_.CreateBitCast(value, b_.getInt16Ty());
  const auto exchange = [&](llvm::Value* from, llvm::Value* to) {
    return CallPtx(b_, PtxInst::kAtomGlobal,
                   {{"p", ""},
                    {"op", "cas"},
                    {"t", "b16"},
                    {"old", "$0"},
                    {"ops", "$3, $4"},
                    {"a", "$1"},
                    {"o", "$2"}},
                   "=h,l,n,h,h", {place.address, I64(place.offset), from, to})[0];
  };
  llvm::Value* first = exchange(b_.getInt16(0), b_.getInt16(0));
  llvm::BasicBlock *front = b_.GetInsertBlock(), *again = NewBlock("exchange");
  llvm::BasicBlock* exchanged = NewBlock("exchanged");
  b_.CreateBr(again);
  b_.SetInsertPoint(again);
  llvm::PHINode* old = b_.CreatePHI(b_.getInt16Ty(), 2);
  old->addIncoming(first, front);
  llvm::Value* seen = exchange(old, Combined16(b_, kind, d, old, mine));
  old->addIncoming(seen, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpEQ(seen, old), exchanged, again);
  b_.SetInsertPoint(exchanged);
  llvm::Value* was = b_.CreateBitCast(old, value->getType());
  if (!after) return was;
  llvm::BasicBlock* done = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* found = b_.CreatePHI(value->getType(), 2);
  found->addIncoming(was, done);
  found->addIncoming(llvm::Constant::getNullValue(value->getType()), before);
  return found;
}

}  // namespace tilec::backend
