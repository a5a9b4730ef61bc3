// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/wanted.h"

namespace tilec::obeyed {

WantedLoop WantedOf(const scheduler::ProgramSchedule& decided, const scheduler::LoopReport& loop,
                    const SourceMap& sources) {
  const scheduler::Graph& graph = loop.extraction.graph;
  const ir::Schedule& schedule = loop.solution.schedule;
  WantedLoop wanted;
  wanted.ii = schedule.ii;
  wanted.slices = decided.slices;
  wanted.warps = 4 * decided.warpgroups;
  for (const scheduler::GraphOp& op : graph.ops) {
    Wanted w;
    w.name = op.name;
    const LineCol place = sources.Locate(op.at.file, op.at.begin);
    w.at = {place.line, place.column};
    w.slice = decided.slices > 1 ? op.slice : -1;
    w.load = op.variable_latency;
    w.product = op.async && !w.load;
    for (const ir::ScheduledOp& s : schedule.ops)
      if (s.name == op.name) w.cycle = s.cycle;
    for (const ir::Channel& c : schedule.channels)
      if (c.value == op.name && w.load) w.depth = c.depth;
    wanted.ops.push_back(std::move(w));
  }
  for (const scheduler::GraphEdge& e : graph.edges)
    if (e.kind != scheduler::EdgeKind::kOrder)
      wanted.ops[static_cast<size_t>(e.to)].reads.push_back(e.from);
  for (const std::string& note : loop.notes) {
    wanted.awaited_at_end += note.find("under way when its turn ends") != std::string::npos;
    wanted.results_kept =
        wanted.results_kept || note.find("end of the turn of the product") != std::string::npos;
  }
  return wanted;
}

}  // namespace tilec::obeyed
