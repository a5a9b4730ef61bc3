// SPDX-License-Identifier: Apache-2.0
#include "backend/kept_constant.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>

#include "backend/ptx_asm.h"

namespace tilec::backend {
namespace {

// The call in the block that makes the constant; nullptr: none does.
llvm::Value* Made(llvm::BasicBlock& block, const char* name, uint32_t bits) {
  for (llvm::Instruction& inst : block) {
    const llvm::MDNode* node = inst.getMetadata(name);
    if (!node) continue;
    const auto* of = llvm::mdconst::extract<llvm::ConstantInt>(node->getOperand(0));
    if (of->getZExtValue() == bits) return &inst;
  }
  return nullptr;
}

}  // namespace

llvm::Value* KeptConstant(llvm::IRBuilder<>& b, uint32_t bits) {
  if (b.GetInsertBlock()->getParent()->hasFnAttribute(kShowsConstants)) return b.getInt32(bits);
  constexpr const char* kKept = "tilec.kept";
  llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  if (llvm::Value* made = Made(entry, kKept, bits)) return made;
  llvm::IRBuilder<> at(&entry, entry.getFirstInsertionPt());
  auto* kept = llvm::cast<llvm::Instruction>(CallPtx(at, PtxInst::kKept, {at.getInt32(bits)}));
  kept->setMetadata(kKept, llvm::MDNode::get(b.getContext(), llvm::ConstantAsMetadata::get(
                                                                 at.getInt32(bits))));
  return kept;
}

}  // namespace tilec::backend
