// Nests: an inner loop as a unit of the loop over tiles. The profile counted by hand on a schedule
// of two roles; the law that parts run at the same time against exhaustive search and both judges;
// kernels from source.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/nest.h"

#include <gtest/gtest.h>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "scheduler/check.h"
#include "tests/unit/scheduler/exhaustive.h"
#include "tests/unit/scheduler/test_graphs.h"

namespace tilec::scheduler {
namespace {

// II 10: a load at 0 in its role, a product at 25 (stage 2), what follows it at 38 (stage 3).
TEST(Nest, ProfileCountsTurns) {
  GraphBuilder b;
  const int tma = b.Unit("tma"), tensor = b.Unit("tensor");
  const int load = b.Op("load", 2, 20, tma, 4), dot = b.Op("dot", 3, 12, tensor, 8),
            add = b.Op("add", 1, 2);
  b.graph.ops[load].variable_latency = b.graph.ops[load].streaming = true;
  b.graph.ops[load].warps = 1;
  b.graph.ops[load].smem_bytes = 100;
  b.Edge(load, dot, EdgeKind::kSmem);
  b.Edge(dot, add);
  ir::Schedule s;
  s.ii = 10;
  s.roles = {{"load", 1, 24}, {"compute0", 4, 64}};
  s.ops = {{"load", 0, 0}, {"dot", 25, 1}, {"add", 38, 1}};
  s.channels = {{"load", "smem", 4}};
  const UnitProfile unit = ProfileOf(b.graph, s, 6);
  EXPECT_EQ(unit.length, 5 * 10 + 40);  // add ends at 40
  ASSERT_EQ(unit.parts.size(), 2u);
  EXPECT_TRUE(unit.parts[0].load);
  EXPECT_EQ(unit.parts[0].begin, 0);
  EXPECT_EQ(unit.parts[0].busy, 5 * 10 + 2);
  EXPECT_EQ(unit.parts[0].uses[0].cycles, 6 * 4);
  EXPECT_EQ(unit.parts[1].begin, 25);
  EXPECT_EQ(unit.parts[1].busy, 5 * 10 + (39 - 25));
  EXPECT_EQ(unit.parts[1].latency, 5 * 10 + (40 - 25));
  EXPECT_EQ(unit.parts[1].uses[0].cycles, 6 * 8);
  EXPECT_EQ(unit.ring_bytes, 4 * (100 + b.graph.machine.barrier_bytes));
  EXPECT_EQ(unit.ahead, 4 * 10);
}

// Two ops that could share a role, and must not as parts of one unit.
TEST(Nest, PartsOfAUnitAreApart) {
  GraphBuilder b;
  b.Op("x", 2, 2);
  b.Op("y", 2, 2);
  b.graph.machine.max_warps = 4;
  EXPECT_EQ(FeasibleAt(b.graph, 4, {}).kind, Feasibility::Kind::kFeasible);
  const ir::Schedule together = FeasibleAt(b.graph, 4, {}).schedule;
  b.graph.ops[0].part = b.graph.ops[1].part = "loop";
  const Feasibility refuted = FeasibleAt(b.graph, 4, {});
  ASSERT_EQ(refuted.kind, Feasibility::Kind::kInfeasible);
  EXPECT_EQ(Check(b.graph, together).violations.at(0).law, "apart");
  EXPECT_EQ(Simulate(b.graph, together).violations.at(0).law, "apart");
  b.graph.machine.max_warps = 8;
  const Feasibility apart = FeasibleAt(b.graph, 4, {});
  ASSERT_EQ(apart.kind, Feasibility::Kind::kFeasible);
  EXPECT_NE(RoleOf(apart.schedule, "x"), RoleOf(apart.schedule, "y"));
}

// No law but this one speaks of it, so it was put where another part was, and every period refuted.
TEST(Nest, APartThatDoesNothingIsApartToo) {
  GraphBuilder b;
  b.Op("x", 2, 2);
  b.Op("idle", 0, 0);
  b.graph.ops[0].part = b.graph.ops[1].part = "loop";
  const Feasibility apart = FeasibleAt(b.graph, 4, {});
  ASSERT_EQ(apart.kind, Feasibility::Kind::kFeasible);
  EXPECT_NE(RoleOf(apart.schedule, "x"), RoleOf(apart.schedule, "idle"));
}

TEST(Nest, PartsAgainstExhaustiveSearch) {
  int compared = 0, changed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Graph graph = RandomGraph(70000 + seed + SeedShift(), 5, false);
    int64_t without = 1;
    while (without <= 4 && !ExhaustivelyFeasible(graph, without)) ++without;
    const size_t n = graph.ops.size();
    graph.ops[n - 1].part = graph.ops[n - 2].part = "loop";
    int64_t smallest = 1;
    while (smallest <= 4 && !ExhaustivelyFeasible(graph, smallest)) ++smallest;
    if (smallest > 4) continue;
    DiagSink diags;
    const Result<Solution> solution = Solve(graph, {}, diags);
    ASSERT_TRUE(solution.ok()) << seed;
    EXPECT_EQ(solution->certificate.ii, smallest) << seed;
    if (solution->certificate.objective_proved) {
      Objective best = *ExhaustiveObjective(graph, smallest);
      EXPECT_TRUE(solution->certificate.objective == best) << seed;
      graph.ops[n - 1].part.clear();
      changed += best == *ExhaustiveObjective(graph, smallest) ? 0 : 1;
    }
    ++compared;
  }
  EXPECT_GT(compared, 80);
  EXPECT_GT(changed, 20);  // the law decides
}

TEST(Nest, TextKeepsParts) {
  GraphBuilder b;
  b.graph.name = "n";
  b.graph.machine.name = "m";
  b.Op("x", 2, 2);
  b.graph.ops[0].part = "loop";
  DiagSink diags;
  const Result<Graph> again = ParseGraph(ToText(b.graph), -1, diags);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->ops[0].part, "loop");
  EXPECT_EQ(ToText(*again), ToText(b.graph));
}

