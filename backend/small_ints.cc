// SPDX-License-Identifier: Apache-2.0
#include "backend/small_ints.h"

#include <llvm/ADT/APFloat.h>
#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/PatternMatch.h>

#include "backend/ptx_asm.h"

namespace tilec::backend {

namespace {

using namespace llvm::PatternMatch;

constexpr int64_t kSmall = int64_t{1} << 22;
constexpr uint32_t kTwo23 = 0x4B000000;       // bits of 2²³
constexpr uint32_t kTwo23And22 = 0x4B400000;  // of 2²³ + 2²²
constexpr int kDeep = 6;                      // instructions looked at, one behind the other

// Bounds, as ir/integer_range.h has them of our ops: those say nothing of the single values that an
// op is made of here, by then (permuted, packed, selected).
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

// v = y + plus; y is often never negative. (A match that fails may have set what it looks for.)
struct Shifted {
  llvm::Value* y;
  int64_t plus = 0;
};

Shifted WithoutConstant(llvm::Value* v) {
  llvm::Value *sum = nullptr, *difference = nullptr;
  const llvm::APInt* c = nullptr;
  if (v->getType()->isIntegerTy(32) && match(v, m_Add(m_Value(sum), m_APInt(c))))
    return {sum, c->getSExtValue()};
  if (v->getType()->isIntegerTy(32) && match(v, m_Sub(m_Value(difference), m_APInt(c))))
    return {difference, -c->getSExtValue()};
  return {v, 0};
}

}  // namespace

llvm::Value* SmallIntsToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                             const PairForm& form) {
  const bool is_signed = form.is_signed, half = form.half;
  // The bits of a float between 2ⁿ and 2ⁿ⁺¹, of n bits behind the point: 2ⁿ and an integer.
  const int64_t base = half ? 1024 : 128;
  const uint32_t bits = half ? 0x6400 : 0x4300;
  llvm::Type* word = b.getInt32Ty();
  llvm::Value* y[2] = {low, high};
  int64_t plus[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    if (!y[i]->getType()->isIntegerTy() || y[i]->getType()->getIntegerBitWidth() > 32)
      return nullptr;
    const Shifted s = WithoutConstant(y[i]);
    const llvm::ConstantRange range = RangeOf(s.y, kDeep);
    if (is_signed && !range.isAllNonNegative()) return nullptr;
    if (range.getUnsignedMax().uge(static_cast<uint64_t>(base))) return nullptr;
    if (s.plus < -base || s.plus > base) return nullptr;
    // Without a sign, what would be negative wraps.
    if (!is_signed && s.plus < 0 && range.getUnsignedMin().ult(static_cast<uint64_t>(-s.plus)))
      return nullptr;
    y[i] = b.CreateZExt(s.y, word);
    plus[i] = s.plus;
  }
  if (plus[0] != plus[1]) return nullptr;
  llvm::Value* pair =
      b.CreateOr(b.CreateOr(y[0], b.getInt32(bits << 16 | bits)), b.CreateShl(y[1], 16));
  // 2ⁿ − plus, exact: an integer of no more bits than fit.
  const llvm::APFloat less(static_cast<double>(base - plus[0]));
  llvm::APFloat narrow = less;
  bool lost = false;
  narrow.convert(half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
  if (lost) return nullptr;
  const auto by = static_cast<uint32_t>(narrow.bitcastToAPInt().getZExtValue());
  if (!half && !form.bf16_arithmetic) {
    constexpr uint32_t kOne = 0x3f803f80, kSigns = 0x80008000;
    return CallPtx(b, PtxInst::kFmaBf16x2,
                   {pair, b.getInt32(kOne), b.getInt32((by << 16 | by) ^ kSigns)});
  }
  return CallPtx(b, half ? PtxInst::kSubF16x2 : PtxInst::kSubBf16x2,
                 {pair, b.getInt32(by << 16 | by)});
}

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
  if (from && from->getType()->isIntegerTy(16)) from = b.CreateZExt(from, word);
  if (from && from->getType() == word && shift % 8 == 0 && shift < 32) {
    if (is_signed) from = b.CreateXor(from, b.getInt32(0x80808080));  // plus 128
    llvm::Value* bits = b.CreateIntrinsic(
        llvm::Intrinsic::nvvm_prmt, {},
        {from, b.getInt32(kTwo23), b.getInt32(0x7440 | static_cast<uint32_t>(shift / 8))});
    return less(bits, kBase + (is_signed ? 128 : 0));
  }

  const llvm::ConstantRange range = RangeOf(v, kDeep);
  if (!IsSmall(range, is_signed)) return nullptr;
  const Shifted s = WithoutConstant(v);
  const llvm::ConstantRange left = RangeOf(s.y, kDeep);
  const bool positive = IsSmall(left, false) && (!is_signed || left.isAllNonNegative());
  if (s.plus >= -kSmall && s.plus <= kSmall && positive)
    return less(b.CreateOr(b.CreateZExt(s.y, word), b.getInt32(kTwo23)),
                kBase - static_cast<double>(s.plus));
  llvm::Value* x = is_signed ? b.CreateSExt(v, word) : b.CreateZExt(v, word);
  return less(b.CreateAdd(x, b.getInt32(kTwo23And22)), kBase + static_cast<double>(kSmall));
}

}  // namespace tilec::backend
