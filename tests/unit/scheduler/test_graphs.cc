// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/test_graphs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tilec::scheduler {

Graph LoadGraph(const std::string& name) {
  const std::string path = std::string(TILEC_SOURCE_DIR) + "/tests/schedule/" + name + ".graph";
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  SourceMap sources;
  DiagSink diags;
  const int32_t file = sources.Add(path, text.str());
  Result<Graph> graph = ParseGraph(text.str(), file, diags);
  if (!in || !graph.ok() || !CheckGraph(*graph, diags).ok()) {
    std::fprintf(stderr, "cannot load %s\n%s", path.c_str(), RenderAll(diags, sources).c_str());
    std::abort();
  }
  return *graph;
}

int RoleOf(const ir::Schedule& schedule, std::string_view op) {
  for (const ir::ScheduledOp& o : schedule.ops)
    if (o.name == op) return o.role;
  return -1;
}

int64_t CycleOf(const ir::Schedule& schedule, std::string_view op) {
  for (const ir::ScheduledOp& o : schedule.ops)
    if (o.name == op) return o.cycle;
  return -1;
}

std::vector<std::string> OrderOnUnit(const Graph& graph, const ir::Schedule& schedule,
                                     std::string_view unit) {
  const int f = graph.FindUnit(unit);
  std::vector<std::pair<int64_t, std::string>> users;
  for (const GraphOp& op : graph.ops)
    for (const UnitUse& use : op.uses)
      if (use.unit == f && use.cycles > 0)
        users.emplace_back(CycleOf(schedule, op.name) % schedule.ii, op.name);
  std::sort(users.begin(), users.end());
  std::vector<std::string> names;
  for (auto& user : users) names.push_back(user.second);
  return names;
}

bool SameCycle(std::vector<std::string> order, const std::vector<std::string>& expected) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order == expected) return true;
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  return order == expected;
}

GraphBuilder::GraphBuilder() {
  graph.name = "small";
  graph.machine.name = "test";
}

int GraphBuilder::Unit(const std::string& name, int64_t capacity) {
  graph.units.push_back({name, capacity});
  return static_cast<int>(graph.units.size()) - 1;
}

int GraphBuilder::Op(const std::string& name, int64_t issue, int64_t latency, int unit,
                     int64_t cycles) {
  GraphOp op;
  op.name = name;
  op.kind = "op";
  op.issue = issue;
  op.latency = latency;
  if (unit >= 0) op.uses.push_back({unit, cycles});
  graph.ops.push_back(op);
  return static_cast<int>(graph.ops.size()) - 1;
}

GraphEdge& GraphBuilder::Edge(int from, int to, EdgeKind kind, int64_t distance) {
  GraphEdge edge;
  edge.from = from;
  edge.to = to;
  edge.kind = kind;
  edge.delay = graph.ops[from].latency;
  edge.distance = distance;
  graph.edges.push_back(edge);
  return graph.edges.back();
}

}  // namespace tilec::scheduler
