// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.h"

#include <fmt/format.h>

#include "explain/diagnostics.h"
#include "explain/internal.h"
#include "scheduler/routes.h"

namespace tilec::explain {

namespace {

// The graph that the schedule's roles make of the problem, and what is known of it.
Proof TakeRoutes(Explanation* e, const Proof& proof) {
  std::vector<int> kept;
  e->graph = scheduler::RoutedBy(e->problem, e->schedule, &kept);
  e->shown.assign(e->problem.ops.size(), -1);
  Proof known = proof;
  known.members.clear();
  for (size_t v = 0; v < kept.size(); ++v) {
    e->shown[static_cast<size_t>(kept[v])] = static_cast<int>(v);
    if (!proof.members.empty()) known.members.push_back(proof.members[kept[v]]);
  }
  // Bounds hold for every division among roles, so their sums are not this graph's.
  e->bounds = scheduler::AllBounds(e->problem);
  for (scheduler::Bound& bound : e->bounds) {
    bound.unit = -1;
    bound.edges.clear();
    for (int& op : bound.ops) op = e->shown[op];
  }
  e->report = scheduler::Check(e->graph, e->schedule);
  return known;
}

}  // namespace

std::vector<Reason> Shown(const Explanation& e, std::vector<Reason> reasons) {
  for (Reason& reason : reasons) {
    for (int& op : reason.ops) op = e.shown.empty() ? op : e.shown[op];
    std::erase(reason.ops, -1);
  }
  return reasons;
}

Result<Explanation> Explain(const scheduler::Graph& graph, const ir::Schedule& schedule,
                            const Proof& as_given, const SourceMap& sources, DiagSink& diags) {
  Explanation e;
  e.problem = e.graph = graph;
  e.schedule = schedule;
  e.report = scheduler::Check(graph, schedule);
  const Span place = graph.ops.empty() ? Span{} : graph.ops.front().at;
  for (const scheduler::Violation& v : e.report.violations)
    if (v.law == "complete") return diags.Report(kNotThisGraph, place, graph.name, v.text);
  if (const uint64_t hash = scheduler::Hash(graph);
      schedule.graph_hash != 0 && schedule.graph_hash != hash)
    diags.Report(kOtherGraph, place, graph.name, schedule.graph_hash, hash);
  const Proof proof = scheduler::HasRoutes(graph) ? TakeRoutes(&e, as_given) : as_given;
  e.certificate = proof.certificate;
  e.unlike = proof.unlike;
  ReadFacts(&e, proof, sources);
  ReadEvents(&e);
  ReadReasons(&e, proof);
  return e;
}

std::string Names(const scheduler::Graph& graph, const std::vector<int>& ops,
                  const std::string& between, size_t most) {
  std::string text;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i == most) return text + fmt::format("{}{} more", between, ops.size() - i);
    text += (i > 0 ? between : "") + graph.ops[ops[i]].name;
  }
  return text;
}

std::string TextOf(const ProgramLine& line) {
  return line.times > 1 ? fmt::format("{}, {} times", line.text, line.times) : line.text;
}

std::string Count(int64_t n, const std::string& word) {
  return fmt::format("{} {}{}", n, word, n == 1 ? "" : "s");
}

std::string SizeText(const LifeFacts& life) {
  if (life.medium == "smem") return Count(life.size, "byte");
  if (life.medium == "tmem") return Count(life.size, "column");
  return Count(life.size, "register");
}

}  // namespace tilec::explain
