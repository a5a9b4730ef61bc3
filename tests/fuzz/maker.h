// What the generators of whole kernels write with: dice, and the lines of a body.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/tile_expr.h"

namespace tilec::fuzz {

class KernelMaker {
 protected:
  // `dice`: the program's seed as this generator rolls it.
  KernelMaker(uint64_t seed, uint64_t dice) : rng_(dice) { program_.seed = seed; }

  template <typename T>
  T Pick(std::vector<T> from) {
    return from[static_cast<size_t>(rng_.Below(static_cast<int>(from.size())))];
  }
  void Say(const std::string& indent, const std::string& line) { body_ += indent + line + "\n"; }

  Rng rng_;
  TileProgram program_;
  std::string body_;
};

}  // namespace tilec::fuzz
