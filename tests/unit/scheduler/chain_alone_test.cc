// Which loops keep the program's order: those of few rows whose loads take longer than their chain.
// They stand in the program once, others with what fills and empties their pipeline.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/chain_alone.h"

#include <gtest/gtest.h>

#include <map>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "ir/queries.h"
#include "scheduler/check.h"
#include "scheduler/in_order.h"

namespace tilec::scheduler {
namespace {

constexpr const char* kSource = R"(
kernel chain(Q: bf16[S, 128], K: bf16[L, 128], V: bf16[L, 128], O: out f32[S, 128]) {
  tune BQ = 16 in 16..64 step 16
  tune BKV = 128 in 32..128 step 16
  parallel q in tiles(S, BQ) {
    let qt = Q[q, :]
    var acc: f32[BQ, 128] = 0
    var m: f32[BQ] = -inf
    var l: f32[BQ] = 0
    for k in tiles(L, BKV) {
      let s = qt @ K[k, :].T
      let most = max(m, max(s, axis = 1))
      let p = exp2(s - most[:, None])
      let alpha = exp2(m - most)
      l = l * alpha + sum(p, axis = 1)
      acc = acc * alpha[:, None] + (p as bf16) @ V[k, :]
      m = most
    }
    O[q, :] = acc / l[:, None]
  }
}
)";

struct Scheduled {
  int products = 0, branches = 0;
  std::vector<std::string> notes;
  LoopReport loop;
};

Scheduled Schedule(int64_t rows, int64_t keys, const SolveOptions& solve, const char* machine) {
  DiagSink diags;
  api::Loaded loaded;
  Scheduled out;
  const auto run = [&]() -> Result<> {
    TRY(auto program, frontend::Program::LoadText(loaded.sources, "k.tile", kSource,
                                                  api::StandardLibrary().Resolver(), diags));
    loaded.program.emplace(std::move(program));
    TRY(const ir::Target target, ir::LoadBuiltinTarget(machine, diags));
    api::Call call;
    call.statics = call.all = {{"BQ", rows}, {"BKV", keys}};
    for (const char* tensor : {"Q", "K", "V", "O"})
      call.facts[tensor] = {16, 16, tensor[0] == 'O' ? 4 : 8, true};
    TRY(ir::Function fn, api::MakeTileIr(loaded, "chain", call, nullptr, diags));
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    TRY(fn, api::RunSteps(loaded, std::move(fn), steps, {}, nullptr, diags));
    ProgramOptions options;
    options.target = &target;
    options.solve = solve;
    out.loop = ScheduleProgram(fn, options).loops.at(0);
    out.notes = out.loop.notes;
    for (ir::OpId id : ir::OpsInOrder(fn)) {
      out.products += fn.ops[id].kind == ir::OpKind::kDot;
      out.branches += fn.ops[id].kind == ir::OpKind::kIf;
    }
    return Done();
  };
  const Result<> done = run();
  EXPECT_TRUE(done.ok()) << RenderAll(diags, loaded.sources);
  return out;
}

TEST(ChainAlone, FewRowsOfManyKeysStandOnce) {
  const Scheduled few = Schedule(16, 128, SolveOptions::ForCompilation(), "h200");
  EXPECT_EQ(few.products, 2);
  EXPECT_EQ(few.branches, 0);
  ASSERT_FALSE(few.notes.empty());
  EXPECT_EQ(few.notes.back(),
            "one warpgroup takes its chain for a turn in whatever order: the program's is kept");
}

// What such a loop does in place of what was solved: one op behind the other, in one stage, loads
// in front, no slower than that takes.
TEST(ChainAlone, TheProgramsOrderIsASchedule) {
  const LoopReport loop = Schedule(16, 128, SolveOptions::ForCompilation(), "h200").loop;
  ASSERT_TRUE(loop.in_order);
  const Graph& graph = loop.extraction.graph;
  const ir::Schedule& solved = loop.solution.schedule;
  std::optional<ir::Schedule> kept = ScheduleInOrder(graph, solved);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(Check(graph, *kept).violations.empty());
  EXPECT_TRUE(Simulate(graph, *kept).violations.empty());
  EXPECT_GT(kept->ii, solved.ii);
  std::map<std::string, int64_t> at;
  for (const ir::ScheduledOp& op : kept->ops) at[op.name] = op.cycle;
  int64_t before = -1, stage = -1;
  for (const GraphOp& op : graph.ops) {
    const int64_t cycle = at.at(op.name);
    if (op.variable_latency) {
      EXPECT_GE(cycle, 0) << op.name;
      continue;
    }
    EXPECT_GT(cycle, before) << op.name << " stands behind the op before it";
    if (before >= 0) {
      EXPECT_EQ(cycle / kept->ii, stage) << op.name;
    }
    before = cycle, stage = cycle / kept->ii;
  }
  --kept->ii;
  EXPECT_FALSE(Check(graph, *kept).violations.empty()) << "its II is the least";
}

// Of few keys the chain is the longer one; more rows are queries that share keys; an estimate is of
// the pipeline; sums in tensor memory were not measured.
TEST(ChainAlone, OthersAreAPipeline) {
  const SolveOptions solve = SolveOptions::ForCompilation();
  EXPECT_GT(Schedule(16, 32, solve, "h200").products, 2);
  EXPECT_FALSE(Schedule(16, 32, solve, "h200").loop.in_order);
  EXPECT_GT(Schedule(64, 128, solve, "h200").products, 2);
  EXPECT_GT(Schedule(16, 128, solve, "b200").products, 2);
  SolveOptions estimate = solve;
  estimate.first_answer = true;
  EXPECT_GT(Schedule(16, 128, estimate, "h200").products, 2);
}

}  // namespace
}  // namespace tilec::scheduler
