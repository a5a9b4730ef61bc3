// Registers that wgmma works on asynchronously.
//
// Only the virtual registers a wgmma names (accumulators, A fragments), and copies of them, are
// watched; ordinary code pays nothing. A plain `mov` between watched registers copies what is known
// instead of counting as an access: leaving SSA form puts such copies into PTX while a group is in
// flight, and ptxas coalesces them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/emulator/judge/clock.h"

namespace tilec::runtime::judge {

struct RegisterUse {
  enum class Kind : uint8_t { kRead, kWrite, kCopyFrom, kCopyTo, kAccumulator, kFragment };
  uint32_t reg;  // number among the watched
  Kind kind;
};

// Which instructions touch watched registers.
struct RegisterMap {
  uint32_t count = 0;
  std::vector<uint32_t> first;  // per pc, and one more; empty: nothing is watched
  std::vector<RegisterUse> uses;
};

struct RegisterTag {
  Epoch written = 0;     // wgmma group that works on it as accumulator
  Epoch reading = 0;     // wgmma group that reads it as A fragment
  uint32_t touched = 0;  // fences the warp had executed, plus one, at the last ordinary access
  uint32_t chained = 0;  // the same at the last wgmma that used it as accumulator
  uint32_t shape = 0;    // of that wgmma
  uint32_t wgmma_pc = 0, touch_pc = 0;
};

struct RegisterTags {
  std::vector<RegisterTag> tags;
  uint32_t fences = 0;
};

}  // namespace tilec::runtime::judge
