// What callers ask of nests beside their graph: what a scheduled inner loop takes of the machine
// while all its iterations run, role by role, and what it wins to let tiles overlap.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/nest.h"

namespace tilec::scheduler {

UnitProfile ProfileOf(const Graph& graph, const ir::Schedule& schedule, int64_t trips) {
  UnitProfile unit;
  unit.trips = trips;
  const int64_t turns = (trips - 1) * schedule.ii;
  std::vector<int64_t> first(schedule.roles.size(), INT64_MAX), issued(schedule.roles.size(), 0),
      done(schedule.roles.size(), 0);
  int64_t begin = INT64_MAX, end = 0;
  unit.parts.resize(schedule.roles.size());
  for (const ir::ScheduledOp& s : schedule.ops) {
    const GraphOp& op = graph.ops[graph.FindOp(s.name)];
    UnitPart& part = unit.parts[s.role];
    first[s.role] = std::min(first[s.role], s.cycle);
    issued[s.role] = std::max(issued[s.role], s.cycle + op.issue);
    done[s.role] = std::max({done[s.role], s.cycle + op.issue, s.cycle + op.latency});
    begin = std::min(begin, s.cycle);
    end = std::max(end, done[s.role]);
    part.load = part.load || op.variable_latency;
    if (op.slice >= 0) part.slice = op.slice;
    for (const UnitUse& use : op.uses) {
      const auto it = std::find_if(part.uses.begin(), part.uses.end(),
                                   [&](const UnitUse& u) { return u.unit == use.unit; });
      if (it == part.uses.end())
        part.uses.push_back({use.unit, use.cycles * trips});
      else
        it->cycles += use.cycles * trips;
    }
  }
  unit.length = turns + end - begin;
  for (size_t r = 0; r < unit.parts.size(); ++r) {
    unit.parts[r].role = schedule.roles[r].name;
    unit.parts[r].warps = schedule.roles[r].warps;
    if (first[r] == INT64_MAX) continue;
    unit.parts[r].begin = first[r] - begin;
    unit.parts[r].busy = turns + issued[r] - first[r];
    unit.parts[r].latency = turns + done[r] - first[r];
  }
  // Loads of the next tile find a slot once the first of the last `depth` iterations has freed its
  // own.
  int64_t depth = trips;
  for (const ir::Channel& channel : schedule.channels) {
    const GraphOp& op = graph.ops[graph.FindOp(channel.value)];
    if (op.smem_bytes == 0) continue;
    unit.ring_bytes += channel.depth * (op.smem_bytes + graph.machine.barrier_bytes);
    if (op.variable_latency) depth = std::min<int64_t>(depth, channel.depth);
  }
  unit.ahead = std::min(unit.length, depth * schedule.ii);
  return unit;
}

std::string Gain(const Nest& nest, const Solution& solution) {
  const int64_t ii = solution.certificate.ii;
  if (ii >= nest.alone)
    return fmt::format(
        "nothing is won by letting tiles overlap: each takes {} cycles, and no less for the next "
        "one under it",
        nest.alone);
  return fmt::format("tiles overlap: {} cycles for each instead of {} ({:.1f} % saved)", ii,
                     nest.alone, 100.0 * static_cast<double>(nest.alone - ii) / nest.alone);
}

}  // namespace tilec::scheduler
