// Small tiles that each CTA of a cluster sends to all (warp_cluster_reduce with `all`).
//
// What another CTA fetches takes three ways one after the other; what is sent takes one, and of a
// row of sums that is most of what an exchange takes. A layout says who sends: threads that hold
// the same registers share the receivers out, and a slot of the buffer has each element once, a
// thread's registers side by side.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/layout.h"

namespace tilec::ir {

struct PushedTile {
  int64_t holders = 1;   // threads that hold different elements
  int64_t replicas = 1;  // threads that hold the same ones
  int64_t registers = 1;
};

// None: some thread holds nothing, or nobody's element, or the tile is larger than what is sent.
inline std::optional<PushedTile> PushedTileOf(const Layout& layout,
                                              const std::vector<int64_t>& shape) {
  constexpr int64_t kMostElements = 128;  // 4 KB of eight CTAs
  PushedTile out;
  for (const LayoutDigit& d : layout.thread) (d.dim < 0 ? out.replicas : out.holders) *= d.extent;
  out.registers = layout.regs();
  int64_t elements = 1;
  for (int64_t n : shape) elements *= n;
  const bool once = elements == out.holders * out.registers && layout.Extent() == shape;
  return once && elements <= kMostElements ? std::optional(out) : std::nullopt;
}

}  // namespace tilec::ir
