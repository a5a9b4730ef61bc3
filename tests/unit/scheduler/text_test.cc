// Text forms of graphs and schedules: printing then parsing is the identity, and damage gives a
// diagnostic with its place.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "scheduler/graph.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/random_schedule.h"

namespace tilec::scheduler {
namespace {

constexpr const char* kGraph = R"(graph tiny   # a comment
machine h200 smem=232448 warps=16
unit tensor
unit issue capacity=4
op K kind=tma_load latency=600 smem=32768 warps=1 variable streaming async
op QK kind=dot issue=32 latency=560 use=tensor:512,issue:64 regs=64 slice=0 async
edge K -> QK smem delay=0 hold=512
edge QK -> QK register distance=1
pin QK stage=1 with=QK
)";

TEST(GraphText, ReadsWhatPeopleWrite) {
  SourceMap sources;
  DiagSink diags;
  const int32_t file = sources.Add("tiny.graph", kGraph);
  const Result<Graph> graph = ParseGraph(kGraph, file, diags);
  ASSERT_TRUE(graph.ok()) << RenderAll(diags, sources);
  EXPECT_TRUE(CheckGraph(*graph, diags).ok()) << RenderAll(diags, sources);
  ASSERT_EQ(graph->ops.size(), 2u);
  EXPECT_TRUE(graph->ops[0].streaming);
  EXPECT_EQ(graph->ops[1].uses[1].cycles, 64);
  EXPECT_EQ(graph->units[1].capacity, 4);
  EXPECT_EQ(graph->edges[1].delay, 560);  // the latency of its source
  EXPECT_EQ(graph->edges[0].hold, 512);
  EXPECT_EQ(graph->pins[0].same_role_as, "QK");
  EXPECT_EQ(sources.Locate(file, graph->ops[1].at.begin).line, 6);
}

TEST(GraphText, PrintThenParseIsTheIdentity) {
  Random random(3);
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Graph graph = RandomGraph(seed, 8, true);
    if (seed % 3 == 0) {
      graph.ops[0].slice = 2;
      graph.pins.push_back({graph.ops[0].name, 5, 1, graph.ops[1].name, 3, {}});
    }
    const std::string text = ToText(graph);
    DiagSink diags;
    const Result<Graph> again = ParseGraph(text, -1, diags);
    ASSERT_TRUE(again.ok()) << text;
    EXPECT_EQ(ToText(*again), text);
    EXPECT_EQ(Hash(*again), Hash(graph));
    Graph other = graph;
    other.edges.empty() ? ++other.ops[0].latency : ++other.edges[0].delay;
    EXPECT_NE(Hash(other), Hash(graph));

    const ir::Schedule schedule = GreedySchedule(graph, 9, random);
    const Result<ir::Schedule> back = ir::ParseSchedule(ir::ToText(schedule), -1, diags);
    ASSERT_TRUE(back.ok()) << ir::ToText(schedule);
    EXPECT_EQ(ir::ToText(*back), ir::ToText(schedule));
  }
}

// Text → (code, words of the message).
struct Bad {
  const char* text;
  const char* code;
  const char* message;
};

