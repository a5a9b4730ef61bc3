// The graphs of tests/schedule, and what tests want to know about a schedule.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// tests/schedule/NAME.graph, parsed and checked; a failure ends the test program.
Graph LoadGraph(const std::string& name);

int RoleOf(const ir::Schedule& schedule, std::string_view op);
int64_t CycleOf(const ir::Schedule& schedule, std::string_view op);
// Ops of a role, or of all roles, that use the unit, in the order of their slots.
std::vector<std::string> OrderOnUnit(const Graph& graph, const ir::Schedule& schedule,
                                     std::string_view unit);
// `order` starts anywhere in the cycle `expected`.
bool SameCycle(std::vector<std::string> order, const std::vector<std::string>& expected);

// Small graphs written in C++.
struct GraphBuilder {
  Graph graph;
  GraphBuilder();
  int Unit(const std::string& name, int64_t capacity = 1);
  int Op(const std::string& name, int64_t issue, int64_t latency, int unit = -1,
         int64_t cycles = 0);
  GraphEdge& Edge(int from, int to, EdgeKind kind = EdgeKind::kRegister, int64_t distance = 0);
};

}  // namespace tilec::scheduler
