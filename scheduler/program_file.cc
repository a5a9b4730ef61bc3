// Schedules of a kernel from a file. What the file says is obeyed or refused, never replaced: its
// ops must be those of the loops, every law must hold, and every role must be one that the lowering
// can make.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/row_classes.h"
#include "scheduler/diagnostics.h"
#include "scheduler/load_schedule.h"
#include "scheduler/nest.h"
#include "scheduler/program_cut.h"
#include "support/lines.h"
#include "support/nearest.h"

namespace tilec::scheduler {

namespace {

constexpr int kMostSlices = 3;

// The part of a file that speaks of one loop.
struct Section {
  std::string name;
  Span at;
  std::string text;  // all else blanked, so that places are those of the whole file
  ir::Schedule schedule;
};

Result<std::vector<Section>> SplitSections(const ScheduleFile& file, DiagSink& diags) {
  std::vector<std::pair<size_t, size_t>> ranges;
  std::vector<Section> sections;
  const char* const start = file.text.data();
  for (const TextLine& line : SplitLines(file.text, file.file)) {
    if (line.words[0].text != "schedule") continue;
    const size_t at = static_cast<size_t>(line.words[0].text.data() - start);
    if (!ranges.empty()) ranges.back().second = at;
    ranges.emplace_back(ranges.empty() ? 0 : at, file.text.size());
    sections.push_back({"", line.span, "", {}});
  }
  if (ranges.empty()) {  // the parser says what is missing
    ranges.emplace_back(0, file.text.size());
    sections.push_back({"", Span{file.file, 0, 0}, "", {}});
  }
  for (size_t i = 0; i < sections.size(); ++i) {
    std::string& text = sections[i].text;
    text = std::string(file.text);
    for (size_t k = 0; k < text.size(); ++k)
      if ((k < ranges[i].first || k >= ranges[i].second) && text[k] != '\n') text[k] = ' ';
    TRY(sections[i].schedule, ir::ParseSchedule(text, file.file, diags));
    sections[i].name = sections[i].schedule.graph;
    for (size_t k = 0; k < i; ++k)
      if (sections[k].name == sections[i].name)
        return diags.Report(kScheduleTwice, sections[i].at, sections[i].name)
            .Label(sections[k].at, "the first one");
  }
  return sections;
}

LoopReport* LoopOf(CutProgram& cut, const std::string& name) {
  for (LoopReport& loop : cut.schedule.loops)
    if (loop.extracted() && loop.extraction.graph.name == name) return &loop;
  return nullptr;
}

// How well the file fits this cut: loops it was made for, then ops in common less ops that differ.
std::pair<int, int64_t> Fit(CutProgram& cut, const std::vector<Section>& sections) {
  std::pair<int, int64_t> fit{0, 0};
  for (const Section& section : sections) {
    const LoopReport* loop = LoopOf(cut, section.name);
    if (loop == nullptr) continue;
    const Graph& graph = loop->extraction.graph;
    fit.first += Hash(graph) == section.schedule.graph_hash;
    int64_t common = 0;
    for (const ir::ScheduledOp& op : section.schedule.ops) common += graph.FindOp(op.name) >= 0;
    fit.second += 3 * common - static_cast<int64_t>(graph.ops.size() + section.schedule.ops.size());
  }
  return fit;
}

Result<CutProgram> BestCut(const ir::Function& fn, const ProgramOptions& options,
                           const std::vector<Section>& sections, DiagSink& diags) {
  std::optional<CutProgram> best;
  std::pair<int, int64_t> best_fit;
  for (int slices : ir::RowClasses(fn).Choices()) {
    if (slices > kMostSlices) continue;
    for (const bool own_loads : {false, true}) {
      if (own_loads && slices > 1) continue;
      std::optional<CutProgram> cut = CutRows(fn, slices, *options.target, false, 0, own_loads);
      if (!cut) continue;
      const std::pair<int, int64_t> fit = Fit(*cut, sections);
      if (best && fit <= best_fit) continue;
      best = std::move(cut);
      best_fit = fit;
    }
  }
  if (best) return std::move(*best);
  return diags.Report(kScheduleNoLoop, sections.front().at, sections.front().name, fn.name);
}

Result<> NoSuchLoop(CutProgram& cut, const Section& section, DiagSink& diags) {
  std::vector<std::string> names;
  for (const LoopReport& loop : cut.schedule.loops)
    if (loop.extracted()) names.push_back(loop.extraction.graph.name);
  DiagBuilder d = diags.Report(kScheduleNoLoop, section.at, section.name, cut.fn.name);
  const std::string near = NearestName(section.name, names);
  if (names.empty()) return d.Note("none of its loops can be scheduled");
  return d.Help(near.empty() ? fmt::format("its loops are {}", fmt::join(names, ", "))
                             : fmt::format("did you mean `{}`?", near));
}

// Does the file give an op and one that reads its registers to different roles?
bool PassesTiles(const LoopReport& loop, const Section& section) {
  const Graph& graph = loop.extraction.graph;
  std::map<std::string, int> roles;
  for (const ir::ScheduledOp& op : section.schedule.ops) roles[op.name] = op.role;
  return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const GraphEdge& e) {
    const GraphOp &from = graph.ops[static_cast<size_t>(e.from)],
                  &to = graph.ops[static_cast<size_t>(e.to)];
    const auto a = roles.find(from.name), b = roles.find(to.name);
    return !from.variable_latency && !to.variable_latency && e.kind == EdgeKind::kRegister &&
           a != roles.end() && b != roles.end() && a->second != b->second;
  });
}

