// SPDX-License-Identifier: Apache-2.0
#include "tools/graph_files.h"

#include "api/solution_cache.h"
#include "scheduler/extract.h"
#include "scheduler/load_schedule.h"
#include "support/file.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {
constexpr uint64_t kMaxBytes = 64 << 20;
}

Result<int32_t> AddSource(Session& session, const std::string& path) {
  std::string text, why;
  if (!ReadFile(path, &text, &why, kMaxBytes))
    return session.diags().Report(kFileUnreadable, Span{}, path, why).Place("command line");
  return session.loaded().sources.Add(path, std::move(text));
}

Result<ir::Target> LoadMachine(Session& session) {
  TRY(const api::Machine machine, session.Machine());
  return *machine;
}

namespace {

// A graph has its costs; the machine says what there is of everything.
void PutOn(const ir::Target& machine, scheduler::Graph* graph) {
  graph->machine = scheduler::LimitsOf(machine);
  for (scheduler::Unit& unit : graph->units)
    for (const ir::TargetUnit& known : machine.units)
      if (known.name == unit.name) unit.capacity = known.capacity;
}

}  // namespace

Result<scheduler::Graph> LoadGraph(Session& session, const std::string& path) {
  TRY(const int32_t file, AddSource(session, path));
  const SourceMap& sources = session.loaded().sources;
  TRY(scheduler::Graph graph, scheduler::ParseGraph(sources.text(file), file, session.diags()));
  if (!session.options().machine.empty()) {
    TRY(const ir::Target machine, LoadMachine(session));
    PutOn(machine, &graph);
  }
  TRY_VOID(scheduler::CheckGraph(graph, session.diags()));
  return graph;
}

Result<ir::Schedule> LoadSchedule(Session& session, const std::string& path) {
  TRY(const int32_t file, AddSource(session, path));
  return ir::ParseSchedule(session.loaded().sources.text(file), file, session.diags());
}

Result<ir::Schedule> LoadScheduleFor(Session& session, const scheduler::Graph& graph,
                                     const std::string& path) {
  TRY(const int32_t file, AddSource(session, path));
  return scheduler::LoadSchedule(graph, session.loaded().sources.text(file), file, session.diags());
}

Result<scheduler::Solution> SolveCached(Session& session, const scheduler::Graph& graph,
                                        const scheduler::SolveOptions& options) {
  api::SolutionCache store(session.cache(), session.diags());
  return scheduler::SolveStored(graph, options, &store, session.diags());
}

Result<> WriteResult(Session& session, const std::string& path, const std::string& text) {
  std::string why;
  if (WriteOutput(path, text, &why)) return Done();
  return session.diags().Report(kFileUnwritable, Span{}, path, why).Place("command line");
}

}  // namespace tilec::tools
