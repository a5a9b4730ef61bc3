// What copies ask the L2 for beside what their costs say: it answers by lines, and a row that
// begins amid one touches one line more than it fills; CTAs of a cluster that copy for each other
// ask for a part each.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::scheduler {

// How many lines copies of `fn` ask for where one would do: 1 where rows begin at sectors, 2 where
// they do not and a row of a box is one line long (3000×3000×3000 on an H200: boxes with rows of 64
// bytes took 1.25 times as long as with rows of 128). `fn`: cleaned up, at the tile level.
double LinesAsked(const ir::Function& fn, bool rows_cut_sectors);

// Of what a CTA needs, the share that it asks for itself in a cluster that shares copies: its
// part of what neighbours have in common (ir/passes/cluster_tiles.h). 1: nothing is, or the machine
// has no clusters.
double ShareAsked(const ir::Function& fn, const ir::Target& target);

}  // namespace tilec::scheduler
