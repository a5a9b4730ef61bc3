// What a checked launch could have done cheaper: sums per instruction of what it took and what
// would have done. Nothing here is wrong, and nothing here is time: a wavefront that no warp waits
// for costs little.
//
//   B1  wavefronts of accesses to shared memory: 32 banks of 4 bytes
//   B2  sectors of 32 bytes of global memory that the lanes of an access touch together
//   B3  the same for the rows of a tensor copy's box
//   B4  waits that come right behind what they wait for, while nothing else is in flight
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "runtime/emulator/judge/finding.h"

namespace tilec::runtime::judge {

struct Cost {
  uint64_t times = 0;  // executions
  uint64_t took = 0, needed = 0;
  uint64_t worst = 0;            // of one execution, what it took beyond what it needed
  uint32_t warp = 0, lanes = 0;  // of the first that took more
  uint64_t cluster = 0;
};

// By check and pc.
using Costs = std::map<std::pair<Rule, uint32_t>, Cost>;

inline constexpr uint32_t kSector = 32;  // bytes
// Below so many executions a wait is no loop's; of so many in a hundred it must be said.
inline constexpr uint64_t kFewestWaits = 4, kMostlyPercent = 90;

// Is it worth a word?
bool Wasteful(Rule rule, const Cost& cost);
// "128 accesses took 4096 sectors of 32 bytes where 512 would do (8.0 times)".
std::string CostMessage(Rule rule, const Cost& cost);
std::string CostFix(Rule rule);

}  // namespace tilec::runtime::judge
