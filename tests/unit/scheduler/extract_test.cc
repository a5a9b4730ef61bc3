// Machine files and what extraction makes of the kernels of the standard library.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extract.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/pass.h"
#include "ir/row_classes.h"
#include "scheduler/bounds.h"
#include "scheduler/contract.h"
#include "scheduler/program.h"
#include "scheduler/scheduler.h"
#include "tests/unit/frontend/helper.h"
#include "tests/unit/h200.h"
#include "tests/unit/scheduler/extract_kernels.h"
#include "tests/unit/scheduler/machine.h"

namespace tilec::scheduler {

namespace {

TEST(Extract, Attention) {
  const ir::Function fn = Kernel("attention", "attention", {{"D", int64_t{128}}});
  const std::vector<ir::OpId> loops = InnermostLoops(fn);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(ir::RowClasses(fn, loops[0]).Choices(), (std::vector<int>{1, 2}));
  const Graph g = Extract(fn, "h200", 2);
  const std::vector<int> dots = OfKind(g, "dot"), loads = OfKind(g, "tma_load");
  EXPECT_EQ(dots.size(), 4u) << ToText(g);
  ASSERT_EQ(loads.size(), 2u);  // K and V, shared by both slices
  for (int v : loads) {
    EXPECT_TRUE(g.ops[v].streaming);
    EXPECT_EQ(g.ops[v].smem_bytes, 128 * 128 * 2);
    EXPECT_EQ(g.ops[v].slice, -1);
  }
  for (int v : dots) EXPECT_EQ(g.ops[v].regs, 64);
  // Four products of 512 cycles.
  int64_t tensor = 0;
  for (const Bound& bound : AllBounds(g))
    if (bound.kind == Bound::Kind::kUnit && g.units[bound.unit].name == "tensor") tensor = bound.ii;
  EXPECT_EQ(tensor, 2048);
  // The accumulator's recurrence: product, rescale, product.
  const bool carried = std::any_of(g.edges.begin(), g.edges.end(), [&](const GraphEdge& e) {
    return e.distance == 1 && e.kind == EdgeKind::kRegister && g.ops[e.from].kind == "dot";
  });
  EXPECT_TRUE(carried);
  // A product holds what it reads until it completes.
  for (const GraphEdge& e : g.edges)
    if (e.kind == EdgeKind::kSmem) {
      EXPECT_EQ(e.hold, g.ops[e.to].latency);
    }
  // The two slices are alike: as many ops, as much work.
  std::map<int, int64_t> work;
  for (const GraphOp& op : g.ops) work[op.slice] += op.latency + op.issue;
  EXPECT_EQ(work[0], work[1]);

  const Graph whole = Extract(fn, "h200", 1);
  EXPECT_EQ(OfKind(whole, "dot").size(), 2u);
  EXPECT_EQ(whole.ops[OfKind(whole, "dot")[0]].regs, 128);
}

// What begins where no copy may begin is brought by threads, as what is gathered is: a row may
// begin anywhere, a column on 16 bytes only.
TEST(Extract, WhatTheCopyEngineCannotBringIsGathered) {
  const auto kinds = [](const std::string& index) {
    frontend::Loaded loaded(
        "kernel k(X: bf16[M, K], W: bf16[N, K], Y: out f32[M, N]) {\n"
        "  parallel m in tiles(M, 64), n in tiles(N, 64) {\n"
        "    var acc: f32[64, 64] = 0\n"
        "    for k in tiles(K, 64) {\n      acc += X[" +
            index + "] @ W[n, k].T\n    }\n    Y[m, n] = acc\n  }\n}\n",
        "k");
    const std::optional<ir::Function> fn = loaded.Specialized("k", {});
    EXPECT_TRUE(fn.has_value()) << loaded.errors();
    if (!fn) return std::string();
    ir::Function clean = *fn;
    EXPECT_TRUE(ir::RunPasses(clean, ir::kCleanUp, ir::H200(), {}, loaded.diags).ok());
    const Graph g = Extract(clean, "h200", 1);
    return fmt::format("{} {}", OfKind(g, "tma_load").size(), OfKind(g, "gather").size());
  };
  EXPECT_EQ(kinds("m, k"), "2 0");
  EXPECT_EQ(kinds("m.index - 1, k"), "2 0");
  EXPECT_EQ(kinds("m, k.index - 8"), "2 0");
  EXPECT_EQ(kinds("m, k.index - 4"), "1 1");
  EXPECT_EQ(kinds("m, k.start + 1..k.start + 65"), "1 1");
  EXPECT_EQ(kinds("m.index * 2, k"), "1 1");
}

TEST(Extract, ProductsFollowEachOtherOnOneAccumulator) {
  const Graph g = Extract(Kernel("matmul", "gemm", {}), "h200", 1);
  const std::vector<int> dots = OfKind(g, "dot");
  ASSERT_EQ(dots.size(), 1u);
  const Bound bound = BestBound(g);
  EXPECT_EQ(bound.ii, 1024) << bound.text;
  EXPECT_EQ(g.ops[dots[0]].latency, 1080);
  EXPECT_EQ(OfKind(g, "tma_load").size(), 2u);
}

// 144 rows keep the tensor core busy like 192.
TEST(Extract, RowsArePaddedToWholeInstructions) {
  auto tensor = [](int64_t rows) {
    const Graph g =
        Extract(Kernel("matmul", "gemm", {{"BM", rows}, {"BN", int64_t{128}}}), "h200", 1);
    for (const UnitUse& use : g.ops[OfKind(g, "dot")[0]].uses)
      if (g.units[use.unit].name == "tensor") return use.cycles;
    return int64_t{0};
  };
  EXPECT_EQ(tensor(144), tensor(192));
  EXPECT_EQ(tensor(128) * 3, tensor(192) * 2);
}

TEST(Extract, AttentionWithTensorMemory) {
  const ir::Function fn = Kernel("attention", "attention", {{"D", int64_t{128}}});
  const Graph g = Extract(fn, "twill_b200", 1);
  EXPECT_EQ(OfKind(g, "dot").size(), 2u);
  for (int v : OfKind(g, "dot")) {
    EXPECT_EQ(g.ops[v].tmem_columns, 128);
    EXPECT_EQ(g.ops[v].regs, 0);
    EXPECT_EQ(g.ops[v].warps, 1);
  }
  // S and the accumulator are read back; P and the rescaled accumulator are written.
  EXPECT_EQ(OfKind(g, "tmem_load").size(), 2u) << ToText(g);
  EXPECT_EQ(OfKind(g, "tmem_store").size(), 2u) << ToText(g);
}

// Rows of accumulators in tensor memory are padded to its lanes: 192 are 256, so that a thread of
// one warpgroup has two rows of 128 columns, not 192 numbers.
TEST(Extract, RowsAreCountedAsTheyLie) {
  const ir::Function wide = Kernel("attention", "attention", {{"D", int64_t{64}}});
  const Graph g = Extract(wide, "b200", 1);
  int64_t scores = 0;
  for (int v : OfKind(g, "dot"))
    if (g.ops[v].tmem_columns == 2 * 128) ++scores;
  EXPECT_EQ(scores, 1) << ToText(g);
  std::set<int64_t> registers;
  for (int v : OfKind(g, "tmem_load")) registers.insert(g.ops[v].regs);
  EXPECT_EQ(registers, (std::set<int64_t>{128, 256})) << ToText(g);
}

TEST(Extract, SmallOpsBecomePartOfTheirReader) {
  DiagSink diags;
  const char* text = R"(graph g
machine m
unit alu
op BIG issue=320 latency=320 use=alu:320
op M issue=4 latency=9 use=alu:4
op S issue=3 latency=8
op X issue=64 latency=70 use=alu:10
edge BIG -> M register
edge M -> S register
edge M -> M register distance=1
edge S -> X register
edge M -> X register transfer=5
edge X -> BIG register distance=2
)";
  Extraction loop;
  loop.graph = *ParseGraph(text, -1, diags);
  for (uint32_t i = 0; i < 4; ++i)
    loop.origins.push_back({{{StepKind::kOp, ir::OpId(i), ir::ValueId(i)}}, 0, -1});
  ContractSmallOps(&loop);
  const Graph& g = loop.graph;
  ASSERT_TRUE(CheckGraph(g, diags).ok());
  ASSERT_EQ(g.ops.size(), 3u) << ToText(g);  // M has two readers and itself
  const int x = g.FindOp("X");
  EXPECT_EQ(g.ops[x].issue, 67);
  EXPECT_EQ(g.ops[x].latency, 78);
  EXPECT_EQ(g.edges.size(), 4u) << ToText(g);
  for (const GraphEdge& e : g.edges)
    if (e.from == x) {
      EXPECT_EQ(e.delay, 78);
    }
  // X now runs S first.
  ASSERT_EQ(loop.origins.size(), 3u);
  EXPECT_EQ(loop.origins[x].members(), (std::vector<ir::OpId>{ir::OpId(2), ir::OpId(3)}));
  EXPECT_EQ(loop.origins[x].main, 1);
}

// Every op of the body that is neither free nor scalar stands in exactly one op of the graph, or in
// one per slice; inserted ops name the value they move.
TEST(Extract, OriginsCoverTheBody) {
  struct Case {
    const char *file, *kernel, *machine;
    frontend::Values values;
    int slices;
  };
  const std::vector<Case> cases = {
      {"attention", "attention", "h200", {{"D", int64_t{128}}}, 2},
      {"attention", "attention", "h200", {{"D", int64_t{64}}, {"causal", true}}, 1},
      {"attention", "attention", "b200", {{"D", int64_t{128}}}, 1},
      {"matmul", "gemm", "h200", {}, 2},
  };
  for (const Case& c : cases) {
    const ir::Function fn = Kernel(c.file, c.kernel, c.values);
    const Extraction loop = ExtractAll(fn, c.machine, c.slices);
    ASSERT_EQ(loop.origins.size(), loop.graph.ops.size());
    std::map<std::pair<ir::OpId, int>, int> seen;
    for (size_t v = 0; v < loop.origins.size(); ++v) {
      const OpOrigin& origin = loop.origins[v];
      EXPECT_EQ(origin.slice, loop.graph.ops[v].slice);
      const OriginStep& main = origin.steps[origin.main];
      if (main.kind != StepKind::kOp) {
        EXPECT_EQ(loop.graph.ops[v].kind, Spelling(main.kind));
        ASSERT_TRUE(main.value.valid());
      }
      for (ir::OpId id : origin.members()) ++seen[{id, origin.slice}];
    }
    for (const auto& [key, times] : seen) EXPECT_EQ(times, 1);
    const ir::Op& op = fn.ops[InnermostLoops(fn)[0]];
    for (ir::OpId id : fn.blocks[op.regions[0]].ops) {
      const ir::Op& body = fn.ops[id];
      const bool tile = !body.results.empty() && fn.type(body.results[0]).rank() > 0;
      const std::string name = ir::Info(body.kind).mnemonic;
      if (!tile || name == "constant" || name == "broadcast" || name == "reshape" ||
          name == "transpose" || name == "iota")
        continue;
      const bool shared = seen.count({id, -1}) > 0;
      for (int s = 0; s < c.slices; ++s)
        EXPECT_TRUE(shared || seen.count({id, s}) > 0) << c.kernel << ": " << name;
    }
  }
}

// The mask of the causal case costs nothing, unless every iteration is to evaluate it; Q, which
// lives around the loop, takes its place in shared memory.
TEST(Extract, MasksAndLiveIns) {
  const ir::Function plain = Kernel("attention", "attention", {{"D", int64_t{128}}});
  const ir::Function causal =
      Kernel("attention", "attention", {{"D", int64_t{128}}, {"causal", true}});
  const Graph a = Extract(plain, "h200", 2), b = Extract(causal, "h200", 2);
  EXPECT_EQ(ToText(a), ToText(b));
  EXPECT_EQ(a.machine.smem_bytes, 232448 - 128 * 128 * 2);
  int masks = 0;
  for (const GraphOp& op : b.ops)
    if (op.issue == 0) {
      ++masks;
      EXPECT_EQ(op.latency, 0);
      EXPECT_TRUE(op.uses.empty());
      EXPECT_EQ(op.regs, 64);  // it is a new name for what it masks
    }
  EXPECT_EQ(masks, 2);
  DiagSink diags;
  ExtractOptions options;
  options.slices = 2;
  options.masks_every_turn = true;
  const ir::OpId loop = InnermostLoops(causal)[0];
  const Result<Extraction> every = ExtractLoop(causal, loop, Machine("h200"), options, diags);
  ASSERT_TRUE(every.ok());
  EXPECT_GT(BestBound(every->graph).ii, BestBound(b).ii);
}

// Registers stay where they are made; shared arithmetic is done by each slice.
TEST(Extract, RolesShareNoRegisters) {
  const ir::Function fn = Kernel("attention", "attention", {{"D", int64_t{128}}});
  const Graph g = Extract(fn, "h200", 2);
  for (const GraphEdge& e : g.edges) {
    if (e.kind != EdgeKind::kRegister) continue;
    EXPECT_FALSE(e.crossable);
    EXPECT_EQ(g.ops[e.from].slice, g.ops[e.to].slice);
  }
  DiagSink diags;
  ExtractOptions options;
  options.slices = 2;
  options.role_crossing = true;
  const Result<Extraction> free =
      ExtractLoop(fn, InnermostLoops(fn)[0], Machine("h200"), options, diags);
  ASSERT_TRUE(free.ok());
  for (const GraphEdge& e : free->graph.edges) EXPECT_TRUE(e.crossable);
}

// Where registers may cross, each way has a store and a load at the machine's prices.
TEST(Extract, WaysBetweenRolesArePriced) {
  const ir::Function fn = Kernel("attention", "attention", {{"D", int64_t{128}}});
  const ir::Target h200 = Machine("h200");
  DiagSink diags;
  ExtractOptions options;
  options.slices = 2;
  options.role_crossing = true;
  const Result<Extraction> free = ExtractLoop(fn, InnermostLoops(fn)[0], h200, options, diags);
  ASSERT_TRUE(free.ok());
  const Graph& g = free->graph;
  ASSERT_EQ(free->origins.size(), g.ops.size());
  int routes = 0;
  for (const GraphEdge& e : g.edges) {
    const bool may = e.kind == EdgeKind::kRegister && e.distance == 0;
    EXPECT_EQ(e.HasRoute(), may) << g.ops[e.from].name << " -> " << g.ops[e.to].name;
    if (!e.HasRoute()) continue;
    ++routes;
    const GraphOp &from = g.ops[e.from], &store = g.ops[e.store], &load = g.ops[e.load];
    EXPECT_EQ(store.smem_bytes, from.regs * 512);
    EXPECT_EQ(load.regs, from.regs);
    ir::Work work;
    work.bytes = static_cast<double>(store.smem_bytes);
    EXPECT_EQ(store.issue, h200.CostOf("smem_store")->issue.At(work));
    EXPECT_EQ(load.issue, h200.CostOf("smem_load")->issue.At(work));
    EXPECT_GT(load.latency, load.issue);
    EXPECT_FALSE(store.uses.empty());
    EXPECT_EQ(e.transfer, h200.Transfer("smem", work.bytes));
    EXPECT_EQ(free->origins[e.store].steps[0].kind, StepKind::kSmemStore);
    EXPECT_EQ(free->origins[e.load].steps[0].kind, StepKind::kSmemLoad);
  }
  EXPECT_GT(routes, 4);
  // A way only adds: the bounds are those of the loop without.
  options.role_crossing = false;
  const Result<Extraction> whole = ExtractLoop(fn, InnermostLoops(fn)[0], h200, options, diags);
  ASSERT_TRUE(whole.ok());
  EXPECT_LE(BestBound(g).ii, BestBound(whole->graph).ii);
}

// A body whose rows are cut already: the attribute says which slice an op belongs to.
TEST(Extract, TakesSlicesFromTheBody) {
  ir::Function fn = Kernel("attention", "attention", {{"D", int64_t{128}}});
  for (ir::OpId id : fn.blocks[fn.ops[InnermostLoops(fn)[0]].regions[0]].ops)
    if (fn.ops[id].kind == ir::OpKind::kDot) fn.ops[id].set("slice", int64_t{1});
  const Graph g = Extract(fn, "h200", 1);
  for (const GraphOp& op : g.ops) EXPECT_EQ(op.slice, op.kind == "dot" ? 1 : -1) << op.name;
}

// Pins of the source arrive at the graph with their places, survive the IR's text, and contradict
// each other in the source's words.
TEST(Extract, PinsOfTheSource) {
  const auto source = [](const char* depth) {
    return std::string(R"(kernel pinned(A: f16[M, K], B: f16[N, K], C: out f32[M, N]) {
  parallel m in tiles(M, 64), n in tiles(N, 128) {
    var acc: f32[64, 128] = 0
    #[depth = )") +
           depth + R"(]
    for k in tiles(K, 64) {
      #[role = left]
      let a = A[m, k] * 2.0
      #[role = left, depth = 2]
      let b = B[n, k] * 2.0
      acc += a @ b.T
    }
    C[m, n] = acc
  }
}
)";
  };
  frontend::Loaded loaded(source("3"));
  const std::optional<ir::Function> fn = loaded.Specialized("pinned");
  ASSERT_TRUE(fn) << loaded.errors();
  const std::string text = ir::Print(*fn);
  EXPECT_NE(text.find("pin_depth = 3"), std::string::npos) << text;
  DiagSink diags;
  const Result<ir::Function> parsed = ir::ParseFunction(text, diags);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(ir::Print(*parsed), text);
  const Graph g = Extract(*fn, "h200", 1);
  std::multiset<int> depths;
  int tied = 0;
  for (const Graph::Pin& pin : g.pins) {
    EXPECT_TRUE(pin.at.known());
    EXPECT_GE(g.FindOp(pin.op), 0) << pin.op;
    if (pin.depth > 0) depths.insert(pin.depth);
    tied += pin.same_role_as.empty() ? 0 : 1;
  }
  EXPECT_EQ(depths, (std::multiset<int>{2, 3}));
  EXPECT_EQ(tied, 1) << ToText(g);

