// Which findings are causes, and which merely follow from them.
//
// One wait that is missing makes every access behind it a race: with another line each, with bytes
// that nobody has written yet, with copies in flight at the exit. To a reader that is one mistake.
// Findings that share a line of the program, of PTX or of its source, are taken to have one cause;
// of those the one is shown
// that the execution met first and that names a missing edge between two accesses. What only says
// how things stood at the end (leftovers) follows from whatever went wrong before it.
//
// Nothing is dropped: every finding is a cause or is counted with the cause it follows from.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/emulator/judge/finding.h"

namespace tilec::runtime::judge {

struct Cause {
  size_t root = 0;                   // index into the findings
  std::vector<size_t> consequences;  // likewise, ascending
};

// In the order to be shown: errors before portability before hints, the first seen before later.
std::vector<Cause> FindCauses(const std::vector<Finding>& findings);

// The causes for people: the first in full, in at most kFirstLines lines, then one line for each
// other, at most kOtherCauses. With `all`: every finding in full.
inline constexpr size_t kFirstLines = 25, kOtherCauses = 12;
std::string Summarise(const std::vector<Finding>& findings, bool all);

// A finding in one line: "error[A2] access before completion: k.ptx:12 `ld.shared.b32`".
std::string OneLine(const Finding& finding);

}  // namespace tilec::runtime::judge
