// Reductions that threads of several warps take part in: everybody stores a part of its own, all
// meet, everybody reads the parts. Where nothing of one depends on the other, several share a
// meeting; so they are made one behind the other, each as soon as the first of them is due.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "ir/function.h"
#include "ir/program_plan.h"

namespace tilec::ir {

constexpr int64_t kMostHeldTogether = 32;

// A reduction through which threads of several warps meet.
bool MeetsAcrossWarps(const Function& fn, const LayoutPlan& tiles, OpId id);
// Elements that a thread holds of a row kept in shared memory from the reduction to who reads the
// tile behind it; 0 where nothing is held that could be read again.
int64_t HeldAcross(const Function& fn, const LayoutPlan& tiles, OpId id);

// The ops of a block in an order of the same meaning. Of reductions for which `meets` holds those
// that wait for equally many others stand together, with what they need in front of them, but no
// more of them than hold kMostHeldTogether elements by `holds`; all else stays where it is. The
// block's own order, where that is not to be had: what is read could have been written in between.
std::vector<OpId> MeetTogether(const Function& fn, BlockId block,
                               const std::function<bool(OpId)>& meets,
                               const std::function<int64_t(OpId)>& holds);
std::vector<OpId> MeetTogether(const Function& fn, BlockId block, const LayoutPlan& tiles);

// Where reductions leave their place for that: whose place among the ops of its block it is, which
// one it is then, and beside which reduction it stands.
std::vector<PlannedChange> PlacesLeft(const Function& fn, const LayoutPlan& tiles);

}  // namespace tilec::ir
