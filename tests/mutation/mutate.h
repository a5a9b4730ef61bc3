// Mutants of PTX text: each leaves out or changes one act of synchronisation, on one line, so that
// line numbers stay what they are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilec::mutation {

// A way to break a statement, and what the judge must call it.
struct Kind {
  const char* name;
  const char* rules;  // accepted checks, blank-separated
  // Why every mutant of this kind does the same as the original; empty: they do not.
  const char* equivalent;
};
const std::vector<Kind>& Kinds();

struct Mutant {
  size_t kind = 0;
  int line = 0;        // 1-based
  std::string text;    // the new line
  std::string before;  // the old one, without blanks around it
};
std::vector<Mutant> Mutants(const std::string& ptx);
std::string Apply(const std::string& ptx, const Mutant& mutant);

}  // namespace tilec::mutation