Result<CutProgram> LoadCut(const ir::Function& fn, const ProgramOptions& options,
                           const ScheduleFile& file, DiagSink& diags) {
  TRY(std::vector<Section> sections, SplitSections(file, diags));
  TRY(CutProgram cut, BestCut(fn, options, sections, diags));
  const auto crosses = [&](CutProgram& of) {
    return std::any_of(sections.begin(), sections.end(), [&](const Section& section) {
      const LoopReport* loop = LoopOf(of, section.name);
      return loop != nullptr && PassesTiles(*loop, section);
    });
  };
  // Only then the graphs have the stores and loads between roles. They may have other ops, too:
  // what would be one op of one role is several where a value of it may cross.
  const bool crossing = crosses(cut);
  const std::pair<int, int64_t> fit = Fit(cut, sections);
  if (crossing || fit.first < static_cast<int>(sections.size()))
    if (std::optional<CutProgram> other = CutRows(fn, cut.schedule.slices, *options.target, true))
      if (crossing || (Fit(*other, sections) > fit && crosses(*other))) cut = std::move(*other);
  for (const Section& section : sections) {
    LoopReport* loop = LoopOf(cut, section.name);
    if (loop == nullptr) {
      TRY_VOID(NoSuchLoop(cut, section, diags));
      continue;
    }
    const Graph& graph = loop->extraction.graph;
    TRY(loop->solution.schedule, LoadSchedule(graph, section.text, file.file, diags));
    loop->solution.report = Check(graph, loop->solution.schedule);
    loop->applied = true;
    cut.ii += loop->solution.schedule.ii;
  }
  cut.schedule.apart = !HasRoleForEachSlice(cut);
  for (LoopReport& loop : cut.schedule.loops)
    if (!loop.applied && loop.extracted())
      loop.notes.push_back(
          fmt::format("the file has no `schedule {}`", loop.extraction.graph.name));
  return cut;
}

}  // namespace

Result<ProgramSchedule> LoadSchedules(ir::Function& fn, const ProgramOptions& options,
                                      const ScheduleFile& file, DiagSink& diags) {
  TRY(CutProgram cut, LoadCut(fn, options, file, diags));
  fn = std::move(cut.fn);
  return std::move(cut.schedule);
}

Result<ProgramSchedule> ScheduleProgramFrom(ir::Function& fn, const ProgramOptions& options,
                                            const ScheduleFile& file, DiagSink& diags) {
  TRY(CutProgram cut, LoadCut(fn, options, file, diags));
  std::vector<bool> wanted;
  for (const LoopReport& loop : cut.schedule.loops) wanted.push_back(loop.applied);
  SolveNests(cut, options);
  cut.given = true;
  ApplySchedules(cut);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const LoopReport& loop = cut.schedule.loops[i];
    if (wanted[i] && !loop.applied)
      return diags
          .Report(kScheduleNotObeyed, loop.at, loop.extraction.graph.name, loop.notes.back())
          .Help("let `tilec schedule` solve the loop, and change its answer in smaller steps");
    if (!loop.lost.empty())
      return diags.Report(kScheduleNotObeyed, loop.at, loop.extraction.graph.name, loop.lost)
          .Help(
              "read what a product makes in the product's own turn, or give the loop that many "
              "cycles: `tilec schedule` writes both where it solves");
  }
  fn = std::move(cut.fn);
  return std::move(cut.schedule);
}

std::string ToText(const ProgramSchedule& schedule) {
  std::string text;
  for (const LoopReport& loop : schedule.loops)
    if (loop.applied) text += (text.empty() ? "" : "\n") + ir::ToText(loop.solution.schedule);
  return text;
}

}  // namespace tilec::scheduler
