// SPDX-License-Identifier: Apache-2.0
#include "backend/magic_pairs.h"

#include <llvm/ADT/APFloat.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>

#include "backend/kept_constant.h"
#include "backend/ptx_asm.h"

namespace tilec::backend {

namespace {

constexpr uint32_t kSigns = 0x8000 * kBoth;
constexpr const char* kBehindMagic = "tilec.behind_magic";  // of a call: low, high, apart

}  // namespace

llvm::Value* PairLess(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const PairForm& form) {
  if (form.half) return CallPtx(b, PtxInst::kSubF16x2, {x, y});
  if (form.bf16_arithmetic) return CallPtx(b, PtxInst::kSubBf16x2, {x, y});
  return CallPtx(b, PtxInst::kFmaBf16x2,
                 {x, b.getInt32(0x3f80 * kBoth), b.CreateXor(y, b.getInt32(kSigns))});
}

llvm::Value* PairLess(llvm::IRBuilder<>& b, llvm::Value* x, int64_t by, const PairForm& form) {
  llvm::APFloat narrow(static_cast<double>(by));
  bool lost = false;
  narrow.convert(form.half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
  if (lost) return nullptr;
  const auto bits = static_cast<uint32_t>(narrow.bitcastToAPInt().getZExtValue());
  return PairLess(b, x, b.getInt32(bits * kBoth), form);
}

llvm::Value* SayBehindMagic(llvm::IRBuilder<>& b, llvm::Value* pair, int64_t low, int64_t high,
                            unsigned apart) {
  const auto number = [&](int64_t n) -> llvm::Metadata* {
    return llvm::ConstantAsMetadata::get(b.getInt32(static_cast<uint32_t>(n)));
  };
  if (auto* call = pair ? llvm::dyn_cast<llvm::CallInst>(pair) : nullptr)
    call->setMetadata(kBehindMagic, llvm::MDNode::get(b.getContext(),
                                                      {number(low), number(high), number(apart)}));
  return pair;
}

llvm::Value* LessMagic(llvm::IRBuilder<>& b, llvm::Value* x, int64_t by, const PairForm& form) {
  llvm::Value* pair = PairLess(b, x, by, form);
  return form.half || form.bf16_arithmetic ? SayBehindMagic(b, pair, by, by, 0) : pair;
}

MagicHalf HalfBehindMagic(llvm::Value* half) {
  using namespace llvm::PatternMatch;
  llvm::Value *word = nullptr, *pair = nullptr;
  uint64_t by = 0;
  if (!match(half, m_Trunc(m_Value(word)))) return {};
  const bool high = match(word, m_LShr(m_Value(pair), m_ConstantInt(by))) && by == 16;
  const auto* call = llvm::dyn_cast<llvm::CallInst>(high ? pair : word);
  const llvm::MDNode* node = call ? call->getMetadata(kBehindMagic) : nullptr;
  if (!node) return {};
  const auto number = [&](unsigned i) {
    return llvm::mdconst::extract<llvm::ConstantInt>(node->getOperand(i))->getSExtValue();
  };
  return {call->getArgOperand(0), high, number(high ? 1 : 0), static_cast<unsigned>(number(2))};
}

llvm::Value* BehindMask(llvm::IRBuilder<>& b, llvm::Value* both, uint32_t mask, uint32_t magic) {
  return CallPtx(b, PtxInst::kAndOr, {both, b.getInt32(mask), KeptConstant(b, magic * kBoth)});
}

}  // namespace tilec::backend
