// The decisions of the sequential lowering, taken before any warp op is emitted:
// how many warpgroups, which register layout each tile has, how each product reads its operands.
//
// Layouts are decided for *classes* of values, not for values: elementwise ops, casts and
// loop-carried values tie their operands and results into one class (union-find), so that nothing
// inside a loop needs a conversion unless two products disagree. A class that holds a product's
// result gets that accumulator's layout; a class that is a reduction or broadcast of a decided
// class gets its slice; what is left is blocked for coalesced access. Ops that meet values of two
// layouts convert explicitly (emission, sequential.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

struct OperandPlan {
  enum class How {
    kBuffer,    // the product reads the buffer its load fills
    kRegister,  // a 16-bit A operand straight from the accumulator layout
    kStore,     // computed (or re-laid) tile, written to an own buffer before the product
  };
  How how = How::kStore;
  ValueId source;                 // the tile after stripping transposes and reshapes
  bool trans = false;             // buffer holds [K, M] resp. [K, N]: MN-major
  bool store_transposed = false;  // kStore: element (i, j) of source goes to (j, i)
  bool zero_padding = false;      // kStore: as LoadPlan
  SmemLayout smem;                // kStore
};

struct DotPlan {
  bool tensor_core = false;
  WgSplit split = WgSplit::kNone;
  Layout acc;  // layout of the [M, N] result
  int64_t k_padded = 0;
  int64_t promote = 0;
  OperandPlan a, b;
};

struct LoadPlan {
  bool buffer = false;        // filled into shared memory for a product or for a re-layout
  bool tma = false;           // … by TMA; else by predicated vector loads and smem_store
  bool registers = false;     // also (or only) needed in registers
  bool zero_padding = false;  // buffer cells outside the tile are read by a product: zero them once
  bool kept = false;          // read where it stands, and again below
  OpId shares;                // an equal load above it, whose buffer this one reads again
  SmemLayout smem;
  // TMA only: which tensor dims are the buffer's rows and columns (−1: none).
  int row_dim = -1;
  int col_dim = -1;
};

// Of a store, or of an atomic that the copy engine makes (others have none).
struct StorePlan {
  bool tma = false;         // staged through shared memory, stored by TMA
  bool transposed = false;  // threads write what the stored transpose is made of
  SmemLayout smem;
  int row_dim = -1;
  int col_dim = -1;
};

struct Plan {
  int warpgroups = 1;
  int64_t threads() const { return 128 * warpgroups; }
  std::map<ValueId, Layout> layouts;  // every register tile of squeezed rank > 0
  std::map<OpId, DotPlan> dots;
  std::map<OpId, LoadPlan> loads;
  std::map<OpId, StorePlan> stores;
};

// `warpgroups` of a compute role; 0: chosen from the products and tiles. `runs_ahead`: a role of
// its own may start copies turns before they are needed, so tiles of loops that no product reads as
// they are go by the copy engine, too.
Plan MakePlan(const Function& fn, const Target& target, int warpgroups = 0,
              bool runs_ahead = false);

}  // namespace tilec::ir