TEST(GraphText, DamageIsDiagnosed) {
  const Bad cases[] = {
      {"", "S300", "empty"},
      {"op A", "S300", "starts with `graph NAME`"},
      {"graph g\nop", "S300", "this line is not"},
      {"graph g\nopp A", "S302", "there is no line `opp`"},
      {"graph g\nmachine m smen=3", "S302", "`smen`"},
      {"graph g\nunit t\nop A use=u:3", "S302", "there is no unit `u`"},
      {"graph g\nunit t\nop A use=t", "S300", "UNIT:CYCLES"},
      {"graph g\nop A latency=3x", "S301", "`3x` is not a whole number"},
      {"graph g\nop A latency=-3", "S301", "-3 is not in"},
      {"graph g\nop A latency=99999999999999999999", "S301", "not a whole number"},
      {"graph g\nop A\nop A", "S302", "`A` is defined twice"},
      {"graph g\nop A\nedge A -> B register", "S302", "there is no op `B`"},
      {"graph g\nop A\nedge A -> A wire", "S302", "there is no kind of edge `wire`"},
      {"graph g\nop A\nedge A A register x=1", "S300", "expected `->`"},
      {"graph g\nop A\nedge A -> A register", "S303", "A -> A"},
      {"graph g\nop A\nop B\nedge A -> B register\nedge B -> A order", "S303", "A -> B -> A"},
      {"graph g\nop A streaming", "S304", "streaming but not variable"},
      {"graph g\nop A warps=99", "S301", "99 is not in"},
      {"graph g\nop A warps=32", "S301", "warps of op A is 32, not in 1…16"},
      {"graph g\nop A smem=4 tmem=4", "S304", "two memories"},
      {"graph g\nop A variable warps=1\nop B variable warps=4", "S304",
       "both are of the load role"},
      {"graph g\nunit t\nop A use=t:1,t:2", "S304", "uses unit `t` twice"},
      {"graph g\npin A cycle=3", "S302", "there is no op `A`"},
  };
  for (const Bad& bad : cases) {
    SourceMap sources;
    DiagSink diags;
    const Result<Graph> graph = ParseGraph(bad.text, sources.Add("g", bad.text), diags);
    if (graph.ok()) {
      EXPECT_FALSE(CheckGraph(*graph, diags).ok()) << bad.text;
    }
    ASSERT_EQ(diags.all().size(), 1u) << bad.text;
    EXPECT_EQ(std::string(diags.all()[0].def->code), bad.code) << bad.text;
    EXPECT_NE(diags.all()[0].message.find(bad.message), std::string::npos)
        << diags.all()[0].message;
  }
}

TEST(ScheduleText, DamageIsDiagnosed) {
  const Bad cases[] = {
      {"", "I250", "empty"},
      {"ii 3", "I250", "starts with `schedule GRAPH`"},
      {"schedule g", "I250", "no line `ii`"},
      {"schedule g\nii 0", "I251", "0 is not in"},
      {"schedule g\nii 3\nii 3", "I250", "second line `ii`"},
      {"schedule g\nii 3\nhash zz", "I251", "`zz` is not a hash"},
      {"schedule g\nii 3\nop A cycle=1 role=load", "I251", "there is no role `load`"},
      {"schedule g\nii 3\nrole load warps=1 regs=24\nop A cycle=1 role=laod", "I251", "`laod`"},
      {"schedule g\nii 3\nrole load warps=1", "I250", "this line is not"},
      {"schedule g\nii 3\nchannel A disk depth=2", "I251", "`disk` is no medium"},
      {"schedule g\nii 3\norder A -> B tensor maybe", "I250", "expected `enforced` or `free`"},
      {"schedule g\nii 3\nrule x", "I250", "no line starts with `rule`"},
  };
  for (const Bad& bad : cases) {
    SourceMap sources;
    DiagSink diags;
    EXPECT_FALSE(ir::ParseSchedule(bad.text, sources.Add("s", bad.text), diags).ok()) << bad.text;
    ASSERT_EQ(diags.all().size(), 1u) << bad.text;
    EXPECT_EQ(std::string(diags.all()[0].def->code), bad.code) << bad.text;
    EXPECT_NE(diags.all()[0].message.find(bad.message), std::string::npos)
        << diags.all()[0].message;
  }
}

// Random bytes knocked out of good text: never a crash, never silence.
TEST(GraphText, SurvivesRandomDamage) {
  Random random(11);
  for (int i = 0; i < 3000; ++i) {
    std::string text = kGraph;
    const int cuts = Pick(random, 1, 4);
    for (int c = 0; c < cuts; ++c) {
      const size_t at = random() % text.size();
      if (Pick(random, 0, 1) == 0)
        text.erase(at, Pick(random, 1, 6));
      else
        text[at] = static_cast<char>(Pick(random, 1, 126));
      if (text.empty()) text = "g";
    }
    DiagSink diags;
    const Result<Graph> graph = ParseGraph(text, -1, diags);
    const bool good = graph.ok() && CheckGraph(*graph, diags).ok();
    EXPECT_EQ(good, !diags.has_errors()) << text;
    if (good) {
      EXPECT_EQ(ToText(*ParseGraph(ToText(*graph), -1, diags)), ToText(*graph));
    }
  }
}

}  // namespace
}  // namespace tilec::scheduler
