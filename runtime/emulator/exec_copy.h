// What every asynchronous copy checks and signals. Everything a copy will touch is checked when it
// is issued, whenever it lands: nobody else, the judge's shadow memory least of all, is told of an
// address or a size before it is known to lie inside of what the program owns.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

// A stretch of global memory from `address` on. False: a fault was recorded.
bool GlobalRange(const Issuer& by, uint64_t address, const Stretch& needs, bool write);

inline bool Poisons(const Warp& w) {
  return w.cta->cluster->launch->options->landing == Landing::kPoison;
}

// Must a box be checked before it moves? Where it moves at once and nobody is told, the copy's own
// check of every row is enough.
inline bool LooksAhead(const Warp& w) {
  return w.judge != nullptr || w.cta->cluster->launch->options->landing != Landing::kEarly;
}

// Of the lanes of `mask` below l: those that give the instruction the same operands as l.
template <typename Same>
uint32_t Twins(uint32_t mask, int l, Same&& same) {
  uint32_t twins = 0;
  for (uint32_t m = mask & ((1u << l) - 1); m != 0; m &= m - 1)
    if (const int o = __builtin_ctz(m); same(o)) twins |= 1u << o;
  return twins;
}

}  // namespace tilec::runtime::emulator
