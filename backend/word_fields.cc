// SPDX-License-Identifier: Apache-2.0
#include "backend/word_fields.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

namespace tilec::backend {
namespace {

using namespace llvm::PatternMatch;

constexpr unsigned kWordBits = 32;

// times · of + plus, modulo 2³².
struct Linear {
  llvm::Value* of;
  uint32_t times = 1, plus = 0;
};

Linear LinearOf(llvm::Value* v) {
  constexpr int kMost = 6;
  Linear line{v};
  for (int i = 0; i < kMost && line.of; ++i) {
    const llvm::APInt* c = nullptr;
    llvm::Value* inner = nullptr;
    const auto by = [&] { return static_cast<uint32_t>(c->getZExtValue()); };
    if (match(line.of, m_APInt(c))) {
      line = {nullptr, line.times, line.plus + line.times * by()};
    } else if (match(line.of, m_Add(m_Value(inner), m_APInt(c))) ||
               match(line.of, m_Add(m_APInt(c), m_Value(inner)))) {
      line = {inner, line.times, line.plus + line.times * by()};
    } else if (match(line.of, m_Mul(m_Value(inner), m_APInt(c)))) {
      line = {inner, line.times * by(), line.plus};
    } else if (match(line.of, m_Shl(m_Value(inner), m_APInt(c))) && c->ult(kWordBits)) {
      line = {inner, line.times << by(), line.plus};
    } else {
      break;
    }
  }
  return line;
}

struct ShiftedField {
  llvm::Value *word = nullptr, *shift = nullptr;
  uint32_t mask = 0;
};

ShiftedField ShiftedFieldOf(llvm::Value* v) {
  ShiftedField field;
  const llvm::APInt* mask = nullptr;
  if (!v->getType()->isIntegerTy(kWordBits) ||
      !match(v, m_And(m_LShr(m_Value(field.word), m_Value(field.shift)), m_APInt(mask))))
    return {};
  field.mask = static_cast<uint32_t>(mask->getZExtValue());
  return field;
}

// Does it begin at a byte of the word?
bool AtByte(const llvm::Value* from, const llvm::DataLayout& layout) {
  constexpr unsigned kBits = 3;
  return llvm::computeKnownBits(from, layout).countMinTrailingZeros() >= kBits;
}

}  // namespace

std::optional<TwoFields> FieldsOfWord(llvm::Value* low, llvm::Value* high) {
  const ShiftedField x = ShiftedFieldOf(low), y = ShiftedFieldOf(high);
  if (!x.word || x.word != y.word || x.mask != y.mask) return std::nullopt;
  const Linear from = LinearOf(x.shift), to = LinearOf(y.shift);
  const uint32_t apart = to.plus - from.plus;
  if (from.of != to.of || (from.of && from.times != to.times)) return std::nullopt;
  if (apart == 0 || apart >= kWordBits / 2) return std::nullopt;
  return TwoFields{x.word, x.shift, apart, x.mask};
}

llvm::Value* SpreadTwice(llvm::IRBuilder<>& b, const TwoFields& fields) {
  constexpr uint32_t kLowTwice = 0x1010, kByteTwice = 0x0101;
  const llvm::DataLayout& layout = b.GetInsertBlock()->getModule()->getDataLayout();
  const bool in_byte = (uint64_t{fields.mask} << fields.apart) <= 0xff;
  if (in_byte && AtByte(fields.from, layout)) {
    llvm::Value* at = b.CreateMul(b.CreateLShr(fields.from, 3), b.getInt32(kByteTwice));
    return b.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {},
                             {fields.word, b.getInt32(0),
                              b.CreateOr(at, b.getInt32(kByteTwice << 6))});
  }
  llvm::Value* word = b.CreateLShr(fields.word, fields.from);
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_prmt, {},
                           {word, b.getInt32(0), b.getInt32(kLowTwice)});
}

}  // namespace tilec::backend
