// SPDX-License-Identifier: Apache-2.0
#include "scheduler/load_schedule.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/check.h"
#include "scheduler/diagnostics.h"
#include "scheduler/routes.h"
#include "support/lines.h"
#include "support/nearest.h"

namespace tilec::scheduler {

namespace {

// Where the file speaks of an op: its `op` line.
std::map<std::string, Span> OpLines(std::string_view text, int32_t file) {
  std::map<std::string, Span> lines;
  for (const TextLine& line : SplitLines(text, file))
    if (line.words.size() >= 2 && line.words[0].text == "op")
      lines.try_emplace(std::string(line.words[1].text), line.span);
  return lines;
}

std::string Places(const Graph& graph, const std::vector<int>& ops) {
  std::string text;
  for (int v : ops) text += (text.empty() ? "" : ", ") + graph.ops[v].name;
  return text;
}

}  // namespace

Result<ir::Schedule> LoadSchedule(const Graph& graph, std::string_view text, int32_t file,
                                  DiagSink& diags) {
  TRY(ir::Schedule schedule, ir::ParseSchedule(text, file, diags));
  const std::map<std::string, Span> lines = OpLines(text, file);
  const auto place = [&](const std::string& op) {
    const auto it = lines.find(op);
    return it == lines.end() ? Span{file, 0, 0} : it->second;
  };

  // Ops that moved: gone from the graph, or new in it.
  std::set<std::string> scheduled;
  std::vector<std::string> free_names, gone, fresh;
  for (const ir::ScheduledOp& op : schedule.ops) scheduled.insert(op.name);
  for (const GraphOp& op : RoutedBy(graph, schedule).ops)
    if (scheduled.count(op.name) == 0) free_names.push_back(op.name);
  for (const std::string& name : scheduled)
    if (graph.FindOp(name) < 0) gone.push_back(name);
  fresh = free_names;
  if (!gone.empty() || !fresh.empty()) {
    DiagBuilder report = diags.Report(kScheduleMoved, place(gone.empty() ? "" : gone.front()),
                                      graph.name, gone.size(), fresh.size());
    for (const std::string& name : gone) {
      const std::string near = NearestName(name, free_names);
      report.Note(near.empty()
                      ? fmt::format("`{}` is not in the graph", name)
                      : fmt::format("`{}` is not in the graph: is it `{}` now?", name, near));
    }
    for (const std::string& name : fresh)
      report.Note(fmt::format("`{}` has no cycle and no role", name));
    return report.Help("solve again, or give every op of the graph an `op` line");
  }

  const CheckReport judged = Check(graph, schedule);
  const uint64_t hash = Hash(graph);
  if (!judged.violations.empty()) {
    const Violation& first = judged.violations.front();
    DiagBuilder report = diags.Report(
        kScheduleUnlawful, place(first.ops.empty() ? "" : graph.ops[first.ops.front()].name),
        graph.name, first.law, first.text);
    for (size_t i = 1; i < first.ops.size(); ++i)
      if (const Span span = place(graph.ops[first.ops[i]].name); span.known())
        report.Label(span, "with this");
    for (size_t i = 1; i < judged.violations.size(); ++i) {
      const Violation& v = judged.violations[i];
      report.Note(fmt::format("{}: {}{}", v.law, v.text,
                              v.ops.empty() ? "" : " (" + Places(graph, v.ops) + ")"));
    }
    if (schedule.graph_hash != hash)
      report.Note(
          fmt::format("it was made for graph {:016x}, this is {:016x}", schedule.graph_hash, hash));
    return report;
  }
  if (schedule.graph_hash != hash) {
    diags.Report(kScheduleOld, Span{file, 0, 0}, graph.name, fmt::format("{:016x}", hash),
                 fmt::format("{:016x}", schedule.graph_hash));
    schedule.graph_hash = hash;
  }
  return schedule;
}

}  // namespace tilec::scheduler
