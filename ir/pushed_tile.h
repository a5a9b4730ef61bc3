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

constexpr int64_t kMostPushed = 128;  // elements: 4 KB of eight CTAs

struct PushedTile {
  int64_t holders = 1;   // threads that hold different elements
  int64_t replicas = 1;  // threads that hold the same ones
  int64_t registers = 1;
  int64_t elements() const { return holders * registers; }
};

// None: some thread holds nothing, or what another holds, or it is more than what is sent. Rows
// beyond the tile (16 of one query, in an instruction of 64) are sent with it: whoever waits would
// come no earlier without, and every warp has its part in what the barrier counts.
inline std::optional<PushedTile> PushedTileOf(const Layout& layout,
                                              const std::vector<int64_t>& shape) {
  PushedTile out;
  for (const LayoutDigit& d : layout.thread) (d.dim < 0 ? out.replicas : out.holders) *= d.extent;
  out.registers = layout.regs();
  const std::vector<int64_t> covered = layout.Extent();
  int64_t elements = 1;
  bool whole = covered.size() == shape.size();
  for (size_t d = 0; d < covered.size() && whole; ++d) {
    elements *= covered[d];
    whole = covered[d] >= shape[d];
  }
  const bool once = whole && elements == out.elements();
  return once && elements <= kMostPushed ? std::optional(out) : std::nullopt;
}

}  // namespace tilec::ir
