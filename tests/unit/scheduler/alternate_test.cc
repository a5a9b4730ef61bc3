// Warpgroups alternate at the matrix unit where threads compute nothing but what they make of
// products.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/alternate.h"

#include <gtest/gtest.h>

namespace tilec::scheduler {
namespace {

GraphOp Op(const std::string& name, int64_t issue, int64_t latency) {
  GraphOp op;
  op.name = name;
  op.issue = issue;
  op.latency = latency;
  return op;
}

// A product of 512 cycles of the unit, a scale that is loaded for it, a multiplication by that and
// the sum over iterations.
Graph Scaled() {
  Graph g;
  g.units = {{"tensor", 1, false}, {"issue", 1, true}};
  GraphOp product = Op("p", 56, 568);
  product.uses = {{0, 512}, {1, 384}};
  product.async = true;
  GraphOp times = Op("times", 129, 157);
  times.uses = {{1, 128}};
  g.ops = {product, Op("scale", 24, 68), times, Op("sum", 128, 142)};
  const auto edge = [&](int from, int to, int64_t distance) {
    GraphEdge e;
    e.from = from;
    e.to = to;
    e.distance = distance;
    e.delay = g.ops[static_cast<size_t>(from)].latency;
    g.edges.push_back(e);
  };
  edge(0, 2, 0);
  edge(1, 2, 0);
  edge(2, 3, 0);
  edge(3, 3, 1);
  return g;
}

TEST(Alternate, AProductHoldsItsWarpgroupForItsShare) {
  Graph g = Scaled();
  LetWarpgroupsAlternate({0}, {2}, 2, &g);
  EXPECT_EQ(g.ops[0].issue, 512 / 2 + 56);
  EXPECT_EQ(g.ops[0].latency, g.ops[0].issue);
  EXPECT_EQ(g.edges[0].delay, g.ops[0].issue);
  EXPECT_EQ(g.ops[0].uses[0].cycles, 512);  // the unit is as busy as before
  // One instruction with the sum.
  EXPECT_EQ(g.ops[2].issue, 0);
  EXPECT_TRUE(g.ops[2].uses.empty());
  EXPECT_EQ(g.edges[2].delay, 0);
  EXPECT_EQ(g.ops[3].issue, 128);
}

TEST(Alternate, NotWhereSomethingElseRunsUnderProducts) {
  const auto left = [](Graph g, int warpgroups) {
    LetWarpgroupsAlternate({0}, {2}, warpgroups, &g);
    return g.ops[0].issue == 56 && g.ops[2].issue == 129;
  };
  EXPECT_FALSE(left(Scaled(), 2));
  EXPECT_TRUE(left(Scaled(), 1));  // nobody to alternate with
  Graph made = Scaled();           // the next product's operand is made of this one
  made.edges.push_back(made.edges[2]);
  made.edges.back().from = 2;
  made.edges.back().to = 0;
  made.edges.back().distance = 1;
  EXPECT_TRUE(left(made, 2));
  Graph other = Scaled();  // more arithmetic that no product is awaited for
  other.ops[1].issue = 400;
  EXPECT_TRUE(left(other, 2));
}

}  // namespace
}  // namespace tilec::scheduler
