// Tiles that threads of the load role bring into rings, because no engine copies them: rows that do
// not begin where one can, strides that may be any, rows that are gathered.
//
// The load role is then a warpgroup. Its threads wait for a slot, load the tile into registers,
// store it where the product reads it, fence, and each warp arrives at the full barrier, beside the
// copies of the same slot that the engine makes. Positions of gathered rows are tiles themselves:
// the load role computes those for itself that are made, element by element, of what it can load.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/program_plan.h"
#include "ir/target.h"

namespace tilec::ir {

// May threads of the load role bring this tile, where no copy does?
bool MayBeBrought(const Function& fn, const Op& load, const Target& target);
// Registers that each of them holds it in, and how: as many elements of a row as go at once, or
// those of a word. Lanes side by side then read neighbouring bytes.
int64_t HeldToBring(const Function& fn, const Op& load);
Layout BroughtLayout(const Function& fn, const Op& load);

// How threads of the load role hold the positions of gathered rows, and what they are made of.
// Tiles that lie differently want the same positions in other threads: then they are made once
// more.
struct BroughtPositions {
  std::map<ValueId, Layout> layouts;
  std::set<OpId> loads;  // that read them so
};
// nullopt: some cannot be known to it.
std::optional<std::vector<BroughtPositions>> PositionsToBring(const Function& fn,
                                                              const LayoutPlan& plan);
// Leaves those gathers where they are read whose positions the load role cannot know.
void LeaveUnknown(const Function& fn, LayoutPlan* plan);
void LeaveAll(LayoutPlan* plan);
bool BringsAny(const LayoutPlan& plan);

}  // namespace tilec::ir
