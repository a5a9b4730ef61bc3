// What a loop carries from turn to turn, and how parts of its turns that CTAs ran apart become one:
// sums, largest and smallest values, sums that are kept relative to a largest value
// (ir/passes/rescaled_sums.h), and where the first of the largest or smallest values was found:
//
//     m' = max(m, x)      p' = select(x > m, i, p)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/passes/persist_tiles.h"
#include "ir/passes/rescaled_sums.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/slice_columns.h"
#include "ir/uses.h"

namespace tilec::ir {

struct LoopParts {
  OpId loop;
  std::vector<std::string> kinds;  // by result of the loop: add, max, min, place
  std::optional<RescaledSums> rescaled;
  std::map<size_t, size_t> places;  // by result: the largest or smallest value whose place it is
};
// Of a `for` that carries something; or why its parts cannot become one.
std::optional<Obstacle> FindLoopParts(const Function& fn, const Uses& uses, OpId loop,
                                      LoopParts* found);

// Has it an effect, or has an op inside of it?
bool Writes(const Function& fn, OpId id);
// Iterations may go anywhere if they have no effect and nobody writes what they read.
std::optional<Obstacle> MayGoAnywhere(const Function& fn, BlockId block);

// Behind the op that makes m' in the loop: m' or, where there is no largest value yet, 0, for all
// who read m' but the next iteration. Nothing, where the loop guards itself.
void GuardReference(Function& fn, const LoopParts& parts);

// v of the loop's body, with other values in place of some, at the end of b's block.
ValueId ClonedFrom(Builder& b, Function& fn, BlockId body, ValueId v, ValueMap& map);

// What the CTAs of a cluster have of sums that are kept relative to a largest value, by result of
// the loop. `all`: each of them gets it. `slices`, if more than one: each gets its run of columns
// of what `sliced` names, and all of the rest.
std::map<size_t, ValueId> CombineRescaled(Builder& b, Function& fn, const LoopParts& parts,
                                          bool all, const Slices& slices = {},
                                          const std::set<size_t>& sliced = {});

// Likewise largest and smallest values, and their places. Those of the first CTA are taken that has
// such a value: its turns come before those of others. `z`: the CTA's rank.
std::map<size_t, ValueId> CombinePlaces(Builder& b, Function& fn, const LoopParts& parts, ValueId z,
                                        bool all);

// The op among `behind` that reduces what a loop made, as the loop would, if nobody else uses it.
OpId ReducedBehind(const Function& fn, const Uses& uses, ValueId result, const std::string& kind,
                   const std::vector<OpId>& behind);

// The first and the end of the turns that CTA `z` of `ctas` runs: neighbours.
std::pair<ValueId, ValueId> TurnsOf(Builder& b, const Op& loop, ValueId z, int64_t ctas);

// The grid gets a new first range of `ctas`, a cluster; its variable.
ValueId AddClusterRange(Function& fn, OpId grid, int64_t ctas);

}  // namespace tilec::ir
