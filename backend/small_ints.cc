// SPDX-License-Identifier: Apache-2.0
#include "backend/small_ints.h"

#include <llvm/ADT/APFloat.h>
#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/kept_constant.h"
#include "backend/ptx_asm.h"
#include "backend/word_fields.h"
#include "support/check.h"

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

// The bits of a float between 2ⁿ and 2ⁿ⁺¹, of n bits behind the point: 2ⁿ and an integer.
struct Magic {
  explicit Magic(bool half) : base(half ? 1024 : 128), bits(half ? 0x6400 : 0x4300) {}
  int64_t base;
  uint32_t bits;
};
constexpr uint32_t kBoth = 0x00010001;  // times 16 bits: both halves
constexpr uint32_t kSigns = 0x8000 * kBoth;

// x − y, both pairs, of which `y` comes without its sign where there is no subtraction.
llvm::Value* Less(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const PairForm& form) {
  if (form.half) return CallPtx(b, PtxInst::kSubF16x2, {x, y});
  if (form.bf16_arithmetic) return CallPtx(b, PtxInst::kSubBf16x2, {x, y});
  return CallPtx(b, PtxInst::kFmaBf16x2,
                 {x, b.getInt32(0x3f80 * kBoth), b.CreateXor(y, b.getInt32(kSigns))});
}

// The same of an integer; nullptr if it has more bits than fit.
llvm::Value* Less(llvm::IRBuilder<>& b, llvm::Value* x, int64_t by, const PairForm& form) {
  llvm::APFloat narrow(static_cast<double>(by));
  bool lost = false;
  narrow.convert(form.half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
  if (lost) return nullptr;
  const auto bits = static_cast<uint32_t>(narrow.bitcastToAPInt().getZExtValue());
  return Less(b, x, b.getInt32(bits * kBoth), form);
}

// The last step of a conversion that is exact in all steps: bits that are 2ⁿ and an integer below
// it, less 2ⁿ and a constant. WithoutMagic finds it again by this name.
constexpr const char* kBehindMagic = "tilec.behind_magic";

// Both halves have one constant, or what they are the high half of, `apart` bits up, has its own.
llvm::Value* SayBehindMagic(llvm::IRBuilder<>& b, llvm::Value* pair, int64_t low, int64_t high,
                            unsigned apart) {
  const auto number = [&](int64_t n) -> llvm::Metadata* {
    return llvm::ConstantAsMetadata::get(b.getInt32(static_cast<uint32_t>(n)));
  };
  if (auto* call = pair ? llvm::dyn_cast<llvm::CallInst>(pair) : nullptr)
    call->setMetadata(kBehindMagic, llvm::MDNode::get(b.getContext(), {number(low), number(high),
                                                                       number(apart)}));
  return pair;
}

llvm::Value* LessMagic(llvm::IRBuilder<>& b, llvm::Value* x, int64_t by, const PairForm& form) {
  llvm::Value* pair = Less(b, x, by, form);
  return form.half || form.bf16_arithmetic ? SayBehindMagic(b, pair, by, by, 0) : pair;
}

// A half of such a pair: the bits that it was before the last step, by which power of two they
// count more than they should, and what was subtracted then.
struct MagicHalf {
  llvm::Value* pair = nullptr;
  bool high = false;
  int64_t less = 0;
  unsigned apart = 0;
};

MagicHalf HalfBehindMagic(llvm::Value* half) {
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

// Bits of a word, from `shift` on: (word >> shift) & mask.
struct Field {
  llvm::Value* word;
  unsigned shift = 0;
  uint64_t mask = ~uint64_t{0};
};

Field FieldOf(llvm::Value* v) {
  const llvm::APInt* c = nullptr;
  llvm::Value* from = nullptr;
  const unsigned width = v->getType()->getIntegerBitWidth();
  if (match(v, m_Trunc(m_Value(from))) || match(v, m_ZExt(m_Value(from)))) {
    Field f = FieldOf(from);
    if (width < 64) f.mask &= (uint64_t{1} << width) - 1;
    return f;
  }
  if (match(v, m_And(m_Value(from), m_APInt(c)))) {
    Field f = FieldOf(from);
    f.mask &= c->getZExtValue();
    return f;
  }
  if (match(v, m_LShr(m_Value(from), m_APInt(c))) && c->ult(width)) {
    Field f = FieldOf(from);
    const auto by = static_cast<unsigned>(c->getZExtValue());
    f.shift += by;
    f.mask >>= by;
    return f;
  }
  Field whole{v};
  if (width < 64) whole.mask = (uint64_t{1} << width) - 1;
  return whole;
}

// Bits of both halves behind magic ones.
llvm::Value* BehindMask(llvm::IRBuilder<>& b, llvm::Value* both, uint32_t mask, uint32_t magic) {
  return CallPtx(b, PtxInst::kAndOr,
                 {both, b.getInt32(mask), KeptConstant(b, magic * kBoth)});
}

// Two neighbouring bytes of a word, or the same bits of both, signed only if they are whole: one
// permutation puts them behind the magic bits.
llvm::Value* BytesToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                         const PairForm& form) {
  constexpr uint64_t kByte = 0xff, kSign = 0x80;
  if (!low->getType()->isIntegerTy() || !high->getType()->isIntegerTy()) return nullptr;
  llvm::Value *narrow_low = nullptr, *narrow_high = nullptr;
  if (form.is_signed && match(low, m_SExt(m_Value(narrow_low))) &&
      match(high, m_SExt(m_Value(narrow_high))))
    low = narrow_low, high = narrow_high;
  const Field x = FieldOf(low), y = FieldOf(high);
  if (x.word != y.word || x.mask != y.mask || y.shift != x.shift + 8) return nullptr;
  const unsigned width = x.word->getType()->getIntegerBitWidth(), in_byte = x.shift % 8;
  if ((width != 16 && width != 32) || y.shift >= width || x.mask > kByte >> in_byte) return nullptr;
  // A wider type than its field has is not negative.
  const bool is_signed = form.is_signed && low->getType()->getIntegerBitWidth() == 8;
  if (is_signed && x.mask & kSign && x.mask != kByte) return nullptr;
  const Magic magic(form.half);
  const unsigned at = x.shift / 8;
  constexpr uint32_t kHigh = 5;  // the magic bits' own byte, in the second operand
  // The same for all fields of these bytes.
  llvm::Value* spread =
      b.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {},
                        {b.CreateZExt(x.word, b.getInt32Ty()), KeptConstant(b, magic.bits * kBoth),
                         b.getInt32(kHigh << 12 | (at + 1) << 8 | kHigh << 4 | at)});
  const auto only = [&](uint64_t mask) {
    const auto bits = static_cast<uint32_t>(mask);
    if (in_byte == 0) return b.CreateAnd(spread, b.getInt32((0xff00 | bits) * kBoth));
    return BehindMask(b, b.CreateLShr(spread, in_byte), bits * kBoth, magic.bits);
  };
  const bool negative = is_signed && x.mask == kByte;
  if (form.half || x.mask < kSign) {
    llvm::Value* pair = x.mask == kByte ? spread : only(x.mask);
    if (negative) pair = b.CreateXor(pair, b.getInt32(kSign * kBoth));  // plus 128
    return LessMagic(b, pair, magic.base + (negative ? 128 : 0), form);
  }
  // Of bf16 seven bits fit behind 128; the eighth makes 256 of another 128. They are, or are not,
  // what a negative number is less than its seven bits.
  llvm::Value* seven = only(kSign - 1);
  llvm::Value* eighth = only(kSign);
  if (negative) return Less(b, seven, eighth, form);
  return Less(b, seven, Less(b, b.getInt32(0x4380 * kBoth), eighth, form), form);
}

