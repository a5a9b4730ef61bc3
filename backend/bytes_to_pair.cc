// Pairs of neighbouring bytes of a word, or of the same bits of both (backend/magic_pairs.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/PatternMatch.h>

#include "backend/kept_constant.h"
#include "backend/magic_pairs.h"

namespace tilec::backend {

namespace {

using namespace llvm::PatternMatch;

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

}  // namespace

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
  const MagicBits magic(form.half);
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
  if (negative) return PairLess(b, seven, eighth, form);
  return PairLess(b, seven, PairLess(b, b.getInt32(0x4380 * kBoth), eighth, form), form);
}

}  // namespace tilec::backend
