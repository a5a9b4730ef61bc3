// Loads that no ring brings are done with what reads them first: the graph has no ring that no
// program of it has, keeps what the units have to do, and its bounds do not rise.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/own_loads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ir/lower/plan.h"
#include "scheduler/bounds.h"
#include "scheduler/scheduler.h"
#include "tests/unit/frontend/helper.h"
#include "tests/unit/h200.h"

namespace tilec::scheduler {
namespace {

constexpr const char* kRows = R"(
kernel softmax(X: f32[R, C], G: f32[C], Z: inout f32[R, C], Y: out f32[R]) {
  parallel r in tiles(R, 16) {
    var m: f32[16] = -inf
    var l: f32[16] = 0
    for c in tiles(C, 256) {
      let x = X[r, c; fill = -inf] * G[c][None, :]
      let m_new = max(m, max(x, axis = 1))
      l = l * exp2(m - m_new) + sum(exp2(x - m_new[:, None]), axis = 1)
      m = m_new
    }
    for c in tiles(C, 256) {
      Z[r, c] = Z[r, c] + X[r, c]
    }
    Y[r] = m + l
  }
}

kernel product(A: bf16[M, K], B: bf16[N, K], C: out f32[M, N]) {
  parallel m in tiles(M, 64), n in tiles(N, 64) {
    var sum: f32[64, 64] = 0
    for k in tiles(K, 64) {
      sum += A[m, k] @ B[n, k].T
    }
    C[m, n] = sum
  }
}
)";

class OwnLoads : public ::testing::Test {
 protected:
  Extraction Loop(size_t at) {
    DiagSink diags;
    Result<Extraction> loop =
        ExtractLoop(fn_, InnermostLoops(fn_)[at], ir::H200(), ExtractOptions{}, diags);
    EXPECT_TRUE(loop.ok());
    return loop.ok() ? *loop : Extraction();
  }
  void Read(const char* kernel) {
    frontend::Loaded loaded(kRows, "rows.tile");
    const std::optional<ir::Function> fn = loaded.Specialized(kernel, {});
    ASSERT_TRUE(fn.has_value()) << loaded.errors();
    fn_ = *fn;
  }
  Extraction Own(size_t at) {
    Extraction loop = Loop(at);
    LoadWhereRead(fn_, RingsOf(fn_, ir::MakePlan(fn_, ir::H200())), &loop);
    DiagSink diags;
    EXPECT_TRUE(CheckGraph(loop.graph, diags).ok());
    EXPECT_EQ(loop.graph.ops.size(), loop.origins.size());
    return loop;
  }
  static int64_t Rings(const Graph& graph) {
    return std::count_if(graph.ops.begin(), graph.ops.end(),
                         [](const GraphOp& op) { return op.variable_latency; });
  }
  static std::map<int, int64_t> Busy(const Graph& graph) {
    std::map<int, int64_t> cycles;
    for (const GraphOp& op : graph.ops)
      for (const UnitUse& use : op.uses) cycles[use.unit] += use.cycles;
    return cycles;
  }
  int64_t Loads(const Extraction& loop) const {
    int64_t loads = 0;
    for (const OpOrigin& origin : loop.origins)
      for (const OriginStep& step : origin.steps)
        loads += step.kind == StepKind::kOp && fn_.ops[step.op].kind == ir::OpKind::kLoad;
    return loads;
  }
  ir::Function fn_;
};

TEST_F(OwnLoads, AreDoneWithTheirFirstReader) {
  Read("softmax");
  const Extraction rings = Loop(0), own = Own(0);
  ASSERT_EQ(Rings(rings.graph), 2);
  EXPECT_EQ(Rings(own.graph), 0);
  EXPECT_EQ(Loads(own), 2);
  // No op is a load and nothing else, and none reads a ring.
  for (const OpOrigin& origin : own.origins) {
    const OriginStep& main = origin.steps[static_cast<size_t>(origin.main)];
    EXPECT_NE(main.kind, StepKind::kSmemLoad);
    EXPECT_FALSE(main.kind == StepKind::kOp && fn_.ops[main.op].kind == ir::OpKind::kLoad);
  }
  for (const GraphEdge& e : own.graph.edges) EXPECT_NE(e.kind, EdgeKind::kSmem);
  EXPECT_EQ(Busy(own.graph), Busy(rings.graph));
  EXPECT_LE(BestBound(own.graph).ii, BestBound(rings.graph).ii);
  DiagSink diags;
  const Result<Solution> solved = Solve(own.graph, SolveOptions::ForCompilation(), diags);
  ASSERT_TRUE(solved.ok());
  EXPECT_EQ(solved->schedule.roles.size(), 1u);
  EXPECT_TRUE(solved->schedule.channels.empty());
}

// What the kernel writes is not made anew wherever it is read: its load has a place, and an order.
TEST_F(OwnLoads, OfWhatIsWrittenHaveAPlace) {
  Read("softmax");
  const Extraction own = Own(1);
  EXPECT_EQ(Rings(own.graph), 0);
  int load = -1, store = -1;
  for (size_t g = 0; g < own.origins.size(); ++g) {
    const OpOrigin& origin = own.origins[g];
    const OriginStep& main = origin.steps[static_cast<size_t>(origin.main)];
    ASSERT_EQ(main.kind, StepKind::kOp);
    if (fn_.ops[main.op].kind == ir::OpKind::kLoad) load = static_cast<int>(g);
    if (fn_.ops[main.op].kind == ir::OpKind::kStore) store = static_cast<int>(g);
  }
  ASSERT_GE(load, 0);
  ASSERT_GE(store, 0);
  EXPECT_TRUE(std::any_of(own.graph.edges.begin(), own.graph.edges.end(), [&](const GraphEdge& e) {
    return e.kind == EdgeKind::kOrder && e.from == store && e.to == load && e.distance == 1;
  }));
}

TEST_F(OwnLoads, OfProductsKeepTheirRings) {
  Read("product");
  EXPECT_EQ(Rings(Own(0).graph), 2);
}

}  // namespace
}  // namespace tilec::scheduler
