// Atomics that the architecture lacks: a loop that compares and exchanges.
//
// SPDX-License-Identifier: Apache-2.0
#include "backend/emitter.h"

namespace tilec::backend {

// By comparing and exchanging words until nobody came between. The first read is one of the
// atomics, too: a plain load, as LLVM has it, races with those of other CTAs. Gives what was there,
// 0 where nothing is done.
llvm::Value* Emitter::AddBf16(llvm::Value* address, llvm::Value* value, llvm::Value* predicate) {
  llvm::BasicBlock *before = b_.GetInsertBlock(), *after = nullptr;
  if (predicate) {
    llvm::BasicBlock* add = NewBlock("add");
    after = NewBlock("added");
    b_.CreateCondBr(predicate, add, after);
    b_.SetInsertPoint(add);
  }
  constexpr unsigned kGlobal = 1;  // address space
  llvm::Value* place = b_.CreateIntToPtr(b_.CreateAnd(address, I64(~int64_t{3})),
                                         llvm::PointerType::get(context_, kGlobal));
  llvm::Value* shift =
      b_.CreateShl(b_.CreateTrunc(b_.CreateAnd(address, I64(2)), b_.getInt32Ty()), 3);
  const auto exchange = [&](llvm::Value* from, llvm::Value* to) {
    constexpr auto kOrder = llvm::AtomicOrdering::Monotonic;
    return b_.CreateAtomicCmpXchg(place, from, to, llvm::MaybeAlign(4), kOrder, kOrder,
                                  context_.getOrInsertSyncScopeID("device"));
  };
  llvm::Value* first = b_.CreateExtractValue(exchange(I32(0), I32(0)), 0);
  llvm::BasicBlock *front = b_.GetInsertBlock(), *again = NewBlock("exchange");
  llvm::BasicBlock* exchanged = NewBlock("exchanged");
  b_.CreateBr(again);
  b_.SetInsertPoint(again);
  llvm::PHINode* word = b_.CreatePHI(b_.getInt32Ty(), 2);
  word->addIncoming(first, front);
  llvm::Value* old = b_.CreateTrunc(b_.CreateLShr(word, shift), b_.getInt16Ty());
  llvm::Value* sum = b_.CreateBitCast(b_.CreateFAdd(b_.CreateBitCast(old, b_.getBFloatTy()),
                                                    b_.CreateBitCast(value, b_.getBFloatTy())),
                                      b_.getInt16Ty());
  llvm::Value* others = b_.CreateAnd(word, b_.CreateNot(b_.CreateShl(I32(0xFFFF), shift)));
  llvm::Value* tried =
      exchange(word, b_.CreateOr(others, b_.CreateShl(b_.CreateZExt(sum, b_.getInt32Ty()), shift)));
  word->addIncoming(b_.CreateExtractValue(tried, 0), b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateExtractValue(tried, 1), exchanged, again);
  b_.SetInsertPoint(exchanged);
  old = b_.CreateBitCast(old, value->getType());
  if (!after) return old;
  llvm::BasicBlock* done = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* found = b_.CreatePHI(value->getType(), 2);
  found->addIncoming(old, done);
  found->addIncoming(llvm::Constant::getNullValue(value->getType()), before);
  return found;
}

}  // namespace tilec::backend
