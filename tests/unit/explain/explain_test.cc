// An explanation's numbers against the checker's, which shares no code with them; its forms against
// what a reader relies on.
//
// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "explain/internal.h"
#include "explain/timeline.h"
#include "explain/whynot.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/random_schedule.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::explain {
namespace {

using scheduler::Graph;
using scheduler::GraphBuilder;
using scheduler::LoadGraph;
using Json = nlohmann::json;

Explanation Must(const Graph& graph, const ir::Schedule& schedule, const Proof& proof = {}) {
  DiagSink diags;
  const SourceMap sources;
  Result<Explanation> e = Explain(graph, schedule, proof, sources, diags);
  EXPECT_TRUE(e.ok()) << RenderAll(diags, sources);
  return e.ok() ? *e : Explanation();
}

Explanation Solved(const std::string& name) {
  const Graph graph = LoadGraph(name);
  DiagSink diags;
  const SourceMap sources;
  const auto solution = scheduler::Solve(graph, {}, diags);
  EXPECT_TRUE(solution.ok()) << RenderAll(diags, sources);
  if (!solution.ok()) return {};
  return Must(graph, solution->schedule, {solution->certificate, solution->lower_bound});
}

// Solved once, for all tests that look at it.
const Explanation& Attention() {
  static const Explanation e = Solved("attention_forward_hopper");
  return e;
}

void ExpectAsChecked(const Explanation& e) {
  const scheduler::CheckReport& report = e.report;
  ASSERT_EQ(e.units.size(), report.unit_busy.size());
  for (size_t f = 0; f < e.units.size(); ++f) EXPECT_EQ(e.units[f].busy, report.unit_busy[f]);
  ASSERT_EQ(e.roles.size(), report.role_issue.size());
  for (size_t r = 0; r < e.roles.size(); ++r) {
    EXPECT_EQ(e.roles[r].issue, report.role_issue[r]);
    EXPECT_EQ(e.roles[r].registers, report.role_regs[r]);
    int64_t peak = 0;
    for (const auto& [v, count] : e.roles[r].peak_values) peak += count * e.graph.ops[v].regs;
    EXPECT_EQ(peak, report.role_regs[r]);
  }
  EXPECT_EQ(e.period, report.event_period);
  int64_t circle = 0;
  for (const Step& step : e.circle) circle += step.cycles;
  EXPECT_GE(circle, e.period);
  const bool late = std::any_of(e.edges.begin(), e.edges.end(),
                                [](const EdgeFacts& edge) { return edge.slack < 0; });
  const bool reported =
      std::any_of(report.violations.begin(), report.violations.end(),
                  [](const scheduler::Violation& v) { return v.law == "dependence"; });
  EXPECT_EQ(late, reported);
}

TEST(Facts, AgreeWithTheCheckerOnRandomSchedules) {
  scheduler::Random random(11);
  int complete = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const Graph graph = scheduler::RandomGraph(seed, 6, seed % 2 == 0);
    ir::Schedule schedule =
        scheduler::GreedySchedule(graph, scheduler::Pick(random, 2, 30), random);
    for (int i = scheduler::Pick(random, 0, 2); i > 0; --i)
      scheduler::Damage(graph, random, &schedule);
    const auto report = scheduler::Check(graph, schedule);
    const bool fits = std::none_of(report.violations.begin(), report.violations.end(),
                                   [](const auto& v) { return v.law == "complete"; });
    DiagSink diags;
    const SourceMap sources;
    const auto e = Explain(graph, schedule, {}, sources, diags);
    ASSERT_EQ(e.ok(), fits) << seed;
    if (!fits) continue;
    ++complete;
    ExpectAsChecked(*e);
    ASSERT_FALSE(HasFailure()) << seed << "\n" << ToText(schedule);
    // Forms of any schedule, right or wrong, are whole.
    EXPECT_TRUE(Json::accept(ToJson(*e)));
    EXPECT_TRUE(Json::accept(ToTrace(*e, 3)));
    EXPECT_NE(ToText(*e).find("What binds"), std::string::npos);
  }
  EXPECT_GT(complete, 1000);
}

TEST(Facts, OfSolvedGraphs) {
  ExpectAsChecked(Attention());
  const Explanation gemm = Solved("gemm_blackwell");
  ExpectAsChecked(gemm);
  EXPECT_EQ(gemm.verdict.kind, Verdict::Kind::kSmallest);
}

