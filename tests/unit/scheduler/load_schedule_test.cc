// Schedules from files: taken, taken with a warning, or refused with what moved.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/load_schedule.h"

#include <gtest/gtest.h>

#include "scheduler/diagnostics.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

std::string SolvedText(const Graph& graph) {
  DiagSink diags;
  const Result<Solution> solution = Solve(graph, {}, diags);
  EXPECT_TRUE(solution.ok());
  return solution.ok() ? ir::ToText(solution->schedule) : std::string();
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

struct Outcome {
  bool ok = false;
  std::string codes;
  std::string notes;
  ir::Schedule schedule;
};

Outcome Load(const Graph& graph, const std::string& text) {
  SourceMap sources;
  DiagSink diags;
  const Result<ir::Schedule> schedule =
      LoadSchedule(graph, text, sources.Add("x.sched", text), diags);
  Outcome outcome;
  outcome.ok = schedule.ok();
  if (schedule.ok()) outcome.schedule = *schedule;
  for (const Diagnostic& d : diags.all()) {
    outcome.codes += (outcome.codes.empty() ? "" : " ") + std::string(d.def->code);
    EXPECT_TRUE(d.span.known()) << d.message;
    for (const std::string& note : d.notes) outcome.notes += note + "\n";
  }
  return outcome;
}

TEST(LoadSchedule, TakesWhatItWrote) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  const std::string text = SolvedText(graph);
  const Outcome outcome = Load(graph, text);
  EXPECT_TRUE(outcome.ok);
  EXPECT_EQ(outcome.codes, "");
  EXPECT_EQ(ir::ToText(outcome.schedule), text);
}

TEST(LoadSchedule, TakesWhatStillHoldsWithAWarning) {
  Graph graph = LoadGraph("attention_forward_hopper");
  const std::string text = SolvedText(graph);
  graph.ops[graph.FindOp("EXP0")].latency -= 1;  // cheaper: every law still holds
  const Outcome outcome = Load(graph, text);
  EXPECT_TRUE(outcome.ok);
  EXPECT_EQ(outcome.codes, "S342");
  EXPECT_EQ(outcome.schedule.graph_hash, Hash(graph));
}

TEST(LoadSchedule, RefusesWhatNoLongerHolds) {
  Graph graph = LoadGraph("attention_forward_hopper");
  const std::string text = SolvedText(graph);
  for (UnitUse& use : graph.ops[graph.FindOp("QK0")].uses) use.cycles += 1;
  const Outcome outcome = Load(graph, text);
  EXPECT_FALSE(outcome.ok);
  EXPECT_EQ(outcome.codes, "S341");
  EXPECT_NE(outcome.notes.find("it was made for graph"), std::string::npos);
}

TEST(LoadSchedule, SaysWhatMoved) {
  const Graph graph = LoadGraph("attention_forward_hopper");
  const std::string text = Replaced(SolvedText(graph), "EXP0", "EXPO");
  const Outcome outcome = Load(graph, text);
  EXPECT_FALSE(outcome.ok);
  EXPECT_EQ(outcome.codes, "S340");
  EXPECT_NE(outcome.notes.find("`EXPO` is not in the graph: is it `EXP0` now?"), std::string::npos)
      << outcome.notes;
  EXPECT_NE(outcome.notes.find("`EXP0` has no cycle and no role"), std::string::npos);
}

// Whatever one does to the text: a schedule that the checker accepts, or a diagnostic.
TEST(LoadSchedule, DamagedText) {
  const Graph graph = LoadGraph("gemm_hopper");
  const std::string text = SolvedText(graph);
  int refused = 0;
  for (size_t at = 0; at < text.size(); at += 3)
    for (const char* with : {"", "0", "-", "\n", "99999999999999999999"}) {
      std::string damaged = text;
      damaged.replace(at, 1, with);
      SourceMap sources;
      DiagSink diags;
      const Result<ir::Schedule> schedule =
          LoadSchedule(graph, damaged, sources.Add("x.sched", damaged), diags);
      EXPECT_EQ(schedule.ok(), !diags.has_errors());
      if (schedule.ok())
        EXPECT_TRUE(Check(graph, *schedule).violations.empty());
      else
        ++refused;
    }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tilec::scheduler
