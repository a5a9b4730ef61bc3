// What the files of this folder share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sass/sass.h"

namespace tilec::sass {

// The row of kinds.def for an opcode; −1: none.
int KindOfPtx(std::string_view opcode);
int KindOfSass(std::string_view opcode);
// `*` stands for any text.
bool Matches(std::string_view text, std::string_view pattern);

std::string_view Trimmed(std::string_view text);
// Cut at commas outside of brackets and braces.
std::vector<std::string> SplitOperands(std::string_view text);

// Blocks, edges and loops of code whose instructions are read. `labels`: where each stands; a
// branch to another one leaves the code.
struct LabelAt {
  std::string name;
  int instr = 0;
};
void Cut(const std::vector<LabelAt>& labels, Listing* listing);

// For every instruction the products (as instructions) that may be in flight when it is reached.
std::vector<std::set<int>> InFlight(const Listing& listing);

}  // namespace tilec::sass
