// Mutants of PTX text: each leaves out, changes or moves one act of synchronisation, so that line
// numbers stay what they are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilec::mutation {

// A way to break a statement, and what the judge must call it.
struct Kind {
  const char* name;
  const char* rules;  // accepted checks, blank-separated; `*`: all, and `output`
  // Why every mutant of this kind does the same as the original; empty: they do not.
  const char* equivalent;
};
const std::vector<Kind>& Kinds();
// Is the check one of the kind's?
bool Accepts(const Kind& kind, const std::string& id);

struct Mutant {
  size_t kind = 0;
  int line = 0;        // 1-based
  std::string text;    // the new line
  std::string before;  // the old one, without blanks around it
  int left_line = 0;   // 1-based; not 0: this line goes, its statement is part of `text` now
};
// `all_kinds`: also cp.async and its groups, fences, orders of atomics, and statements with a
// comment behind them: kernels that anybody wrote.
std::vector<Mutant> Mutants(const std::string& ptx, bool all_kinds = false);
// Why it is the same program, where the text shows it (equivalent.cc); null: it does not.
const char* ShownEquivalent(const std::string& ptx, const Mutant& mutant);

std::string Apply(const std::string& ptx, const Mutant& mutant);

// The original with a trap in front of the statement, under the same predicate.
Mutant TrapBefore(const Mutant& mutant);

// The statement of the original with its mbarrier initialised once more in front of it (behind it,
// if that is what it does): the emulator then says which one it is. None: it is about no mbarrier.
std::optional<Mutant> InitialisedTwice(const Mutant& mutant);

}  // namespace tilec::mutation
