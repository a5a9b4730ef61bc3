// SPDX-License-Identifier: Apache-2.0
#include "backend/small_ints.h"

#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/PatternMatch.h>

namespace tilec::backend {

namespace {

using namespace llvm::PatternMatch;

constexpr int64_t kSmall = int64_t{1} << 22;
constexpr uint32_t kTwo23 = 0x4B000000;       // bits of 2²³
constexpr uint32_t kTwo23And22 = 0x4B400000;  // of 2²³ + 2²²
constexpr int kDeep = 6;                      // instructions looked at, one behind the other

llvm::ConstantRange RangeOf(const llvm::Value* v, int depth) {
  const unsigned bits = v->getType()->getIntegerBitWidth();
  const llvm::ConstantRange full = llvm::ConstantRange::getFull(bits);
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(v))
    return llvm::ConstantRange(c->getValue());
  const auto* inst = llvm::dyn_cast<llvm::Instruction>(v);
  if (!inst || depth == 0) return full;
  const auto of = [&](unsigned i) { return RangeOf(inst->getOperand(i), depth - 1); };
  switch (inst->getOpcode()) {
    case llvm::Instruction::Trunc: return of(0).truncate(bits);
    case llvm::Instruction::ZExt: return of(0).zeroExtend(bits);
    case llvm::Instruction::SExt: return of(0).signExtend(bits);
    case llvm::Instruction::Select: return of(1).unionWith(of(2));
    default: break;
  }
  if (const auto* binary = llvm::dyn_cast<llvm::BinaryOperator>(inst))
    return of(0).binaryOp(binary->getOpcode(), of(1));
  return full;
}

bool IsSmall(const llvm::ConstantRange& range, bool is_signed) {
  if (!is_signed) return range.getUnsignedMax().ult(kSmall);
  return range.getSignedMin().sge(-kSmall) && range.getSignedMax().slt(kSmall);
}

}  // namespace

llvm::Value* SmallIntToF32(llvm::IRBuilder<>& b, llvm::Value* v, bool is_signed) {
  if (!v->getType()->isIntegerTy() || v->getType()->getIntegerBitWidth() > 32) return nullptr;
  llvm::Type* word = b.getInt32Ty();
  const auto less = [&](llvm::Value* bits, double by) {
    return b.CreateFAdd(b.CreateBitCast(bits, b.getFloatTy()),
                        llvm::ConstantFP::get(b.getFloatTy(), -by));
  };
  constexpr double kBase = 8388608;  // 2²³

  // A byte of a word.
  llvm::Value* from = nullptr;
  uint64_t shift = 0;
  if (v->getType()->isIntegerTy(8) &&
      !match(v, m_Trunc(m_LShr(m_Value(from), m_ConstantInt(shift))))) {
    shift = 0;
    if (!match(v, m_Trunc(m_Value(from)))) from = nullptr;
  }
  if (from && from->getType() == word && shift % 8 == 0 && shift < 32) {
    if (is_signed) from = b.CreateXor(from, b.getInt32(0x80808080));  // plus 128
    llvm::Value* bits = b.CreateIntrinsic(
        llvm::Intrinsic::nvvm_prmt, {},
        {from, b.getInt32(kTwo23), b.getInt32(0x7440 | static_cast<uint32_t>(shift / 8))});
    return less(bits, kBase + (is_signed ? 128 : 0));
  }

  const llvm::ConstantRange range = RangeOf(v, kDeep);
  if (!IsSmall(range, is_signed)) return nullptr;
  // What is never negative but for a constant. (A match that fails may have set what it looks for.)
  llvm::Value *y = v, *sum = nullptr, *difference = nullptr;
  int64_t plus = 0;
  const llvm::APInt* c = nullptr;
  if (v->getType() == word && match(v, m_Add(m_Value(sum), m_APInt(c))))
    y = sum, plus = c->getSExtValue();
  else if (v->getType() == word && match(v, m_Sub(m_Value(difference), m_APInt(c))))
    y = difference, plus = -c->getSExtValue();
  const llvm::ConstantRange left = RangeOf(y, kDeep);
  const bool positive = IsSmall(left, false) && (!is_signed || left.isAllNonNegative());
  if (plus >= -kSmall && plus <= kSmall && positive)
    return less(b.CreateOr(b.CreateZExt(y, word), b.getInt32(kTwo23)),
                kBase - static_cast<double>(plus));
  llvm::Value* x = is_signed ? b.CreateSExt(v, word) : b.CreateZExt(v, word);
  return less(b.CreateAdd(x, b.getInt32(kTwo23And22)), kBase + static_cast<double>(kSmall));
}

}  // namespace tilec::backend
