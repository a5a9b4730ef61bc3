// Counters of a CTA in shared memory (`CountsIn` of ir/row_run.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tilec::ir {

// How many sets of a row of counters a CTA has: lane l adds to set l mod that many. The sets of a
// counter lie side by side, in banks of their own, so that lanes do not wait for each other. One
// more counter of each set takes what is not to be counted.
// On an H200 (256 counters, random bytes; docs/perf_log.md): one set 2160 GB/s, eight 2350,
// sixteen 3090, 32 3330.
constexpr int64_t CounterSets(int64_t counters) {
  constexpr int64_t kMostBytes = 16'512;  // thirteen CTAs find room
  int64_t sets = 32;                      // one for each lane
  while (sets > 1 && (counters + 1) * sets * 4 > kMostBytes) sets /= 2;
  return sets;
}

}  // namespace tilec::ir
