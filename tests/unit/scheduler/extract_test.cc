// Machine files and what extraction makes of the kernels of the standard library.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extract.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/pass.h"
#include "ir/row_classes.h"
#include "scheduler/bounds.h"
#include "scheduler/contract.h"
#include "scheduler/scheduler.h"
#include "tests/unit/frontend/helper.h"
#include "tests/unit/h200.h"

namespace tilec::scheduler {
namespace {

ir::Target Machine(const std::string& name) {
  DiagSink diags;
  SourceMap sources;
  const std::string_view text = ir::BuiltinMachineText(name);
  Result<ir::Target> target =
      ir::ParseTarget(text, sources.Add(name + ".toml", std::string(text)), diags);
  EXPECT_TRUE(target.ok()) << RenderAll(diags, sources);
  return target.ok() ? *target : ir::Target();
}

TEST(Machines, AllAreSound) {
  DiagSink diags;
  const std::vector<std::string> names = ir::BuiltinMachines();
  EXPECT_EQ(names, (std::vector<std::string>{"a10", "a100", "b200", "b300", "h100", "h200", "l40s",
                                             "rtx3090", "rtx4090", "rtx5090", "rtxpro6000", "spark",
                                             "twill_b200", "twill_h100"}));
  // Shared memory of a CTA by compute capability: CUDA C++ programming guide.
  const std::map<std::string, int64_t> smem = {
      {"sm_80", 163 << 10},   {"sm_86", 99 << 10},    {"sm_89", 99 << 10},   {"sm_90a", 227 << 10},
      {"sm_100a", 227 << 10}, {"sm_103a", 227 << 10}, {"sm_120a", 99 << 10}, {"sm_121a", 99 << 10}};
  std::map<std::string, int> stand;
  for (const std::string& name : names) {
    const ir::Target t = Machine(name);
    EXPECT_EQ(t.name, name);
    EXPECT_GE(t.ops.size(), 10u);
    EXPECT_EQ(t.limits.smem_bytes, smem.at(t.arch)) << name;
    stand[t.arch] += t.stands_for_arch;
    EXPECT_EQ(t.Has("tmem"), t.limits.tmem_columns == 512) << name;
    for (const char* op :
         {"dot.16", "dot.8", "exp2", "reduce.max", "load", "store", "cast", "what"})
      ASSERT_NE(t.CostOf(op), nullptr) << op;
    EXPECT_EQ(t.CostOf("what")->kind, "other");
    const Result<ir::Target> again = ir::ParseTarget(ir::ToToml(t), -1, diags);
    ASSERT_TRUE(again.ok()) << name;
    EXPECT_EQ(ir::ToToml(*again), ir::ToToml(t));
  }
  for (const auto& [arch, machines] : stand) EXPECT_EQ(machines, 1) << arch;
  const ir::Target h200 = Machine("h200");
  const Result<ir::Target> again = ir::ParseTarget(ir::ToToml(h200), -1, diags);
  ASSERT_TRUE(again.ok());
  for (size_t u = 0; u < h200.units.size(); ++u) {
    EXPECT_EQ(again->units[u].alone_percent, h200.units[u].alone_percent);
    EXPECT_EQ(again->units[u].full_clock_percent, h200.units[u].full_clock_percent);
  }
  EXPECT_LT(h200.units[0].full_clock_percent, 100);  // the tensor cores
  ir::Work tile;                                     // m64n128k128 in bf16, exp2 of its result
  tile.flops = 2.0 * 64 * 128 * 128;
  tile.steps = 8;
  tile.elements = 64 * 128;
  EXPECT_EQ(h200.CostOf("dot.16")->uses[0].cycles.At(tile), 512);
  EXPECT_EQ(h200.CostOf("dot.16")->latency.At(tile), 568);
  EXPECT_EQ(h200.CostOf("exp2")->latency.At(tile), 700);
  EXPECT_EQ(h200.CostOf("dot.8")->uses[0].cycles.At(tile), 256);
  EXPECT_EQ(h200.CostOf("dot.16")->origin.evidence, ir::Evidence::kMeasured);
}

TEST(Machines, DamageIsDiagnosed) {
  const std::string good(ir::BuiltinMachineText("h200"));
  struct Bad {
    const char *from, *to, *message;
  };
  const Bad cases[] = {
      {"value = 232448", "value = -1", "`value` is -1"},
      {"value = 232448", "value = 'x'", "`value` is not a whole number"},
      {"name = \"smem_bytes\"", "name = \"smem_bites\"", "there is no limit `smem_bites`"},
      {"name = \"max_warps\"", "name = \"sms\"", "limit `sms` is given twice"},
      {"tag = \"documented\"", "tag = \"guessed\"", "`guessed` is no tag"},
      {"tag = \"documented\"\n", "", "there is no `tag` here"},
      {"tensor = {", "tenser = {", "there is no unit `tenser`"},
      {"capacity = 1", "capacity = 0", "`capacity` is 0"},
      {"alone_percent = 56", "alone_percent = 156", "`alone_percent` is 156, not in 1…100"},
      {"full_clock_percent = 79", "full_clock_percent = 0", "`full_clock_percent` is 0"},
      {"kind = \"dot\"", "kid = \"dot\"", "there is no key `kid` here"},
      {"latency = { base = 56,", "latency = { bass = 56,", "there is no key `bass` here"},
      {"latency = { base = 56,", "latency = { base = -56,", "`base` is not a cost >= 0"},
      {"ops = [\"*\"]", "ops = [\"dot\"]", "op `dot` is costed as"},
      {"medium = \"smem\"", "medium = \"disk\"", "there is no medium `disk`"},
      {"[[unit]]", "[[unit]", ""},
      {"features = [", "features = 3 #", "`features` is not a list of texts"},
      {"copy_cycles = {", "copy_cycle = {", "there is no key `copy_cycle` here"},
      {"launch_ms = { value", "launch_ms = { valu", "there is no key `valu` here"},
      {"copy_cycles = { value = 2048", "copy_cycles = { value = 2.5", "is not a whole number"},
      {"copy_cycles = { value = 2048, tag = \"measured\"", "copy_cycles = { value = 2048",
       "there is no `tag` here"},
      {"name = \"h200\"", "name = \"h200\"\nextends = \"h20\"", "there is no machine `h20`"},
      {"arch = \"sm_90a\"", "arch = \"hopper\"", "`hopper` is no architecture"},
      {"features = [\"tma\"", "features = [\"tna\"", "there is no feature `tna`"},
      {"kind = \"wgmma\"", "kind = \"wgma\"", "there is no matrix unit `wgma`"},
      {"dtypes = [\"bf16\"", "dtypes = [\"i4\"", "there is no type of operands `i4`"},
      {"dtypes = [\"bf16\", \"f16\", \"tf32\", \"e4m3\", \"e5m2\", \"i8\", \"u8\"]", "dtypes = []",
       "`wgmma` multiplies nothing"},
      {"kind = \"wgmma\"", "kind = \"none\"", "no unit multiplies these"},
  };
  for (const Bad& bad : cases) {
    std::string text = good;
    const size_t at = text.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    text.replace(at, std::string(bad.from).size(), bad.to);
    DiagSink diags;
    SourceMap sources;
    EXPECT_FALSE(ir::ParseTarget(text, sources.Add("m.toml", text), diags).ok()) << bad.to;
    ASSERT_EQ(diags.all().size(), 1u);
    EXPECT_EQ(std::string(diags.all()[0].def->code), "I260");
    EXPECT_NE(diags.all()[0].message.find(bad.message), std::string::npos)
        << diags.all()[0].message;
    EXPECT_TRUE(diags.all()[0].span.known());
  }
}

// What each is possible and cannot hold together.
TEST(Machines, ContradictionsAreDiagnosed) {
  struct Bad {
    const char *lines, *message, *at;
  };
  const Bad cases[] = {
      {"arch = \"sm_90\"\n", "`sm_90` has no setmaxnreg", "\"sm_90\""},
      {"arch = \"sm_80\"\nfeatures = [\"tma\"]\n", "`sm_80` has no tma", "[\"tma\"]"},
      {"arch = \"sm_120a\"\n", "`sm_120a` has no wgmma", "\"sm_120a\""},
      {"features = [\"tmem\"]\narch = \"sm_100a\"\n"
       "[matrix_unit]\nkind = \"tcgen05\"\ndtypes = [\"bf16\"]\ntag = \"assumed\"\nsource = "
       "\"x\"\n",
       "there are 0 columns of tensor memory", "\"h200\""},
      {"[[limit]]\nname = \"smem_bytes\"\nvalue = 233000\ntag = \"assumed\"\nsource = \"x\"\n",
       "`smem_bytes` asks for 234024, and `smem_bytes_per_sm` is 233472", "[[limit]]"},
      {"[[limit]]\nname = \"regs_per_thread\"\nvalue = 128\ntag = \"assumed\"\nsource = \"x\"\n",
       "`max_regs_per_thread` asks for 240, and `regs_per_thread` is 128", "[[limit]]"},
      {"[lowering]\npersistent_slots = { value = 9, tag = \"assumed\", source = \"x\" }\n",
       "`persistent_slots` asks for 9, and `most_slots` is 8", "{ value = 9"},
  };
  for (const Bad& bad : cases) {
    const std::string text =
        std::string("name = \"m\"\ntitle = \"t\"\nextends = \"h200\"\n") + bad.lines;
    DiagSink diags;
    SourceMap sources;
    EXPECT_FALSE(ir::ParseTarget(text, sources.Add("m.toml", text), diags).ok()) << bad.lines;
    ASSERT_EQ(diags.all().size(), 1u);
    EXPECT_EQ(std::string(diags.all()[0].def->code), "I262");
    EXPECT_NE(diags.all()[0].message.find(bad.message), std::string::npos)
        << diags.all()[0].message;
    EXPECT_FALSE(diags.all()[0].helps.empty());
    EXPECT_EQ(text.substr(diags.all()[0].span.begin, std::string(bad.at).size()), bad.at);
  }
}

// Who extends a machine says what differs, and is believed for nothing else.
TEST(Machines, ExtendingAssumes) {
  const std::string text =
      "name = \"m\"\ntitle = \"t\"\nextends = \"h200\"\nfeatures = [\"tma\"]\n"
      "[[limit]]\nname = \"sms\"\nvalue = 40\ntag = \"documented\"\nsource = \"x\"\n";
  DiagSink diags;
  const Result<ir::Target> target = ir::ParseTarget(text, -1, diags);
  ASSERT_TRUE(target.ok());
  const ir::Target h200 = Machine("h200");
  EXPECT_EQ(target->limits.sms, 40);
  EXPECT_EQ(target->origins.at("limit.sms").evidence, ir::Evidence::kDocumented);
  EXPECT_EQ(target->arch, h200.arch);
  EXPECT_FALSE(target->Has("clusters"));
  EXPECT_FALSE(target->stands_for_arch);
  EXPECT_EQ(target->lowering.copy_cycles, h200.lowering.copy_cycles);
  const ir::Origin& origin = target->origins.at("lowering.copy_cycles");
  EXPECT_EQ(origin.evidence, ir::Evidence::kAssumed);
  EXPECT_EQ(origin.source, "as of h200: " + h200.origins.at("lowering.copy_cycles").source);
  ASSERT_EQ(target->ops.size(), h200.ops.size());
  EXPECT_EQ(target->ops[0].origin.evidence, ir::Evidence::kAssumed);
  const Result<ir::Target> again = ir::ParseTarget(ir::ToToml(*target), -1, diags);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ir::ToToml(*again), ir::ToToml(*target));
}

ir::Function Kernel(const std::string& file, const std::string& kernel,
                    const frontend::Values& values) {
  frontend::Loaded loaded(
      *frontend::ReadWhole(std::string(TILEC_SOURCE_DIR) + "/stdlib/" + file + ".tile"), file);
  const std::optional<ir::Function> fn = loaded.Specialized(kernel, values);
  EXPECT_TRUE(fn.has_value()) << loaded.errors();
  return fn.value_or(ir::Function());
}

Extraction ExtractAll(const ir::Function& fn, const std::string& machine, int slices) {
  DiagSink diags;
  const std::vector<ir::OpId> loops = InnermostLoops(fn);
  EXPECT_EQ(loops.size(), 1u);
  Result<Extraction> loop = ExtractLoop(fn, loops[0], Machine(machine), slices, diags);
  EXPECT_TRUE(loop.ok()) << (diags.all().empty() ? "" : diags.all()[0].message);
  return loop.ok() ? *loop : Extraction();
}

Graph Extract(const ir::Function& fn, const std::string& machine, int slices) {
  return ExtractAll(fn, machine, slices).graph;
}

std::vector<int> OfKind(const Graph& g, const std::string& kind) {
  std::vector<int> ops;
  for (size_t v = 0; v < g.ops.size(); ++v)
    if (g.ops[v].kind == kind) ops.push_back(static_cast<int>(v));
  return ops;
}

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

}  // namespace
}  // namespace tilec::scheduler
