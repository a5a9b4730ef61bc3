// Waits of a turn: none stronger than the order demands, and none missing. For products it is
// registers that tell: the result of one that is under way is not read, nor its register operand
// written; and no turn leaves more of them under way than the one before. For rings it is the
// graph: who reads one awaits its full barrier in the same turn.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/obeyed/compare.h"

namespace tilec::obeyed {

struct Awaited {
  std::vector<std::string> faults;
  int waits = 0;
  int chained = 0;       // Verdict::chained
  std::set<int> needed;  // Verdict::needed
};

Awaited CheckWaits(const Code& code, const WantedLoop& wanted, const std::vector<Event>& turn);

struct Filled {
  int64_t end = 0;      // byte behind its full barriers
  std::set<int> loads;  // that fill it
};
using FilledRings = std::map<int64_t, Filled>;  // by their first full barrier's byte

Awaited CheckFullBarriers(const Code& code, const WantedLoop& wanted, const FilledRings& rings,
                          const std::vector<Event>& turn, int slice);

}  // namespace tilec::obeyed
