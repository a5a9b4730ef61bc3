// What copies ask the L2 for beside what their costs say. It is asked by lines, for each row of a
// box, and a box of a swizzled tile is as wide as a panel of it: narrow panels ask as often as wide
// ones for less. A row that begins amid a line touches one line more than it fills, and one that
// begins amid a sector costs more yet. CTAs of a cluster that copy for each other ask for a part
// each. Of a tensor whose rows are narrow ([K, 8]) an engine asks for each row by itself, and the
// rows that all CTAs ask for at once lie in a few lines.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "ir/function.h"
#include "ir/isa.h"
#include "ir/program_plan.h"
#include "ir/target.h"
#include "support/expr.h"

namespace tilec::scheduler {

// By tensor: a power of two of bytes, at whose multiples its rows begin. Left out: at whole lines.
using RowStarts = std::map<std::string, int64_t>;

using ir::isa::kLineBytes, ir::isa::kSectorBytes;

// Do rows of some tensor that `fn` copies tiles of begin amid a line?
bool CutsLines(const ir::Function& fn, const RowStarts& starts);

struct Asked {
  double times = 1;    // as long as its bytes say: the unit that copies
  double hot = 0;      // … and of rows of narrow tensors, for each CTA that asks for them at once
  double boxes = 1;    // bytes of boxes for each of the tiles: what is copied as whole panels
  double lines = 1;    // where one would do, because rows begin amid sectors
  double written = 1;  // as long as its bytes say: what is stored, likewise
  // What tiles beside each other store at a time is put together in the L2: H200, 24607x28920 of 16
  // bits in boxes of 64 columns by sections of eleven rows of tiles 764 us, by rows of tiles 676,
  // where rows begin at whole lines 375.
  double Written(bool by_columns) const { return 1 + (written - 1) / (by_columns ? 1.4 : 1); }
  double leaves = 0;  // cycles of boxes that an instance stores, beyond what its bytes take
  // What the unit takes where so many CTAs run at a time.
  double Times(int64_t ctas, const ir::Target& target) const {
    return times + hot * static_cast<double>(std::min(ctas, target.limits.sms));
  }
};

// Of all copies of tiles of `fn` together, and of its stores, which is cleaned up, at the tile
// level.
// `names`: sizes, where they are known.
Asked AskedByCopies(const ir::Function& fn, const ir::Target& target, const RowStarts& starts,
                    const Bindings& names);
// How `fn` copies, whatever its sizes are: a plan of its loads and stores alone …
ir::LayoutPlan PlanOfCopies(const ir::Function& fn, const ir::Target& target);
// … and the same by it.
Asked AskedByCopies(const ir::Function& fn, const ir::LayoutPlan& plan, const ir::Target& target,
                    const RowStarts& starts, const Bindings& names);

// Of what a CTA needs, the share that it asks for itself in a cluster that shares copies: its
// part of what neighbours have in common (ir/passes/cluster_tiles.h). 1: nothing is, or the machine
// has no clusters.
double ShareAsked(const ir::Function& fn, const ir::Target& target, int64_t neighbours);

}  // namespace tilec::scheduler
