// Pairs of 16-bit floats made of integers by bits: what the conversions of small_ints.h share.
//
// An integer of few bits behind the exponent of a power of two is a float, 2ⁿ and the integer; one
// subtraction leaves its value. Where the integers come from says which file makes the pair: bytes
// of a word (bytes_to_pair.cc), fields of one word (fields_to_pair.cc), anything that is seen to be
// small (small_ints.cc). The last step is marked, so that a difference of two such pairs can leave
// it out (WithoutMagic).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>

#include "backend/small_ints.h"

namespace tilec::backend {

// The bits of a float between 2ⁿ and 2ⁿ⁺¹, of n bits behind the point: 2ⁿ and an integer.
struct MagicBits {
  explicit MagicBits(bool half) : base(half ? 1024 : 128), bits(half ? 0x6400 : 0x4300) {}
  int64_t base;
  uint32_t bits;
};
inline constexpr uint32_t kBoth = 0x00010001;  // times 16 bits: both halves

// x − y, both pairs, of which `y` comes without its sign where there is no subtraction.
llvm::Value* PairLess(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const PairForm& form);
// The same of an integer; nullptr if it has more bits than fit.
llvm::Value* PairLess(llvm::IRBuilder<>& b, llvm::Value* x, int64_t by, const PairForm& form);

// Says of the last step of a conversion that is exact in all steps what it subtracted: bits that
// are 2ⁿ and an integer below it, less 2ⁿ and a constant. Both halves have one constant, or what
// they are the high half of, `apart` bits up, has its own. Gives `pair`.
llvm::Value* SayBehindMagic(llvm::IRBuilder<>& b, llvm::Value* pair, int64_t low, int64_t high,
                            unsigned apart);
// PairLess, and that said.
llvm::Value* LessMagic(llvm::IRBuilder<>& b, llvm::Value* x, int64_t by, const PairForm& form);

// A half of such a pair: the bits that it was before the last step, by which power of two they
// count more than they should, and what was subtracted then.
struct MagicHalf {
  llvm::Value* pair = nullptr;
  bool high = false;
  int64_t less = 0;
  unsigned apart = 0;
};

// No pair: it is none.
MagicHalf HalfBehindMagic(llvm::Value* half);

// Bits of both halves behind magic ones.
llvm::Value* BehindMask(llvm::IRBuilder<>& b, llvm::Value* both, uint32_t mask, uint32_t magic);

// Of what small_ints.h names; nullptr: it is not that.
llvm::Value* BytesToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                         const PairForm& form);
llvm::Value* FieldsToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                          const PairForm& form);

}  // namespace tilec::backend
