// A branch amid the ops of a loop, taken as one op: what it reads of the ops around it, and copies
// of it. Passes that move ops of a loop in time ask here, so that an op with regions is to them an
// op like any other.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/function.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {

// The operands of an op; behind them what its regions read that is made outside of the op, each
// value once, in program order.
std::vector<ValueId> ReadBy(const Function& fn, OpId id);

// The ops in the regions of an op, of regions inside of them too, in program order; no yields.
std::vector<OpId> OpsInside(const Function& fn, OpId id);

// A copy of an op and all that stands in it, at the end of b's block. Values are read as `map` has
// them, and its results are added to it.
OpId CloneWhole(Builder& b, Function& fn, OpId id, ValueMap& map);

// The mark `role`: on the op, or on what its regions compute.
void MarkRole(Function& fn, OpId id, int role);

}  // namespace tilec::ir
