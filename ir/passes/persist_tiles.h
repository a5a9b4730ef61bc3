// Persistent kernels: the grid becomes as many CTAs as run at once, each with a loop over tiles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"

namespace tilec::ir {

struct PersistOptions {
  int64_t ctas = 132;  // that run at once: multiprocessors × CTAs on each
  int64_t group = 8;   // rows of a section where two ranges share what they load; 1: none
};

// false: the function has no loop of products that would gain, and is unchanged.
bool PersistTiles(Function& fn, const PersistOptions& options);

}  // namespace tilec::ir