// II is 2·max: two ops of 10 cycles on one unit, a value alive for 25 cycles.
TEST(Facts, ByHand) {
  GraphBuilder b;
  const int unit = b.Unit("tensor");
  const int x = b.Op("X", 2, 15, unit, 10), y = b.Op("Y", 2, 12, unit, 10);
  b.graph.ops[x].regs = 7;
  b.graph.ops[y].regs = 3;
  b.Edge(x, y).delay = 15;
  b.graph.edges.back().hold = 11;
  b.Edge(y, y, scheduler::EdgeKind::kRegister, 1).delay = 12;
  ir::Schedule s;
  s.graph = b.graph.name;
  s.ii = 20;
  s.roles = {{"compute0", 4, 32}};
  s.ops = {{"X", 3, 0}, {"Y", 33, 0}};
  const Explanation e = Must(b.graph, s);
  EXPECT_TRUE(e.report.violations.empty()) << e.report.violations[0].text;
  EXPECT_EQ(e.ops[y].stage, 1);
  EXPECT_EQ(e.ops[y].slot, 13);
  EXPECT_EQ(e.edges[0].slack, 33 - 3 - 15);
  EXPECT_EQ(e.edges[1].slack, 20 - 12);
  ASSERT_EQ(e.lives.size(), 2u);
  EXPECT_EQ(e.lives[0].end - e.lives[0].begin, 33 + 11 - 3);
  EXPECT_EQ(e.lives[0].live, 3);  // 41 cycles at II 20
  EXPECT_EQ(e.lives[0].last_reader, y);
  EXPECT_EQ(e.lives[1].last_distance, 1);
  EXPECT_EQ(e.roles[0].registers, 3 * 7 + 3);
  EXPECT_EQ(e.verdict.kind, Verdict::Kind::kSmallest);  // the unit is full
  ASSERT_EQ(e.verdict.reasons.size(), 1u);
  EXPECT_EQ(e.verdict.reasons[0].text,
            "unit tensor has 20 cycles to do in an iteration (X 10 + Y 10)");
}

TEST(Facts, ScheduleOfAnotherGraph) {
  const Graph graph = LoadGraph("gemm_hopper");
  ir::Schedule s = Attention().schedule;
  DiagSink diags;
  EXPECT_FALSE(Explain(graph, s, {}, SourceMap(), diags).ok());
  ASSERT_EQ(diags.all().size(), 1u);
  EXPECT_EQ(diags.all()[0].def->code, std::string("X801"));
}

TEST(Sentences, JoinChainsAndAddUp) {
  GraphBuilder b;
  const int unit = b.Unit("tensor");
  const int x = b.Op("X", 1, 15, unit, 10), y = b.Op("Y", 1, 12, unit, 11),
            z = b.Op("Z", 1, 9, -1, 0);
  b.Edge(x, y).delay = 15;
  b.Edge(y, z).delay = 12;
  for (scheduler::GraphEdge& edge : b.graph.edges) edge.transfer = 7;
  const std::vector<Reason> reasons =
      Sentences(b.graph,
                {{"dependence", "Y -> Z: 12 cycles", {y, z}},
                 {"unit", "1 of unit tensor", {x, y}},
                 {"transfer", "X -> Y: 15 cycles, and 7 more between roles", {x, y}},
                 {"dependence", "X -> Y: 15 cycles", {x, y}},
                 {"transfer", "Y -> Z: 12 cycles, and 7 more between roles", {y, z}}},
                20);
  ASSERT_EQ(reasons.size(), 3u);
  EXPECT_EQ(reasons[0].text,
            "unit tensor has 21 cycles to do in an iteration (X 10 + Y 11) and a period of 20 "
            "offers 20");
  EXPECT_EQ(reasons[1].text,
            "a value handed to another role takes the hand-off time on top: X → Y 7 cycles more; "
            "Y → Z 7 cycles more");
  EXPECT_EQ(reasons[1].ops, (std::vector<int>{x, y, z}));
  EXPECT_EQ(reasons[2].text, "X → Y → Z takes 15 + 12 = 27 cycles");
}

TEST(Timeline, PeriodsAndBars) {
  const Explanation& e = Attention();
  const Timeline t = TwoPeriods(e);
  EXPECT_EQ(t.iterations, e.report.stages + 1);
  EXPECT_EQ(t.steady_end - t.steady_begin, 2 * t.ii);
  // Every op runs exactly twice in the steady state, in the lane of its role.
  std::map<int, int> runs;
  for (const Lane& lane : t.lanes) {
    if (lane.kind == Lane::Kind::kShared) continue;
    std::map<int, int64_t> free;  // by row: bars of a row do not overlap
    for (const Bar& bar : lane.bars) {
      EXPECT_GE(bar.begin, 0);
      EXPECT_LE(bar.end, t.end);
      if (free.count(bar.row)) {
        EXPECT_LE(free[bar.row], bar.begin) << lane.name;
      }
      free[bar.row] = bar.end;
      if (lane.kind != Lane::Kind::kRole) continue;
      EXPECT_EQ(e.ops[bar.op].role, lane.index);
      if (bar.begin >= t.steady_begin && bar.begin < t.steady_end) ++runs[bar.op];
    }
  }
  EXPECT_EQ(runs.size(), e.graph.ops.size());
  for (const auto& [op, count] : runs) EXPECT_EQ(count, 2) << e.graph.ops[op].name;
}

