// Integers of few bits as floats, without the conversion unit.
//
// Weights in 8 or 4 bits become products' operands in a loop, millions of them an iteration of all
// threads, and conversions from integers pass through a unit that takes a fraction of what the
// others do. But the bits of a float between 2²³ and 2²⁴ are its integer part and a constant: an
// integer under 2²² is put there by one logic instruction (a byte of a word by one permutation,
// which also takes it out of the word), and one subtraction leaves its value. All of it is exact.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

namespace tilec::backend {

// `v` as f32, +0 for 0; nullptr if it is not seen to lie in [−2²², 2²²).
llvm::Value* SmallIntToF32(llvm::IRBuilder<>& b, llvm::Value* v, bool is_signed);

// Both as bf16 (f16 if `half`), low half first; nullptr if they are not seen to be neighbouring
// bytes of a word or the same bits of them, two fields of one word, or a common constant and
// something in [0, 128) (f16: [0, 1024)). Three or four instructions for two. `bf16_arithmetic`:
// the GPU subtracts bf16; where it only multiplies and adds them, it does that.
struct PairForm {
  bool is_signed, half, bf16_arithmetic;
};
llvm::Value* SmallIntsToPair(llvm::IRBuilder<>& b, llvm::Value* low, llvm::Value* high,
                             const PairForm& form);

// Of a difference x − y of integers that SmallIntsToPair made, all of one kind: the magic bits that
// it subtracted of both cancel, so they stay, and each pair of x costs one subtraction less.
// Nothing happens to others.
void WithoutMagic(llvm::IRBuilder<>& b, std::vector<llvm::Value*>* x, std::vector<llvm::Value*>* y);

// Such a difference where x are fields of a word that kept their place: the pairs themselves, by
// one multiplication and addition each; empty: they are not.
std::vector<llvm::Value*> FieldsLess(llvm::IRBuilder<>& b, const std::vector<llvm::Value*>& x,
                                     const std::vector<llvm::Value*>& y, bool half);

}  // namespace tilec::backend