  frontend::Loaded deep(source("40"));  // 40 slots of 8 KB are too many
  const std::optional<ir::Function> too_deep = deep.Specialized("pinned");
  ASSERT_TRUE(too_deep) << deep.errors();
  DiagSink contradiction;
  EXPECT_FALSE(Solve(Extract(*too_deep, "h200", 1), {}, contradiction).ok());
  ASSERT_EQ(contradiction.all().size(), 1u);
  EXPECT_EQ(std::string(contradiction.all()[0].def->code), "S322");
  EXPECT_EQ(deep.sources.text(contradiction.all()[0].span.file)
                .substr(contradiction.all()[0].span.begin, 1),
            "A");
}

TEST(Extract, SlicesThatDoNotFitAreDiagnosed) {
  const ir::Function fn = Kernel("attention", "attention", {{"D", int64_t{128}}});
  DiagSink diags;
  EXPECT_FALSE(ExtractLoop(fn, InnermostLoops(fn)[0], Machine("h200"), 3, diags).ok());
  EXPECT_EQ(std::string(diags.all()[0].def->code), "S306");
}

// Of an op whose issue is more than its latency warpgroups share the issue, and no more than that.
TEST(Extract, WarpgroupsShareNoMoreThanThereIs) {
  Graph g;
  g.ops.resize(2);
  g.ops[0].issue = 1600, g.ops[0].latency = 120;
  g.ops[1].issue = 100, g.ops[1].latency = 300;
  g.edges.resize(1);
  g.edges[0].to = 1, g.edges[0].delay = 120;
  ShapeForLowering(g, 2);
  EXPECT_EQ(g.ops[0].issue, 800);
  EXPECT_EQ(g.ops[0].latency, 0);
  EXPECT_EQ(g.ops[1].latency, 250);
  EXPECT_EQ(g.edges[0].delay, 0);
}

}  // namespace

}  // namespace tilec::scheduler