TEST(Timeline, SharedUnitsAverageToTheirLoad) {
  GraphBuilder b;
  const int unit = b.Unit("issue");
  b.graph.units[unit].fluid = true;
  b.Op("X", 4, 10, unit, 5);
  b.Op("Y", 4, 4, unit, 4);
  ir::Schedule s;
  s.ii = 10;
  s.roles = {{"compute0", 4, 32}};
  s.ops = {{"X", 0, 0}, {"Y", 5, 0}};
  const Timeline t = MakeTimeline(Must(b.graph, s), 1);
  ASSERT_EQ(t.lanes.back().kind, Lane::Kind::kShared);
  const std::vector<std::pair<int64_t, double>> expected = {{0, .5}, {5, 1.5}, {9, .5}, {10, 0}};
  ASSERT_EQ(t.lanes.back().level.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(t.lanes.back().level[i].first, expected[i].first);
    EXPECT_NEAR(t.lanes.back().level[i].second, expected[i].second, 1e-9);
  }
}

TEST(Json, SaysWhatTheScheduleSays) {
  const Explanation& e = Attention();
  const Json j = Json::parse(ToJson(e));
  EXPECT_EQ(j["ii"], e.schedule.ii);
  EXPECT_EQ(j["ops"].size(), e.graph.ops.size());
  EXPECT_EQ(j["edges"].size(), e.graph.edges.size());
  EXPECT_EQ(j["verdict"]["kind"], "smallest");
  EXPECT_EQ(j["certificate"]["proof"], "bound");
  for (const Json& op : j["ops"]) {
    const std::string name = op["name"];
    const auto same = std::find_if(e.schedule.ops.begin(), e.schedule.ops.end(),
                                   [&](const auto& o) { return o.name == name; });
    ASSERT_NE(same, e.schedule.ops.end());
    EXPECT_EQ(op["cycle"], same->cycle);
    EXPECT_EQ(op["stage"].get<int64_t>() * e.schedule.ii + op["slot"].get<int64_t>(), same->cycle);
    EXPECT_EQ(op["role"], e.schedule.roles[same->role].name);
  }
}

TEST(Trace, EventsOfOneThreadDoNotOverlap) {
  const Explanation& e = Attention();
  const Json j = Json::parse(ToTrace(e, 5));
  std::map<int, int64_t> free;
  std::map<std::string, int> count;
  std::set<int> named;
  for (const Json& event : j["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") named.insert(event["tid"].get<int>());
    if (event["ph"] != "X") continue;
    const int thread = event["tid"];
    EXPECT_TRUE(named.count(thread));
    EXPECT_GE(event["ts"].get<int64_t>(), free[thread]);
    free[thread] = event["ts"].get<int64_t>() + event["dur"].get<int64_t>();
    ++count[event["name"]];
  }
  EXPECT_EQ(count["EXP0"], 2 * 5);  // its role and the unit
  EXPECT_EQ(count["QK0"], 3 * 5);   // and in flight
}

