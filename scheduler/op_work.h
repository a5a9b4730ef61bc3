// How much work a tile op is, in the terms of a machine file's cost rows.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

bool IsMemory(ir::OpKind kind);
// The name under which machine files have the op's cost.
std::string CostName(const ir::Function& fn, const ir::Op& op);
// `share`: into how many equal parts a value is cut, of which the op works on one. Products count
// what the machine's unit does for them: whole rows and columns of instructions, and the time that
// reading operands takes.
ir::Work WorkOf(const ir::Target& target, const ir::Function& fn, const ir::Op& op,
                const std::function<int64_t(ir::ValueId)>& share);
// As often as its rows say threads hold a tile's elements: rows of what products make, and of what
// is computed of them, are padded to whole instructions, each of `parts` for itself.
double HeldTimes(const ir::Target& target, const ir::Function& fn, ir::ValueId v, int64_t parts);
// … and of one part the bytes.
int64_t HeldBytes(const ir::Target& target, const ir::Function& fn, ir::ValueId v, int64_t parts);
// An op of the graph with these costs.
GraphOp CostedOp(const ir::OpCost& cost, const ir::Work& work, Span at);

}  // namespace tilec::scheduler