constexpr const char* kGemm = R"(
kernel gemm(A: bf16[M, K], B: bf16[N, K], C: out bf16[M, N]) {
  parallel m in tiles(M, 128), n in tiles(N, 128) {
    var acc: f32[128, 128] = 0
    for k in tiles(K, 64) {
      acc += A[m, k] @ B[n, k].T
    }
    C[m, n] = acc as bf16
  }
}
)";

// A loop of little to overlap: everything is one chain of arithmetic in registers.
constexpr const char* kSum = R"(
kernel sums(X: f32[M, K], Y: out f32[M]) {
  parallel m in tiles(M, 64) {
    var acc: f32[64] = 0
    for k in tiles(K, 64) {
      acc += sum(X[m, k], axis = 1)
    }
    Y[m] = acc
  }
}
)";

struct Compiled {
  bool ok = false;
  std::string problems;
  CutProgram cut;
  ir::Target target;
};

Compiled Cut(const char* source, const char* kernel, const frontend::Values& values) {
  Compiled c;
  DiagSink diags;
  api::Loaded loaded;
  auto run = [&]() -> Result<> {
    TRY(auto program, frontend::Program::LoadText(loaded.sources, "k.tile", source,
                                                  api::StandardLibrary().Resolver(), diags));
    loaded.program.emplace(std::move(program));
    TRY(c.target, ir::LoadBuiltinTarget("h200", diags));
    api::Call call;
    call.statics = call.all = values;
    TRY(const frontend::Signature signature, frontend::SignatureOf(*loaded.program, kernel, diags));
    for (const frontend::ParamInfo& p : signature.params)
      if (p.role == frontend::ParamRole::kTensor)
        call.facts[p.name] = {.base_align_bytes = 16,
                              .stride_align_bytes = 16,
                              .last_dim_align = 16 / ir::ByteSize(p.dtype),
                              .last_contiguous = true};
    TRY(ir::Function fn, api::MakeTileIr(loaded, kernel, call, nullptr, diags));
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    TRY(fn, api::RunSteps(loaded, std::move(fn), steps, {}, nullptr, diags));
    ProgramOptions options;
    options.target = &c.target;
    options.solve = SolveOptions::ForCompilation();
    const std::optional<CutProgram> cut = SolveCut(fn, 1, options);
    if (cut) c.cut = *cut, c.ok = true;
    return Done();
  };
  (void)run();
  c.problems = RenderAll(diags, loaded.sources);
  return c;
}

// A product and what follows it: the loads of the next tile come while the last one is stored, so
// that a tile costs the turns of its products and the work after them, and no filling.
TEST(Nest, ProductsOverlapTilesByTheirLoads) {
  const Compiled c = Cut(kGemm, "gemm", {});
  ASSERT_TRUE(c.ok) << c.problems;
  for (int64_t trips : {4, 64}) {
    DiagSink diags;
    const Result<Nest> nest = ExtractNest(c.cut, c.target, trips, diags);
    ASSERT_TRUE(nest.ok()) << (diags.all().empty() ? "" : diags.all()[0].message);
    const Result<Solution> solution = Solve(nest->graph, {}, diags);
    ASSERT_TRUE(solution.ok()) << diags.all()[0].message;
    EXPECT_TRUE(Check(nest->graph, solution->schedule).violations.empty());
    EXPECT_TRUE(Simulate(nest->graph, solution->schedule).violations.empty());
    const ir::Schedule& inner = c.cut.schedule.loops[0].solution.schedule;
    EXPECT_GE(solution->certificate.ii, trips * inner.ii);
    EXPECT_LT(solution->certificate.ii, nest->alone);
    EXPECT_NE(Gain(*nest, *solution).find("saved"), std::string::npos);
    int parts = 0;
    for (const GraphOp& op : nest->graph.ops) parts += op.kind == "unit" ? 1 : 0;
    EXPECT_EQ(parts, static_cast<int>(inner.roles.size()));
    // Before the loop nothing costs anything; after it the cast and the store do.
    EXPECT_EQ(nest->graph.ops.size(), static_cast<size_t>(parts) + 2);
  }
}

