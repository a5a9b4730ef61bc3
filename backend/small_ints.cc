// SPDX-License-Identifier: Apache-2.0
#include "backend/small_ints.h"

#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>

#include "backend/kept_constant.h"
#include "backend/magic_pairs.h"

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

// Two integers behind magic bits, side by side. The same bits of two words are brought together
// first and masked at once.
llvm::Value* BitsOfPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high, uint32_t magic) {
  constexpr uint32_t kLowHalves = 0x5410;
  llvm::Value* word[2] = {nullptr, nullptr};
  const llvm::APInt *mask = nullptr, *other = nullptr;
  if (match(low, m_And(m_Value(word[0]), m_APInt(mask))) &&
      match(high, m_And(m_Value(word[1]), m_APInt(other))) && *mask == *other &&
      mask->getZExtValue() <= 0xffff) {
    llvm::Value* both = b.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {},
                                          {word[0], word[1], b.getInt32(kLowHalves)});
    return BehindMask(b, both, static_cast<uint32_t>(mask->getZExtValue()) * kBoth, magic);
  }
  return b.CreateOr(b.CreateOr(low, b.getInt32(magic * kBoth)), b.CreateShl(high, 16));
}

}  // namespace

llvm::Value* SmallIntsToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                             const PairForm& form) {
  if (llvm::Value* pair = BytesToPair(b, low, high, form)) return pair;
  if (llvm::Value* pair = FieldsToPair(b, low, high, form)) return pair;
  const bool is_signed = form.is_signed, half = form.half;
  const MagicBits magic(half);
  llvm::Type* word = b.getInt32Ty();
  llvm::Value* y[2] = {low, high};
  int64_t plus[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    if (!y[i]->getType()->isIntegerTy() || y[i]->getType()->getIntegerBitWidth() > 32)
      return nullptr;
    const Shifted s = WithoutConstant(y[i]);
    const llvm::ConstantRange range = RangeOf(s.y, kDeep);
    if (is_signed && !range.isAllNonNegative()) return nullptr;
    if (range.getUnsignedMax().uge(static_cast<uint64_t>(magic.base))) return nullptr;
    if (s.plus < -magic.base || s.plus > magic.base) return nullptr;
    // Without a sign, what would be negative wraps.
    if (!is_signed && s.plus < 0 && range.getUnsignedMin().ult(static_cast<uint64_t>(-s.plus)))
      return nullptr;
    y[i] = b.CreateZExt(s.y, word);
    plus[i] = s.plus;
  }
  if (plus[0] != plus[1]) return nullptr;
  return LessMagic(b, BitsOfPair(b, y[0], y[1], magic.bits), magic.base - plus[0], form);
}

void WithoutMagic(llvm::IRBuilder<>& b, std::vector<llvm::Value*>* x,
                  std::vector<llvm::Value*>* y) {
  std::vector<MagicHalf> from, by;
  for (llvm::Value* v : *x) from.push_back(HalfBehindMagic(v));
  for (llvm::Value* v : *y) by.push_back(HalfBehindMagic(v));
  const auto alike = [](const std::vector<MagicHalf>& all) {
    return std::all_of(all.begin(), all.end(), [&](const MagicHalf& one) {
      return one.pair && one.less == all.front().less && one.apart == 0;
    });
  };
  if (from.empty() || !alike(from) || !alike(by)) return;
  // (x − c) − (y − d) = x − (y + (c − d)); of bits below 2ⁿ⁺¹ one more is the next number.
  const int64_t more = from.front().less - by.front().less;
  if (more != 0 && more != 1) return;
  const auto half = [&](const MagicHalf& of, int64_t plus) {
    llvm::Value* word = of.pair;
    if (plus != 0) word = b.CreateAdd(word, b.getInt32(kBoth));
    return b.CreateTrunc(of.high ? b.CreateLShr(word, 16) : word, b.getInt16Ty());
  };
  for (size_t i = 0; i < x->size(); ++i) {
    (*x)[i] = half(from[i], 0);
    (*y)[i] = half(by[i], more);
  }
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
        {from, KeptConstant(b, kTwo23), b.getInt32(0x7440 | static_cast<uint32_t>(shift / 8))});
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
