// Two fields of bits of one word, a constant number of bits apart, wherever in it the first begins.
//
// Eight weights of four bits in a word, of which a thread multiplies two neighbours: which two, its
// lane says, so the shifts are no constants, but their difference is.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <optional>

namespace tilec::backend {

// (word >> from) & mask and (word >> (from + apart)) & mask.
struct TwoFields {
  llvm::Value* word = nullptr;
  llvm::Value* from = nullptr;  // i32
  unsigned apart = 0;
  uint32_t mask = 0;
};

std::optional<TwoFields> FieldsOfWord(llvm::Value* low, llvm::Value* high);

// The 16 bits of the word from `from` on, twice; nothing is said of those beyond the fields.
llvm::Value* SpreadTwice(llvm::IRBuilder<>& b, const TwoFields& fields);

}  // namespace tilec::backend
