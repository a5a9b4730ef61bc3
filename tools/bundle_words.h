// The words of `tilec bundle`: kernels, each with values of which every combination is built.
//
//   gemm.tile:gemm BM=64,128 attention.tile:attention D=64,128 causal=false,true
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::tools {

struct Wanted {
  std::string file;                               // FILE[:KERNEL]
  std::vector<std::vector<std::string>> choices;  // NAME=VALUE, by name
};

// A word that is no NAME=VALUES names a kernel; what follows it are its values.
Result<std::vector<Wanted>> ReadBundleWords(const std::vector<std::string>& words, DiagSink& diags);

// How many combinations there are; stops counting beyond `most`.
size_t CountCombinations(const Wanted& wanted, size_t most);
// Every combination, the last name counting fastest.
std::vector<std::vector<std::string>> Combinations(const Wanted& wanted);

// "a,b" → {a, b}; an empty text is one empty part.
std::vector<std::string> SplitAt(const std::string& text, char at);

}  // namespace tilec::tools
