// Tiles that threads of the load role bring into rings, because no engine copies them: rows that do
// not begin where one can, strides that may be any, rows that are gathered.
//
// The load role is then a warpgroup. Its threads load the tile into registers, wait for a slot,
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
constexpr int64_t kMostHeld = 64;
// Registers of the tiles of one slot that are under way together while the slot is awaited: from
// the first on, as many as are held in kMostHeld.
struct HeldTogether {
  size_t loads = 0;
  int64_t registers = 0;
};
HeldTogether HeldWhileAwaited(const Function& fn, const std::vector<OpId>& brought);
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
// What of the plan's loads is brought: gathers whose positions the load role can know, and, where
// it runs ahead, tiles of narrow rows that an engine could copy, beside wide ones that it copies in
// the same iteration: of [K, 8] it asks for every row by itself, and the rows of all CTAs lie in a
// few lines.
void DecideBrought(const Function& fn, const Target& target, bool runs_ahead, LayoutPlan* plan);
// What no engine copies is loaded where it is read, the others are copied.
void LeaveAll(LayoutPlan* plan);
bool BringsAny(const LayoutPlan& plan);

}  // namespace tilec::ir
