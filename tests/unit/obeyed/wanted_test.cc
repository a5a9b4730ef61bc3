// What a schedule asks of a program where its roles would hand on a tile that was loaded: nobody
// does, each role reads the tile for itself, and a role with nothing else to do is not wanted.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/wanted.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/obeyed/order.h"

namespace tilec::obeyed {
namespace {

using scheduler::EdgeKind;
using scheduler::GraphEdge;
using scheduler::GraphOp;

// x is loaded and read by threads of role `second` (x.smem_load), from where the schedule routes it
// to `far` of role `first`. `near`, if it is there, reads it in role `second`.
struct Routed {
  explicit Routed(bool near) {
    const auto file = sources.Add("a.tile", "loop\n");
    std::vector<std::pair<std::string, std::string>> ops = {{"x", "tma_load"},
                                                            {"far", "add"},
                                                            {"x.smem_load", "smem_load"},
                                                            {"x.smem_load.out", "st_shared"},
                                                            {"x.smem_load.in.far", "ld_shared"}};
    if (near) ops.push_back({"near", "add"});
    decided.apart = true;
    scheduler::LoopReport loop;
    loop.applied = true;
    ir::Schedule& schedule = loop.solution.schedule;
    schedule.ii = 100;
    schedule.roles = {{"load", 1, 0}, {"first", 4, 0}, {"second", 4, 0}};
    for (const auto& [name, kind] : ops) {
      GraphOp op;
      op.name = name;
      op.kind = kind;
      op.variable_latency = name == "x";
      op.routed = name.find(".out") != std::string::npos || name.find(".in.") != std::string::npos;
      op.at = Span{file, 0, 4};
      loop.extraction.graph.ops.push_back(op);
      loop.extraction.origins.emplace_back();
      const bool first = name == "far" || name == "x.smem_load.in.far";
      schedule.ops.push_back({name, static_cast<int64_t>(10 * schedule.ops.size()),
                              name == "x" ? 0
                              : first     ? 1
                                          : 2});
    }
    GraphEdge filled, routed;
    filled.from = 0;
    filled.to = 2;
    filled.kind = EdgeKind::kSmem;
    routed.from = 2;
    routed.to = 1;
    routed.store = 3;
    routed.load = 4;
    loop.extraction.graph.edges = {filled, routed};
    if (near) {
      GraphEdge own;
      own.from = 2;
      own.to = 5;
      loop.extraction.graph.edges.push_back(own);
    }
    decided.loops.push_back(std::move(loop));
    wanted = WantedOf(decided, decided.loops[0], sources);
  }
  const Wanted& Op(const std::string& name) const {
    for (const Wanted& op : wanted.ops)
      if (op.name == name) return op;
    ADD_FAILURE() << "no " << name;
    return wanted.ops[0];
  }

  SourceMap sources;
  scheduler::ProgramSchedule decided;
  WantedLoop wanted;
};

TEST(Wanted, WhoWouldOnlyHandOnWhatWasLoadedIsNotThere) {
  const Routed r(false);
  EXPECT_EQ(r.wanted.slices, 1);
  EXPECT_TRUE(r.wanted.passes.empty());
  EXPECT_EQ(r.Op("x.smem_load").slice, kNobody);
  EXPECT_EQ(r.Op("x.smem_load.out").slice, kNobody);
}

TEST(Wanted, WhoReadsWhatWasLoadedItselfIs) {
  const Routed r(true);
  EXPECT_EQ(r.wanted.slices, 2);
  EXPECT_TRUE(r.wanted.passes.empty());
  EXPECT_EQ(r.Op("x.smem_load").slice, 1);
  EXPECT_EQ(r.Op("x.smem_load.out").slice, kNobody);
}

TEST(Wanted, ThreadsOfTheOtherRoleReadWhereItWasLoadedTo) {
  for (const bool near : {false, true}) {
    const Routed r(near);
    const Wanted& in = r.Op("x.smem_load.in.far");
    EXPECT_EQ(in.slice, 0);
    EXPECT_TRUE(Reads(in, 0));   // x itself
    EXPECT_FALSE(Reads(in, 3));  // not what would have been stored
    EXPECT_TRUE(Reads(r.Op("far"), 4));
  }
}

TEST(Wanted, WhatReductionsReadGoesAlongWhereTheyShareBarriers) {
  for (const int roles : {1, 2}) {
    SourceMap sources;
    const auto file = sources.Add("a.tile", "loop\n");
    scheduler::ProgramSchedule decided;
    decided.roles = roles;
    scheduler::LoopReport loop;
    loop.applied = true;
    int64_t cycle = 0;
    for (const char* name : {"reduce.1", "squares", "reduce", "beside"}) {
      GraphOp op;
      op.name = op.kind = name;
      if (op.kind == "reduce.1") op.kind = "reduce";
      op.at = Span{file, 0, 4};
      loop.extraction.graph.ops.push_back(op);
      loop.extraction.origins.emplace_back();
      loop.solution.schedule.ops.push_back({name, cycle++, 0});
    }
    GraphEdge read;
    read.from = 1;
    read.to = 2;
    loop.extraction.graph.edges = {read};
    loop.solution.schedule.roles = {{"compute", 4, 0}};
    loop.solution.schedule.ii = 10;
    decided.loops.push_back(std::move(loop));
    const WantedLoop wanted = WantedOf(decided, decided.loops[0], sources);
    EXPECT_EQ(wanted.ops[1].along, roles == 1 ? 0 : -1);
    EXPECT_EQ(wanted.ops[2].meets, roles == 1);
    EXPECT_EQ(wanted.ops[0].along, -1);
    EXPECT_EQ(wanted.ops[3].along, -1);
  }
}

}  // namespace
}  // namespace tilec::obeyed
