// Loops of one block that run over the same positions and read something more than once: what
// keep_rows.cc may keep, and unrolls.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

constexpr int64_t kMostUnrolledTurns = 32;  // of an unrolled loop

// A load that several loops make: in each of them, the op.
struct KeptLoad {
  std::map<size_t, OpId> in;  // by loop
  bool early = false;         // of one loop, and loaded in front of the first
};

struct RowLoops {
  std::vector<OpId> ids;
  ValueId base;  // they begin `lo` behind it; invalid: behind 0
  int64_t lo = 0, step = 1, turns = 0;
  std::vector<KeptLoad> kept;
  std::vector<KeptLoad> vectors;  // what later loops alone read: scales of columns
  BlockId body(const Function& fn, size_t i) const { return fn.ops[ids[i]].regions[0]; }
  // Is it the position of loop `i`?
  bool IsPosition(const Function& fn, size_t i, ValueId v) const {
    return v == fn.blocks[body(fn, i)].args[0];
  }
};

// Of a block: by their bounds, those that read something again. Bounds are numbers, or a number
// behind where a CTA's part of a loop begins (ir/passes/split_loops.cc).
std::vector<RowLoops> FindLoopsOfRows(const Function& fn, BlockId block);

}  // namespace tilec::ir
