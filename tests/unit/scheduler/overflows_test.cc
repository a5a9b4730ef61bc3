// Overflows met at one period and excluded at another: no schedule is lost, and what they exclude
// is not met again.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "scheduler/offers.h"
#include "scheduler/session.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

constexpr int64_t kPlenty = 3'000'000;
using Kind = Model::Overflow::Kind;

struct Seen {
  int carried = 0, refuted = 0, feasible = 0;
  size_t plain = 0, scouts = 0;  // overflows met on the way
  std::set<Kind> kinds;
};

// A life that asks for many slots where periods are short, and room for a few: deep rings, which
// the formulas do not count, overflow.
Graph WithDeepRings(Graph graph) {
  int64_t least = 0, slot = 0;
  for (const GraphOp& op : graph.ops) {
    least += op.smem_bytes > 0 ? op.smem_bytes + graph.machine.barrier_bytes : 0;
    slot = std::max(slot, op.smem_bytes + graph.machine.barrier_bytes);
  }
  graph.machine.smem_bytes = least + 8 * slot;
  for (GraphEdge& edge : graph.edges)
    if (graph.ops[edge.from].smem_bytes > 0) edge.delay += 64;
  return graph;
}

// All periods of a graph with one offer, up, with what all before met and without.
void Compare(const Graph& graph, const RoleOffer& offer, const std::string& what, Seen* seen) {
  const SolveOptions options;
  std::set<Model::Overflow> met;
  for (int64_t ii = 1; ii <= 14; ++ii) {
    Session plain(graph, ii, offer, options), scout(graph, ii, offer, options);
    scout.model.Exclude({met.begin(), met.end()});
    const size_t carried = scout.model.overflows().size();
    const Answer answer = plain.Query({}, kPlenty).answer;
    const Answer other = scout.Query({}, kPlenty).answer;
    if (answer == Answer::kUnknown || other == Answer::kUnknown) continue;
    EXPECT_EQ(other, answer) << what << " II " << ii;
    seen->carried += carried > 0;
    (answer == Answer::kSat ? seen->feasible : seen->refuted) += carried > 0;
    if (carried > 0) {
      seen->plain += plain.model.overflows().size();
      seen->scouts += scout.model.overflows().size() - carried;
    }
    for (const Session* session : {&plain, &scout})
      for (const Model::Overflow& overflow : session->model.overflows()) {
        seen->kinds.insert(overflow.kind);
        met.insert(overflow);
      }
  }
}

TEST(Overflows, HoldAtAnyPeriod) {
  Seen seen;
  for (uint64_t seed = 0; seed < 14 && !HasFailure(); ++seed)
    for (const int kind : {0, 1, 2}) {
      const Graph graph = kind == 0   ? RandomGraph(seed, 6, true)
                          : kind == 1 ? WithDeepRings(RandomGraph(seed, 5, true))
                                      : RandomPoolGraph(seed);
      const Offers offers(graph, {});
      for (size_t i = 0; i < std::min<size_t>(2, offers.Largest().size()); ++i)
        Compare(graph, offers.Largest()[i], fmt::format("seed {} kind {}", seed, kind), &seen);
    }
  fmt::print("{} questions with overflows of others ({} refuted, {} feasible): {} met, {} plain\n",
             seen.carried, seen.refuted, seen.feasible, seen.scouts, seen.plain);
  EXPECT_GT(seen.refuted, 15);
  EXPECT_GT(seen.feasible, 15);
  EXPECT_LT(2 * seen.scouts, seen.plain);
  for (const Kind kind : {Kind::kRegisters, Kind::kTmem, Kind::kRings, Kind::kPool})
    EXPECT_GT(seen.kinds.count(kind), 0U) << static_cast<int>(kind);
}

}  // namespace
}  // namespace tilec::scheduler
