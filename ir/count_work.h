// What a kernel must do, counted on its tile IR by walking grid and loops with sizes only: FLOPs of
// products, other arithmetic, bytes of the tiles it moves and bytes that must move at least. Knows
// no kernel: a causal attention counts half because its loops do.
//
// Tiles that hang over a tensor's edge count for the part inside. Where a loop's bounds or a branch
// depend on tensor contents, one pass is counted and `exact` is false.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

struct WorkCount {
  int64_t instances = 0;                   // of all grids
  std::map<std::string, double> products;  // FLOPs by "dot.<bits of the operands>"
  double whole_flops = 0;                  // of products, what hangs over an edge included
  double arithmetic = 0;                   // elements of elementwise float ops and of reductions
  double loaded_bytes = 0, stored_bytes = 0;
  double least_bytes = 0;  // every element touched moves once
  double far_bytes = 0;    // as loaded and stored, but for tensors that caches hold
  // What comes from memory a second time where all instances are gone through again and again: of
  // tensors that are loaded so often that caches do not hold all of them together.
  double again_bytes = 0;
  std::map<OpId, int64_t> trips;  // of every `for`, over all instances
  std::map<OpId, int64_t> most;   // of them, of one instance that enters it once
  bool exact = true;
  double flops() const;  // of all products
};

struct CountOptions {
  // False: every tile counts as whole and loops that nothing inside steers are walked once, so that
  // the count takes microseconds where the exact one takes as long as there are tiles.
  bool edges = true;
};

// `names`: all dims and integer scalars.
WorkCount CountWork(const Function& fn, const Bindings& names, const Target& target,
                    const CountOptions& options = {});

}  // namespace tilec::ir