// x · times + plus of pairs; constants come as pairs of bits.
llvm::Value* Fma(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* times, llvm::Value* plus,
                 bool half) {
  return CallPtx(b, half ? PtxInst::kFmaF16x2 : PtxInst::kFmaBf16x2, {x, times, plus});
}
uint32_t PairBits(double low, double high, bool half) {
  const auto bits = [&](double v) {
    llvm::APFloat narrow(v);
    bool lost = false;
    narrow.convert(half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
    CHECK(!lost, "a constant of a few bits");
    return static_cast<uint32_t>(narrow.bitcastToAPInt().getZExtValue());
  };
  return bits(high) << 16 | bits(low);
}
// 1 for the low half; for the high one what makes up for its bits' place.
llvm::Value* Places(llvm::IRBuilder<>& b, unsigned apart, bool half) {
  return KeptConstant(b, PairBits(1, std::ldexp(1.0, -static_cast<int>(apart)), half));
}

// Two fields of one word: the word's bits twice, of which the high half keeps its field where it
// is. So it counts 2^apart times as much, which a multiplication by a power of two mends.
llvm::Value* FieldsToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                          const PairForm& form) {
  if (!form.half && !form.bf16_arithmetic) return nullptr;
  const std::optional<TwoFields> fields = FieldsOfWord(low, high);
  const Magic magic(form.half);
  if (!fields || (int64_t{fields->mask} << fields->apart) >= magic.base) return nullptr;
  const unsigned apart = fields->apart;
  llvm::Value* bits = BehindMask(b, SpreadTwice(b, *fields),
                             fields->mask | fields->mask << (apart + 16), magic.bits);
  const int64_t less_high = magic.base >> apart;  // whole: the field's bits are below the base
  const uint32_t less = PairBits(-static_cast<double>(magic.base),
                                 -static_cast<double>(less_high), form.half);
  return SayBehindMagic(b, Fma(b, bits, Places(b, apart, form.half), b.getInt32(less), form.half),
                        magic.base, less_high, apart);
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
  const Magic magic(half);
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

std::vector<llvm::Value*> FieldsLess(llvm::IRBuilder<>& b, const std::vector<llvm::Value*>& x,
                                     const std::vector<llvm::Value*>& y, bool half) {
  const Magic magic(half);
  std::vector<llvm::Value*> out;
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    const MagicHalf low = HalfBehindMagic(x[i]), high = HalfBehindMagic(x[i + 1]);
    const MagicHalf by[2] = {HalfBehindMagic(y[i]), HalfBehindMagic(y[i + 1])};
    if (!low.pair || low.pair != high.pair || low.high || !high.high || low.apart == 0) return {};
    for (const MagicHalf& one : by)
      if (!one.pair || one.apart != 0 || one.less != by[0].less || one.less < magic.base - 1 ||
          one.less > 2 * magic.base)
        return {};
    // (x − c) − (y − d) = x − (y + (c − d)), of the high half 2⁻ⁿ x: integers that fit, all.
    llvm::Value* word[2];
    for (int k : {0, 1}) {
      llvm::Value* of = by[k].high ? b.CreateLShr(by[k].pair, 16) : by[k].pair;
      word[k] = b.CreateAnd(of, b.getInt32(0xffff));
    }
    llvm::Value* less = b.CreateOr(word[0], b.CreateShl(word[1], 16));
    const auto d = static_cast<double>(by[0].less);
    less = Fma(b, less, b.getInt32(PairBits(-1, -1, half)),
               b.getInt32(PairBits(d - static_cast<double>(low.less),
                                   d - static_cast<double>(high.less), half)),
               half);
    out.push_back(Fma(b, low.pair, Places(b, low.apart, half), less, half));
  }
  return out;
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
