// One line of tests/replay/expected.txt: what a compilation came to, in words that diff well.
//
//   ID: ptx 0f3a…; launch …; by …; role … | role …; rings …; maps …; loops …; code N; ptxas …
//
// The hash is of the PTX text. `ptxas` says registers, bytes spilled and codes of its remarks; it
// follows from the PTX, so it is carried over where the PTX is the one of the expected line.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/solution_store.h"
#include "tests/replay/corpus.h"

namespace tilec::replay {

struct Line {
  std::string id;
  std::vector<std::pair<std::string, std::string>> fields;  // name, value; in order
  std::string ptx, isa;                                     // "": refused
  int emissions = 0;  // warp programs that were emitted before one was taken
};

Line Compile(const Case& c, scheduler::SolutionStore* store);

std::string ToText(const Line& line);        // without a newline
Line LineFromText(const std::string& text);  // `ptx` stays empty
const std::string* Find(const Line& line, const std::string& field);
void Set(Line& line, const std::string& field, std::string value);
// "rings 4×49152 → 3×49152; code 812 → 799"
std::string Differences(const Line& was, const Line& now);
// What `ptxas` says of PTX for a target, as the field wants it.
std::string AskPtxas(const std::string& ptx, const std::string& isa, const std::string& ptxas);

}  // namespace tilec::replay
