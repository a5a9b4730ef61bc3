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
// Is what it makes, or stores, one number?
bool IsScalar(const ir::Function& fn, const ir::Op& op);
// The name under which machine files have the op's cost.
std::string CostName(const ir::Function& fn, const ir::Op& op);
// `share`: into how many equal parts a value is cut, of which the op works on one. Products count
// what the machine's unit does for them: whole rows and columns of instructions, and the time that
// reading operands takes.
ir::Work WorkOf(const ir::Target& target, const ir::Function& fn, const ir::Op& op,
                const std::function<int64_t(ir::ValueId)>& share);
// An op of the graph with these costs.
GraphOp CostedOp(const ir::OpCost& cost, const ir::Work& work, Span at);

}  // namespace tilec::scheduler
