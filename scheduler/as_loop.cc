// SPDX-License-Identifier: Apache-2.0
#include "scheduler/as_loop.h"

#include <algorithm>

#include "support/expr.h"

namespace tilec::scheduler {

using ir::Function;
using ir::OpId;

std::map<std::string, int> RolesByName(const ir::Schedule& schedule) {
  std::map<std::string, int> roles;
  for (const ir::ScheduledOp& op : schedule.ops) roles[op.name] = op.role;
  return roles;
}

std::optional<std::map<int, int>> ComputeRoles(const Graph& graph, const ir::Schedule& schedule,
                                               int slices) {
  std::map<int, int> compute;
  const std::map<std::string, int> roles = RolesByName(schedule);
  for (const GraphOp& op : graph.ops) {
    const auto role = roles.find(op.name);
    if (op.variable_latency || role == roles.end()) continue;
    const int slice = slices == 1 ? 0 : op.slice;
    if (slice < 0) continue;
    const auto [it, fresh] = compute.try_emplace(role->second, slice);
    if (it->second != slice) return std::nullopt;
  }
  return compute;
}

std::map<int, int> NamedRoles(const Graph& graph, const ir::Schedule& schedule,
                              std::map<std::string, int>* numbers) {
  std::map<int, int> compute;
  const std::map<std::string, int> roles = RolesByName(schedule);
  for (const GraphOp& op : graph.ops) {
    const auto role = roles.find(op.name);
    if (op.variable_latency || role == roles.end()) continue;
    const std::string& name = schedule.roles[static_cast<size_t>(role->second)].name;
    compute[role->second] =
        numbers->try_emplace(name, static_cast<int>(numbers->size())).first->second;
  }
  return compute;
}

ir::LoopSchedule ToLoopSchedule(const Function& fn, const LoopReport& report,
                                const std::map<int, int>& compute, int slices) {
  ir::LoopSchedule out;
  const Graph& graph = report.extraction.graph;
  const ir::Schedule& schedule = report.solution.schedule;
  out.ii = schedule.ii;
  if (const int tensor = graph.FindUnit("tensor"); tensor >= 0)
    for (const GraphOp& op : graph.ops)
      for (const UnitUse& use : op.uses)
        if (use.unit == tensor) out.tensor += use.cycles;
  std::map<std::string, int64_t> cycles;
  for (const ir::ScheduledOp& op : schedule.ops) cycles[op.name] = op.cycle;
  const std::map<std::string, int> roles = RolesByName(schedule);
  for (size_t g = 0; g < graph.ops.size(); ++g) {
    const std::string& name = graph.ops[g].name;
    if (roles.count(name) == 0) continue;  // a route that is not taken
    const auto role = compute.find(roles.at(name));
    for (OpId id : report.extraction.origins[g].members()) {
      if (ir::IsReplicated(fn, fn.ops[id])) continue;
      if (role == compute.end() || (slices > 1 && fn.ops[id].attr("slice") == nullptr))
        out.replicated.insert(id);
      else
        out.ops[id] = {role->second, cycles.at(name)};
    }
  }
  for (const ir::OrderEdge& edge : schedule.order) {
    const int from = graph.FindOp(edge.from), to = graph.FindOp(edge.to);
    if (!edge.enforced || from < 0 || to < 0) continue;
    const auto main = [&](int g) {
      const OpOrigin& origin = report.extraction.origins[static_cast<size_t>(g)];
      return origin.steps[static_cast<size_t>(origin.main)].op;
    };
    if (!main(from).valid() || !main(to).valid()) continue;
    // A branch passes no token: it is one role's, as all of such a loop is.
    if (!fn.ops[main(from)].regions.empty() || !fn.ops[main(to)].regions.empty()) continue;
    out.tokens.push_back(
        {main(from), main(to), CeilDiv(cycles.at(edge.from) - cycles.at(edge.to), schedule.ii)});
  }
  return out;
}

}  // namespace tilec::scheduler
