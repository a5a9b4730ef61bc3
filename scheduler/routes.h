// Routes (scheduler/graph.h), for whoever looks for schedules: which edges and ops exist depends on
// who shares a role with whom. Once that is decided, a graph with routes is a plain one, and so it
// is for everything that starts from a division into roles. The judges have their own way
// (scheduler/check.cc, scheduler/simulate.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ir/schedule.h"
#include "scheduler/graph.h"
#include "scheduler/needs.h"

namespace tilec::scheduler {

bool HasRoutes(const Graph& graph);

// An edge, and the two ops on whose roles it depends (−1: it always holds).
struct RoutedEdge {
  GraphEdge edge;
  int first = -1, second = -1;
  bool apart = false;  // holds where they are in different roles; false: in one
  bool Holds(const std::vector<int>& group) const {
    return first < 0 || (group[first] != group[second]) == apart;
  }
};
// Those of the graph in their order, then three for each route.
std::vector<RoutedEdge> AllEdges(const Graph& graph);

// The op whose role an op has: itself, or the end of the edge at which it stands in a route.
std::vector<int> RoleOwners(const Graph& graph);

// The edges that hold and what the ops cost when they are divided so. Ops keep their indices; those
// that do not exist cost nothing. Where all share a role, edges keep their indices too.
Graph Routed(const Graph& graph, const std::vector<int>& group);
std::vector<bool> Absent(const Graph& graph, const std::vector<int>& group);

// The graph where nothing crosses: each edge with a route ties its ends to one role, the ops of
// routes are gone. `kept`: the index of each of its ops in `graph`. Whatever schedule it has, the
// graph has too.
Graph WithoutRoutes(const Graph& graph, std::vector<int>* kept);

// Ops that do not exist stand in the role and at the cycle of their owners.
void Settle(const Graph& graph, Placement* placement);

// The graph as the schedule's roles make it, without the ops that do not exist. `kept`, if given:
// the index of each op of the result in the graph.
Graph RoutedBy(const Graph& graph, const ir::Schedule& schedule, std::vector<int>* kept = nullptr);

}  // namespace tilec::scheduler
