// What is kept up to date while ops move is what is measured anew, on random graphs with roles of
// every width and under hundreds of moves.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/lives.h"

#include <gtest/gtest.h>

#include "scheduler/role_guess.h"
#include "scheduler/routes.h"
#include "tests/unit/scheduler/corpus.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/random_schedule.h"

namespace tilec::scheduler {
namespace {

int64_t WeightedLife(const Graph& graph, int64_t ii, const std::vector<int64_t>& cycle) {
  int64_t sum = 0;
  for (const GraphEdge& e : graph.edges) {
    if (e.kind == EdgeKind::kOrder) continue;
    const GraphOp& op = graph.ops[e.from];
    sum += (op.regs * op.warps + op.smem_bytes / 128 + op.tmem_columns * 4 + 1) *
           (cycle[e.to] + e.distance * ii - cycle[e.from]);
  }
  return sum;
}

void ExpectSame(const Graph& graph, int64_t ii, const RoleGuess& guess, const Lives& lives,
                const std::vector<int64_t>& cycle) {
  const Needs needs = Measure(graph, ii, guess.offer, true, {cycle, guess.group});
  ASSERT_EQ(lives.groups(), static_cast<int>(needs.group_regs.size()));
  for (int g = 0; g < lives.groups(); ++g) EXPECT_EQ(lives.PeakRegisters(g), needs.group_regs[g]);
  EXPECT_EQ(lives.RegistersOfPool(), needs.pool_used);
  EXPECT_EQ(lives.pool(), needs.pool);
  EXPECT_EQ(lives.smem_bytes(), needs.smem_bytes);
  EXPECT_EQ(lives.TmemColumns(), needs.tmem_columns);
  EXPECT_EQ(lives.weighted_life(), WeightedLife(graph, ii, cycle));
}

// Moves ops to and fro; returns how many graphs had something in registers and in shared memory.
int Walk(const Graph& graph, uint64_t seed) {
  Random random(seed);
  const int64_t ii = Pick(random, 3, 40);
  int64_t regs = 0, smem = 0;
  for (const RoleGuess& guess : GuessRoles(graph, {}, ii)) {
    const Graph plain = HasRoutes(graph) ? Routed(graph, guess.group) : graph;
    const int n = static_cast<int>(plain.ops.size());
    std::vector<int64_t> cycle(n);
    for (int64_t& t : cycle) t = Pick(random, -60, 60);
    Lives lives(plain, ii, guess.offer, true, guess.group);
    lives.Set(cycle);
    ExpectSame(plain, ii, guess, lives, cycle);
    for (int move = 0; move < 40; ++move) {
      const int v = Pick(random, 0, n - 1);
      cycle[v] = Pick(random, -60, 60);
      lives.Move(v, cycle[v]);
      ExpectSame(plain, ii, guess, lives, cycle);
    }
    for (int g = 0; g < lives.groups(); ++g) regs += lives.PeakRegisters(g);
    smem += lives.smem_bytes();
  }
  return regs > 0 && smem > 0 ? 1 : 0;
}

TEST(Lives, AreWhatIsMeasuredOnRandomGraphs) {
  int full = 0;
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed)
    full += Walk(RandomGraph(seed, 6, seed % 2 == 0), seed);
  EXPECT_GE(full, 10);
}

TEST(Lives, AreWhatIsMeasuredOnLoopsOfTheTree) {
  int full = 0;
  const std::vector<CorpusLoop> corpus = Corpus({"h200", "b200"});
  for (size_t i = 0; i < corpus.size() && !HasFailure(); i += 5)
    full += Walk(corpus[i].extraction.graph, i);
  EXPECT_GE(full, 30);
}

}  // namespace
}  // namespace tilec::scheduler
