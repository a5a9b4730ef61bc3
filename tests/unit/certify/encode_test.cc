// The checker's own reading of the laws against exhaustive search, with and without memories,
// routes and small pools; and against the solver's: one and the same name for every law.
//
// SPDX-License-Identifier: Apache-2.0
#include "certify/encode.h"

#include <gtest/gtest.h>

#include <set>

#include "scheduler/prove.h"
#include "scheduler/scheduler.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

// All laws of the graph at once, as a core.
std::vector<CoreItem> AllLaws(const Graph& graph, int64_t ii) {
  std::vector<CoreItem> core;
  std::set<std::string> seen;
  for (const certify::Law& law : certify::Laws(graph, ii))
    if (seen.insert(ToText(law)).second) core.push_back({law.name, law.text, law.ops, {}});
  return core;
}

struct Tally {
  int feasible = 0, infeasible = 0;
};

void Compare(const Graph& graph, int64_t largest, uint64_t seed, Tally* tally) {
  for (int64_t ii = 1; ii <= largest; ++ii) {
    const bool expected = ExhaustivelyFeasible(graph, ii);
    const InfeasibilityProof proof = ProveCore(graph, ii, AllLaws(graph, ii));
    EXPECT_EQ(proof.kind,
              expected ? InfeasibilityProof::Kind::kConsistent : InfeasibilityProof::Kind::kRefuted)
        << "seed " << seed << " II " << ii << ": " << proof.problem << "\n"
        << ToText(graph);
    ++(expected ? tally->feasible : tally->infeasible);
    if (expected) return;
  }
}

TEST(Encoding, AgreesWithExhaustiveSearch) {
  Tally tally;
  for (uint64_t seed = 0; seed < 500; ++seed) Compare(RandomGraph(seed, 5, false), 6, seed, &tally);
  EXPECT_GT(tally.feasible, 400);
  EXPECT_GT(tally.infeasible, 700);
}

TEST(Encoding, AgreesOnMemoriesAndRegisters) {
  Tally tally;
  for (uint64_t seed = 10000; seed < 10600; ++seed)
    Compare(RandomGraph(seed, 3, true), 5, seed, &tally);
  EXPECT_GT(tally.feasible, 300);
  EXPECT_GT(tally.infeasible, 500);
}

TEST(Encoding, AgreesOnSmallPools) {
  Tally tally;
  for (uint64_t seed = 50000; seed < 50500; ++seed) Compare(RandomPoolGraph(seed), 4, seed, &tally);
  EXPECT_GT(tally.feasible, 150);
  EXPECT_GT(tally.infeasible, 300);
}

TEST(Encoding, AgreesOnRoutes) {
  Tally tally;
  for (uint64_t seed = 0; seed < 200; ++seed)
    Compare(WithRoutes(RandomGraph(30000 + seed, 4, seed % 2 == 0), seed, 2), 3, seed, &tally);
  EXPECT_GT(tally.feasible, 50);
  EXPECT_GT(tally.infeasible, 100);
}

// What the solver blames, the checker knows by the same name, and finds contradictory too.
TEST(Encoding, EveryCoreOfTheSolverIsRefuted) {
  int cores = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Graph graph = seed % 3 == 2 ? RandomPoolGraph(seed) : RandomGraph(seed, 4, seed % 3 == 0);
    if (seed % 3 != 2 && seed % 5 == 0) graph = WithRoutes(graph, seed, 2);
    const int64_t ii = 1 + static_cast<int64_t>(seed % 3);
    const Feasibility answer = FeasibleAt(graph, ii, {});
    if (answer.kind != Feasibility::Kind::kInfeasible || answer.core[0].law == "warps") continue;
    const InfeasibilityProof proof = ProveCore(graph, ii, InOrder(graph, ii, answer.core));
    EXPECT_TRUE(proof.complete()) << "seed " << seed << " II " << ii << ": " << proof.problem
                                  << "\n"
                                  << ToText(graph);
    ++cores;
  }
  EXPECT_GT(cores, 200);
}

TEST(Encoding, PinnedStagesAreReached) {
  GraphBuilder b;
  const int a = b.Op("a", 1, 1), c = b.Op("c", 1, 1);
  b.Edge(a, c);
  Graph::Pin pin;
  pin.op = "c";
  pin.stage = 500;  // far beyond what the edges ask for
  b.graph.pins.push_back(pin);
  EXPECT_EQ(ProveCore(b.graph, 2, AllLaws(b.graph, 2)).kind, InfeasibilityProof::Kind::kConsistent);
}

TEST(Cover, SumsAreCheckedNotBelieved) {
  GraphBuilder b;
  for (const char* name : {"a", "c", "d"}) b.graph.ops[b.Op(name, 1, 1)].regs = 100;
  b.graph.machine.max_regs_per_thread = 240;
  auto problem = [&](const char* text) {
    const std::optional<certify::Cover> cover = certify::ParseCover(text);
    return cover ? Problem(b.graph, *cover) : std::string("unreadable");
  };
  EXPECT_EQ(problem("registers 0=0:1,1:2"), "");
  EXPECT_EQ(problem("registers 0=0:1,1:1"), "the registers suffice");
  EXPECT_EQ(problem("registers 0=0:2,0:1"), "it counts a value twice");
  EXPECT_EQ(problem("registers 0=3:9"), "it names an op that is not there");
  EXPECT_EQ(problem("registers 9=0:9"), "it names an op that is not there");
  EXPECT_EQ(problem("registers 0=0:-1"), "unreadable");
  EXPECT_EQ(problem("registers 0="), "unreadable");
  EXPECT_EQ(problem("tmem 0=0:1"), "the columns suffice");
  EXPECT_EQ(problem("pool 4 exactly"), "it counts roles that cannot be");
  EXPECT_EQ(problem("pool 1 exactly 0=0:1 1=1:1"), "it has more peaks than roles");
  EXPECT_EQ(problem("pool 2 exactly 0=0:1 1=1:1"), "the quotas fit");
  b.graph.machine.registers = 128 * 2 * 96;
  EXPECT_EQ(problem("pool 2 exactly 0=0:1 1=1:1"), "");
  EXPECT_EQ(problem("pool 2 more 0=0:1 1=1:1"), "");
}

}  // namespace
}  // namespace tilec::scheduler