// Names and source lines are anybody's text.
TEST(Html, QuotesWhatItShows) {
  GraphBuilder b;
  const int unit = b.Unit("\"><img>");
  b.Op("</script><b>&", 4, 10, unit, 5);
  ir::Schedule s;
  s.ii = 10;
  s.roles = {{"<i>role", 4, 32}};
  s.ops = {{"</script><b>&", 0, 0}};
  SourceMap sources;
  const std::string line = "x = '<!--<script>' // </script>";
  b.graph.ops[0].at = {sources.Add("a<b>.tile", line), 0, 3};
  DiagSink diags;
  const auto e = Explain(b.graph, s, {}, sources, diags);
  ASSERT_TRUE(e.ok());
  for (const std::string& text : {ToHtml(*e), ToSvg(*e)}) {
    EXPECT_EQ(text.find("<b>"), text.find("<b>&")) << "only inside JSON";
    const size_t data = text.find("id=\"data\"");
    for (const char* bad : {"<b>", "<img>", "<i>role", "<!--", "</script><b>"})
      EXPECT_GE(text.find(bad), data) << bad;
  }
  const std::string page = ToHtml(*e);
  size_t ends = 0;
  for (size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(ends, 2u);  // the data and the script
  EXPECT_EQ(page.find("<!--"), std::string::npos);
}

TEST(Html, NeedsNothingElseAndIsTheSameEveryTime) {
  const std::string page = ToHtml(Attention());
  EXPECT_EQ(page, ToHtml(Must(Attention().graph, Attention().schedule,
                              {Attention().certificate, Attention().verdict.lower_bound})));
  for (const char* bad : {"http:", "https:", "src=", "href=", "@import", "url("})
    EXPECT_EQ(page.find(bad), std::string::npos) << bad;
  EXPECT_EQ(ToSvg(Attention()), ToSvg(Attention()));
}

Answer Ask(const Explanation& e, const std::string& question) {
  DiagSink diags;
  const auto q = ParseQuestion(question, false, diags);
  EXPECT_TRUE(q.ok());
  return AnswerQuestion(e, *q, {});
}

bool Says(const Answer& answer, const std::string& text) {
  if (answer.text.find(text) != std::string::npos) return true;
  return std::any_of(answer.reasons.begin(), answer.reasons.end(),
                     [&](const Reason& r) { return r.text.find(text) != std::string::npos; });
}

Explanation SolvedHere(const Graph& graph) {
  DiagSink diags;
  const auto solution = scheduler::Solve(graph, {}, diags);
  EXPECT_TRUE(solution.ok()) << RenderAll(diags, SourceMap());
  if (!solution.ok()) return {};
  return Must(graph, solution->schedule, {solution->certificate, solution->lower_bound});
}

TEST(WhyNot, PeriodsOfAttention) {
  const Explanation& e = Attention();
  const Answer below = Ask(e, "II=2047");
  EXPECT_EQ(below.kind, Answer::Kind::kImpossible);
  EXPECT_TRUE(Says(below, "unit tensor has 2048 cycles")) << below.text;
  EXPECT_EQ(Ask(e, "II=2100").kind, Answer::Kind::kPossible);
  EXPECT_EQ(Ask(e, "roles=2").kind, Answer::Kind::kPossible);
  EXPECT_EQ(Ask(e, "stages=9").kind, Answer::Kind::kPossible);
}

// Two streams of 10 cycles each: one role needs both after each other.
TEST(WhyNot, FewerRoles) {
  GraphBuilder b;
  b.Op("X", 10, 10);
  b.Op("Y", 10, 10);
  const Explanation e = SolvedHere(b.graph);
  ASSERT_EQ(e.schedule.ii, 10);
  const Answer answer = Ask(e, "roles=1");
  EXPECT_EQ(answer.kind, Answer::Kind::kImpossible);
  EXPECT_TRUE(Says(answer, "at most 1 compute role is impossible at II 10")) << answer.text;
  EXPECT_TRUE(Says(answer, "II 20 (100.0 % longer) is possible and no less")) << answer.text;
  EXPECT_TRUE(Says(answer, "1 wide role instead of 2")) << answer.text;
}

// Y waits 20 cycles for X: in one stage the period must be longer than that.
TEST(WhyNot, FewerStages) {
  GraphBuilder b;
  const int f = b.Unit("f"), g = b.Unit("g");
  b.Edge(b.Op("X", 1, 20, f, 10), b.Op("Y", 1, 5, g, 10)).delay = 20;
  const Explanation e = SolvedHere(b.graph);
  ASSERT_EQ(e.schedule.ii, 10);
  const Answer answer = Ask(e, "stages=1");
  EXPECT_EQ(answer.kind, Answer::Kind::kImpossible);
  EXPECT_TRUE(Says(answer, "X → Y takes 20 cycles")) << answer.text;
  EXPECT_TRUE(Says(answer, "II 21 (110.0 % longer) is possible and no less")) << answer.text;
}

// An II that only search refutes.
TEST(WhyNot, CoreInWords) {
  const Explanation e = Solved("attention_forward_hopper_unsliced");
  ASSERT_EQ(e.certificate->proof, scheduler::Proof::kRefuted);
  const Answer answer = Ask(e, "II=" + std::to_string(e.certificate->ii - 1));
  EXPECT_EQ(answer.kind, Answer::Kind::kImpossible);
  EXPECT_TRUE(Says(answer, "→")) << "no chain of dependences";
  EXPECT_GT(answer.reasons.size(), 1u);
}

TEST(WhyNot, QuestionsThatAreNone) {
  for (const char* text : {"", "II", "II=", "II=x", "II=0", "II=-5", "=5", "BM=64", "stages=1e9",
                           "roles=99999999999", "II=99999999999999999999"}) {
    DiagSink diags;
    EXPECT_FALSE(ParseQuestion(text, false, diags).ok()) << text;
    ASSERT_EQ(diags.all().size(), 1u);
    EXPECT_EQ(diags.all()[0].def->code, std::string("X802"));
    EXPECT_FALSE(diags.all()[0].helps.empty());
  }
  DiagSink diags;
  const auto tune = ParseQuestion("BM=64", true, diags);
  ASSERT_TRUE(tune.ok());
  EXPECT_EQ(tune->kind, Question::Kind::kTune);
}

}  // namespace
}  // namespace tilec::explain
