// A loop's schedule as its lowering wants it (ir/loop_plan.h): compute roles by number, cycles by
// op of the function.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ir/loop_plan.h"
#include "scheduler/program.h"

namespace tilec::scheduler {

std::map<std::string, int> RolesByName(const ir::Schedule& schedule);

// Compute role of each scheduled role: the slice whose ops it runs. nullopt: it mixes slices.
std::optional<std::map<int, int>> ComputeRoles(const Graph& graph, const ir::Schedule& schedule,
                                               int slices);

// The same where roles are as scheduled: numbered by their names, in the order in which they come.
std::map<int, int> NamedRoles(const Graph& graph, const ir::Schedule& schedule,
                              std::map<std::string, int>* numbers);

ir::LoopSchedule ToLoopSchedule(const ir::Function& fn, const LoopReport& report,
                                const std::map<int, int>& compute, int slices);

}  // namespace tilec::scheduler