TEST(Nest, SaysWhereNothingCanBeWon) {
  GraphBuilder b;
  const int x = b.Op("x", 10, 10), y = b.Op("y", 10, 10);
  b.Edge(x, y).crossable = false;
  DiagSink diags;
  const Result<Solution> solution = Solve(b.graph, {}, diags);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->certificate.ii, 20);
  Nest nest;
  nest.graph = b.graph;
  nest.alone = 20;
  EXPECT_NE(Gain(nest, *solution).find("nothing is won"), std::string::npos);
}

// A tile that the loops inside read, of few iterations or of many.
constexpr const char* kTiles = R"(
kernel tiles(Q: f16[H, M, 64], A: f16[H, K, 64], B: f16[H, K, 64], C: out f32[M, 64]) {
  tune TURNS = 2 in 1..1000
  parallel m in tiles(M, 64) {
    var acc: f32[64, 64] = 0
    for h in 0..H {
      let q = Q[h, m, :]
      for k in tiles(0..TURNS * 64, 64) {
        acc += ((q @ A[h, k, :].T) as f16) @ B[h, k, :]
      }
    }
    C[m, :] = acc
  }
}
)";

// Where the loops inside are short, a tile around them is in flight while they run; where they are
// long, that gains less than the tolerance, and the ring has one slot.
TEST(Nest, RingsAroundLoopsAreAsDeepAsTheNestAsks) {
  for (const auto& [turns, slots] : {std::pair(2, 2), std::pair(400, 1)}) {
    Compiled c = Cut(kTiles, "tiles", {{"TURNS", int64_t{turns}}});
    ASSERT_TRUE(c.ok) << c.problems;
    ProgramOptions options;
    options.target = &c.target;
    options.solve = SolveOptions::ForCompilation();
    SolveNests(c.cut, options);
    ASSERT_EQ(c.cut.schedule.nests.size(), 1u);
    const NestReport& nest = c.cut.schedule.nests[0];
    ASSERT_TRUE(nest.applied) << nest.note;
    EXPECT_TRUE(Check(nest.graph, nest.solution.schedule).violations.empty());
    ASSERT_EQ(c.cut.schedule.resources.nests.size(), 1u);
    // Within the tolerance of the objective.
    EXPECT_LT(c.cut.schedule.resources.nests[0].period, nest.alone + nest.alone / 100);
    ASSERT_EQ(c.cut.schedule.resources.rings.size(), 1u);
    EXPECT_TRUE(c.cut.schedule.resources.rings[0].around);
    EXPECT_EQ(c.cut.schedule.resources.rings[0].slots, slots) << turns;
  }
}

// A nest in a nest: the loop over groups is a unit of the loop over heads.
constexpr const char* kDeep = R"(
kernel deep(A: f16[H, M, K], B: f16[H, N, K], C: out f32[M, N], G: i32) {
  parallel m in tiles(M, 64), n in tiles(N, 64) {
    var acc: f32[64, 64] = 0
    for h in 0..H {
      for g in 0..G {
        if g != 3 {
          for k in tiles(K, 64) {
            acc += A[h, m, k] @ B[h, n, k].T
          }
        }
      }
    }
    C[m, n] = acc
  }
}
)";

TEST(Nest, LoopsToDepthThreeAreSolvedFromTheInside) {
  Compiled c = Cut(kDeep, "deep", {});
  ASSERT_TRUE(c.ok) << c.problems;
  ProgramOptions options;
  options.target = &c.target;
  options.solve = SolveOptions::ForCompilation();
  SolveNests(c.cut, options);
  ASSERT_EQ(c.cut.schedule.nests.size(), 2u);
  for (const NestReport& nest : c.cut.schedule.nests) ASSERT_TRUE(nest.applied) << nest.note;
  const auto period = [&](size_t i) { return c.cut.schedule.nests[i].solution.schedule.ii; };
  EXPECT_GE(period(0), 32 * c.cut.schedule.loops[0].solution.schedule.ii);
  EXPECT_GE(period(1), 32 * period(0) - period(0));
}

TEST(Nest, OtherKernelsWorkOrSayWhy) {
  const Compiled c = Cut(kSum, "sums", {});
  ASSERT_TRUE(c.ok) << c.problems;
  DiagSink diags;
  const Result<Nest> nest = ExtractNest(c.cut, c.target, 8, diags);
  if (!nest.ok()) {
    EXPECT_EQ(std::string(diags.all().at(0).def->code), "S350");
    return;
  }
  const Result<Solution> solution = Solve(nest->graph, {}, diags);
  ASSERT_TRUE(solution.ok());
  EXPECT_TRUE(Check(nest->graph, solution->schedule).violations.empty());
}

}  // namespace
}  // namespace tilec::scheduler
