// Pairs of fields of one word, and differences of such (backend/magic_pairs.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <llvm/ADT/APFloat.h>
#include <llvm/IR/Constants.h>

#include <cmath>
#include <optional>

#include "backend/kept_constant.h"
#include "backend/magic_pairs.h"
#include "backend/ptx_asm.h"
#include "backend/word_fields.h"
#include "support/check.h"

namespace tilec::backend {

namespace {

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

}  // namespace

// Two fields of one word: the word's bits twice, of which the high half keeps its field where it
// is. So it counts 2^apart times as much, which a multiplication by a power of two mends.
llvm::Value* FieldsToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                          const PairForm& form) {
  if (!form.half && !form.bf16_arithmetic) return nullptr;
  const std::optional<TwoFields> fields = FieldsOfWord(low, high);
  const MagicBits magic(form.half);
  if (!fields || (int64_t{fields->mask} << fields->apart) >= magic.base) return nullptr;
  const unsigned apart = fields->apart;
  llvm::Value* bits = BehindMask(b, SpreadTwice(b, *fields),
                                 fields->mask | fields->mask << (apart + 16), magic.bits);
  const int64_t less_high = magic.base >> apart;  // whole: the field's bits are below the base
  const uint32_t less =
      PairBits(-static_cast<double>(magic.base), -static_cast<double>(less_high), form.half);
  return SayBehindMagic(b, Fma(b, bits, Places(b, apart, form.half), b.getInt32(less), form.half),
                        magic.base, less_high, apart);
}

std::vector<llvm::Value*> FieldsLess(llvm::IRBuilder<>& b, const std::vector<llvm::Value*>& x,
                                     const std::vector<llvm::Value*>& y, bool half) {
  const MagicBits magic(half);
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

}  // namespace tilec::backend
