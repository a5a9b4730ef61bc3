// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.h"

#include <fmt/format.h>

#include "explain/diagnostics.h"
#include "explain/internal.h"

namespace tilec::explain {

Result<Explanation> Explain(const scheduler::Graph& graph, const ir::Schedule& schedule,
                            const Proof& proof, const SourceMap& sources, DiagSink& diags) {
  Explanation e;
  e.graph = graph;
  e.schedule = schedule;
  e.report = scheduler::Check(graph, schedule);
  const Span place = graph.ops.empty() ? Span{} : graph.ops.front().at;
  for (const scheduler::Violation& v : e.report.violations)
    if (v.law == "complete") return diags.Report(kNotThisGraph, place, graph.name, v.text);
  if (const uint64_t hash = scheduler::Hash(graph);
      schedule.graph_hash != 0 && schedule.graph_hash != hash)
    diags.Report(kOtherGraph, place, graph.name, schedule.graph_hash, hash);
  e.certificate = proof.certificate;
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
