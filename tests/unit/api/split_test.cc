// How many CTAs share the turns of a tile's loop: what the model chooses for which sizes, and what
// becomes of it.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/tune_facts.h"
#include "backend/backend.h"
#include "ir/passes/defer_unlikely.h"
#include "ir/text.h"
#include "ir/warp_check/rate.h"
#include "tests/unit/api/loaded.h"

namespace tilec::api {
namespace {

class SplitTest : public LibraryTest {
 protected:
  Call Gemm(int64_t m, int64_t n, int64_t k) {
    return Of({{"M", m}, {"N", n}, {"K", k}, {"BM", int64_t{128}}, {"BN", int64_t{128}}});
  }
  int64_t Ctas(const Call& call, const char* schedule = "solve") {
    PipelineOptions options;
    options.schedule = schedule;
    return SplitFor(loaded_, signature_, options, call).ctas;
  }
  std::optional<ir::Function> Lowered(const Call& call, const PipelineOptions& options,
                                      DiagSink& diags) {
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    if (!tile.ok()) return std::nullopt;
    auto warps = LowerToWarps(loaded_, std::move(*tile), options, nullptr, diags);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
    return warps.ok() ? std::optional(std::move(*warps)) : std::nullopt;
  }
};

// 16 tiles of 256 turns leave 116 multiprocessors idle, but 16 clusters of eight do not run at once
// (38 us on an H200, and 34 in four); 1024 tiles leave none; of 4 turns there is nothing to share.
TEST_F(SplitTest, FewTilesOfLongLoopsAreShared) {
  Load("std/matmul.tile", "gemm");
  EXPECT_EQ(Ctas(Gemm(512, 512, 16384)), 4);
  EXPECT_EQ(Ctas(Gemm(384, 640, 16384)), 8);  // 15 tiles
  EXPECT_EQ(Ctas(Gemm(4096, 4096, 4096)), 1);
  EXPECT_EQ(Ctas(Gemm(512, 512, 256)), 1);
  // Two for each of 56 tiles: four would be more than run at once.
  EXPECT_EQ(Ctas(Gemm(8 * 128, 7 * 128, 16384)), 2);
}

TEST_F(SplitTest, TheModelSaysWhatIsGained) {
  Load("std/matmul.tile", "gemm");
  const scheduler::SplitChoice choice = SplitFor(loaded_, signature_, {}, Gemm(512, 512, 16384));
  // A turn takes the tensor core 512 cycles at about 1.8 GHz.
  EXPECT_GT(choice.alone_ms, 256 * 512 / 2.0e6);
  EXPECT_GT(choice.ms, choice.alone_ms / 8);
  EXPECT_LT(choice.ms, choice.alone_ms / 2);
}

TEST_F(SplitTest, OnlyTheSolversOwnChoiceIsMade) {
  Load("std/matmul.tile", "gemm");
  for (const char* schedule : {"sequential", "solve:once", "solve:persistent", "solve:split=1",
                               "solve:split=4", "solve:slices=2"})
    EXPECT_EQ(Ctas(Gemm(512, 512, 16384), schedule), 1) << schedule;
}

// Sums that are kept relative to a largest value are shared like others, and heads of a group are
// rows of one tile where that leaves fewer.
TEST_F(SplitTest, AttentionOfFewTiles) {
  Load("std/attention.tile", "attention");
  const auto choice = [&](int64_t h, int64_t g, int64_t s, int64_t l, bool causal = false) {
    const Call call = Of({{"B", int64_t{1}},
                          {"H", h},
                          {"G", g},
                          {"S", s},
                          {"L", l},
                          {"D", int64_t{64}},
                          {"BQ", int64_t{16}},
                          {"BKV", int64_t{64}},
                          {"scale", 0.125},
                          {"causal", causal}});
    return SplitFor(loaded_, signature_, {}, call);
  };
  const auto decode = choice(64, 8, 1, 16384);
  EXPECT_EQ(decode.pack, 8);
  EXPECT_EQ(decode.ctas, 8);
  const auto alone = choice(8, 8, 1, 16384);  // no groups
  EXPECT_EQ(alone.pack, 1);
  EXPECT_EQ(alone.ctas, 8);
  const auto many = choice(1024, 128, 1, 16384);  // every SM has a tile
  EXPECT_EQ(many.pack, 8);
  EXPECT_EQ(many.ctas, 1);
  EXPECT_EQ(choice(64, 8, 1, 64).ctas, 1);  // nothing to share
  EXPECT_EQ(choice(64, 8, 2048, 2048).pack, 1);
}

// What is said to fill a role's registers before it is lowered is refused when it is: of D = 64 in
// rows of 256 a thread has 64 of its sum and one for each key beside.
TEST_F(SplitTest, TilesThatFillRegistersAreKnownBeforeTheyAreLowered) {
  Load("std/attention.tile", "attention");
  DiagSink diags;
  const Result<Machine> h200 = MachineOf({}, diags);
  PipelineOptions other;
  other.target = "rtx4090";
  const Result<Machine> rtx4090 = MachineOf(other, diags);
  ASSERT_TRUE(h200.ok() && rtx4090.ok());
  const auto cleaned = [&](int64_t rows, int64_t keys) {
    const Call call = Of({{"B", int64_t{2}},
                          {"H", int64_t{24}},
                          {"G", int64_t{24}},
                          {"S", int64_t{4096}},
                          {"L", int64_t{4096}},
                          {"D", int64_t{64}},
                          {"BQ", rows},
                          {"BKV", keys},
                          {"scale", 0.125},
                          {"causal", false}});
    auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
    EXPECT_TRUE(tile.ok());
    auto clean = Clean(std::move(*tile), {}, diags);
    EXPECT_TRUE(clean.ok());
    return std::move(clean->fn);
  };
  EXPECT_TRUE(FillsRegisters(cleaned(256, 160), **h200));
  EXPECT_TRUE(FillsRegisters(cleaned(256, 128), **h200));
  EXPECT_FALSE(FillsRegisters(cleaned(256, 112), **h200));
  EXPECT_FALSE(FillsRegisters(cleaned(128, 160), **h200));
  EXPECT_FALSE(FillsRegisters(cleaned(64, 128), **h200));      // one warpgroup
  EXPECT_FALSE(FillsRegisters(cleaned(256, 160), **rtx4090));  // products are complete at once
}

// A sum that two products of a turn go on with is one tile: of 256 rows by 128 weights of four bits
// a thread has 128 of it, and no 128 more beside.
TEST_F(SplitTest, ASumOfTwoProductsIsHeldOnce) {
  Load("std/models/scaled.tile", "gemm_w4a16");
  DiagSink diags;
  const Result<Machine> h200 = MachineOf({}, diags);
  ASSERT_TRUE(h200.ok());
  const Call call = Of({{"M", int64_t{4096}},
                        {"N", int64_t{8192}},
                        {"KB", int64_t{64}},
                        {"BM", int64_t{256}},
                        {"BN", int64_t{128}}});
  auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
  ASSERT_TRUE(tile.ok());
  auto clean = Clean(std::move(*tile), {}, diags);
  ASSERT_TRUE(clean.ok());
  EXPECT_FALSE(FillsRegisters(clean->fn, **h200));
}

// What is rated is what is made, and one that is broken is refused.
TEST_F(SplitTest, RatedProgramsAreThoseThatAreMade) {
  Load("std/attention.tile", "attention");
  DiagSink diags;
  const Result<Machine> machine = MachineOf({}, diags);
  const Call call = Of({{"B", int64_t{2}},
                        {"H", int64_t{4}},
                        {"G", int64_t{2}},
                        {"S", int64_t{300}},
                        {"L", int64_t{500}},
                        {"D", int64_t{128}},
                        {"scale", 0.125},
                        {"causal", true}});
  auto tile = MakeTileIr(loaded_, signature_.kernel, call, nullptr, diags);
  ASSERT_TRUE(machine.ok() && tile.ok());
  ir::Function made = ir::Likely(*tile);
  ASSERT_TRUE(ir::RunPasses(made, ir::kCleanUp, **machine, {}, diags).ok());
  auto clean = Clean(*tile, {}, diags);
  ASSERT_TRUE(clean.ok());
  EXPECT_EQ(ir::Print(clean->fn), ir::Print(made));
  ir::Function broken = *std::move(tile);
  for (ir::Op& op : broken.ops)
    if (op.kind == ir::OpKind::kStore) op.operands.pop_back();
  EXPECT_FALSE(Clean(std::move(broken), {}, diags).ok());
}

// Causal tiles take unequally long. CTAs that walk over them save a beginning and an end of each,
// and go through all heads in every round: 56 us and 48 at S = 512 on an H200, 113 and 108 at 2048,
// but 727 and 783 at 4096 and 2459 and 2804 at 8192 of two batches, where the keys of all heads are
// more than the cache holds. (Turns are few or many, tiles equally long: nothing to choose.)
TEST_F(SplitTest, CtasStayByTheSizes) {
  Load("std/attention.tile", "attention");
  const auto call = [&](int64_t b, int64_t h, int64_t s, bool causal) {
    return Of({{"B", b},
               {"H", h},
               {"G", h},
               {"S", s},
               {"L", s},
               {"D", int64_t{64}},
               {"BQ", int64_t{192}},
               {"BKV", int64_t{128}},
               {"scale", 0.125},
               {"causal", causal}});
  };
  const auto stays = [&](int64_t b, int64_t h, int64_t s, bool causal) {
    return SplitFor(loaded_, signature_, {}, call(b, h, s, causal)).stays;
  };
  EXPECT_TRUE(stays(16, 16, 512, true));
  EXPECT_TRUE(stays(1, 64, 2048, true));
  EXPECT_FALSE(stays(2, 64, 4096, true));
  EXPECT_FALSE(stays(2, 64, 8192, true));
  EXPECT_FALSE(stays(16, 16, 512, false));
  EXPECT_FALSE(stays(1, 4, 512, true));  // twelve tiles
  // What is chosen is part of the key, and the program has it.
  Call chosen = call(16, 16, 512, true);
  const auto grid = [&] {
    DiagSink diags;
    const auto warps = Lowered(chosen, PipelineOptions().For(chosen), diags);
    EXPECT_TRUE(warps);
    Bindings all = warps->statics;
    for (const auto& [name, value] : NamesOf(chosen)) all[name] = value;
    return Eval(warps->launch.grid, all).value_or(0);
  };
  const std::string key = ImageKey(loaded_, "attention", chosen, {});
  EXPECT_EQ(grid(), 3 * 16 * 16);
  chosen.stays = true;
  EXPECT_EQ(grid(), 132);
  EXPECT_NE(ImageKey(loaded_, "attention", chosen, {}), key);
}

// Keys of 256 columns by 112: no ring has room, and each turn waits for its own copies, which the
// model counts in full (25 batches of 7778 keys in tiles of 96, without rings: 0.55 of cuDNN on an
// H200, where 55 us were predicted).
TEST_F(SplitTest, TurnsThatWaitForTheirCopiesAreTold) {
  Load("std/attention.tile", "attention");
  for (const int64_t keys : {64, 112}) {
    const Call call = Of({{"B", int64_t{1}},
                          {"H", int64_t{8}},
                          {"G", int64_t{8}},
                          {"D", int64_t{256}},
                          {"BQ", int64_t{128}},
                          {"BKV", keys},
                          {"scale", 0.0625},
                          {"causal", false}});
    DiagSink diags;
    const auto warps = Lowered(call, {}, diags);
    ASSERT_TRUE(warps);
    EXPECT_EQ(AwaitsCopies(*warps), keys == 112) << keys;
  }
}

// Sixteen rows fill one warp in four of what combines them: the others read nothing from the other
// CTAs, and say so by a predicate.
TEST_F(SplitTest, WarpsThatHoldNothingExchangeNothing) {
  Load("std/matmul.tile", "gemm");
  for (const int64_t rows : {16, 64}) {
    const Call call = Of({{"BM", rows}, {"BN", int64_t{64}}, {"BK", int64_t{64}}});
    PipelineOptions options;
    options.schedule = "solve:split=4";
    DiagSink diags;
    const auto warps = Lowered(call, options, diags);
    ASSERT_TRUE(warps);
    const auto image = MakeImage(loaded_, *warps, options, nullptr, diags);
    ASSERT_TRUE(image.ok());
    int reads = 0, guarded = 0;
    for (size_t at = image->ptx.find("ld.shared::cluster"); at != std::string::npos;
         at = image->ptx.find("ld.shared::cluster", at + 1)) {
      ++reads;
      guarded += image->ptx.substr(image->ptx.rfind('\n', at), 8).find('@') != std::string::npos;
    }
    EXPECT_GT(reads, 0);
    EXPECT_EQ(guarded, rows == 16 ? reads : 0);
  }
}

// Rows that are walked several times, also where one would be kept on the chip by one CTA; not
// where there are many of them, or a turn holds one.
TEST_F(SplitTest, FewLongRowsAreShared) {
  const auto ctas = [&](int64_t r, int64_t c) {
    return Ctas(Of({{"R", r}, {"C", c}, {"eps", 1e-5}}));
  };
  Load("std/norm.tile", "layernorm");
  EXPECT_GT(ctas(4, 94819), 1);
  EXPECT_GT(ctas(26, 94819), 1);
  EXPECT_EQ(
      Ctas(Of({{"R", int64_t{26}}, {"C", int64_t{94819}}, {"WALKS", int64_t{3}}, {"eps", 1e-5}})),
      4);  // 10.4 us, in eight 14.0 (H200)
  EXPECT_GT(ctas(60, 94816), 1);
  EXPECT_EQ(ctas(2000, 94819), 1);
  EXPECT_EQ(ctas(4, 4096), 1);
  Load("std/norm.tile", "rmsnorm");
  EXPECT_GT(ctas(8, 40000), 1);  // 80 KB of shared memory would hold it
  Load("std/softmax.tile", "softmax");
  const auto of = [&](int64_t r, int64_t c) { return Ctas(Of({{"R", r}, {"C", c}})); };
  EXPECT_GT(of(16, 45715), 1);
  EXPECT_EQ(of(4096, 45715), 1);
  Load("std/models/loss.tile", "cross_entropy");
  EXPECT_GT(Ctas(Of({{"R", int64_t{32}}, {"C", int64_t{128256}}, {"ignore", int64_t{-100}}})), 1);
  Load("std/models/sampling.tile", "greedy");
  EXPECT_GT(of(16, 128256), 1);
  EXPECT_EQ(of(4096, 128256), 1);
}

TEST_F(SplitTest, ItIsPartOfTheKeyAndOfTheLaunch) {
  Load("std/matmul.tile", "gemm");
  Call call = Gemm(512, 512, 16384);
  const std::string one = ImageKey(loaded_, "gemm", call, {});
  call.split = 4;
  EXPECT_NE(ImageKey(loaded_, "gemm", call, {}), one);
  DiagSink diags;
  const auto warps = Lowered(call, PipelineOptions().For(call), diags);
  ASSERT_TRUE(warps);
  EXPECT_EQ(warps->launch.cluster, 4);
  // A loop that begins where its part does has a period like any other: 512 cycles a turn.
  DiagSink quiet;
  const Result<ir::Target> target = ir::LoadBuiltinTarget("h200", quiet);
  ASSERT_TRUE(target.ok());
  const auto rates = ir::RatesOf(*warps, *target, quiet);
  ASSERT_TRUE(rates.ok());
  ASSERT_EQ(rates->size(), 1u);
  EXPECT_GE(rates->front().Cycles(), 512);
}

// Two roles, each with its half of the rows, combine their halves by barriers of their own.
TEST_F(SplitTest, EachSliceOfTheRowsIsCombinedByItsRole) {
  Load("std/matmul_types.tile", "gemm_i8");
  const Call call = Of({{"M", int64_t{512}}, {"N", int64_t{512}}, {"K", int64_t{16384}}});
  PipelineOptions options;
  options.schedule = "solve:slices=2";
  options.split = 8;
  DiagSink diags;
  const auto warps = Lowered(call, options, diags);
  ASSERT_TRUE(warps);
  EXPECT_EQ(warps->launch.cluster, 8) << RenderAll(diags, loaded_.sources);
  std::set<ir::OpId> roles;
  for (ir::OpId id : ir::OpsInOrder(*warps))
    if (warps->ops[id].kind == ir::OpKind::kWarpClusterReduce)
      roles.insert(warps->blocks[warps->ops[id].block].parent);
  EXPECT_EQ(roles.size(), 2u) << RenderAll(diags, loaded_.sources);
}

// How often CTAs of a cluster say that they are there, wait for the others, and do both at once.
struct Meetings {
  int arrivals = 0, waits = 0, both = 0;
  auto operator<=>(const Meetings&) const = default;
};

Meetings MeetingsIn(const ir::Function& warps, const SourceMap& sources) {
  DiagSink diags;
  Meetings m;
  const Result<ir::Target> target = ir::LoadBuiltinTarget("h200", diags);
  if (!target.ok()) return m;
  const auto image = backend::Compile(warps, sources, backend::BackendOptions(*target), diags);
  EXPECT_TRUE(image.ok()) << RenderAll(diags, sources);
  if (!image.ok()) return m;
  std::istringstream lines(image->ptx);
  for (std::string line; std::getline(lines, line);) {
    const bool arrives = line.find("barrier.cluster.arrive") != line.npos;
    const bool waits = line.find("barrier.cluster.wait") != line.npos;
    m.both += arrives && waits;
    m.arrivals += arrives && !waits;
    m.waits += waits && !arrives;
  }
  return m;
}

// CTAs that only put tiles together go to work at once, and each role waits for the others right
// before its first exchange. In a branch it might not come there, in a loop it comes twice: there
// all meet first.
TEST_F(SplitTest, CtasMeetBeforeTheirFirstExchange) {
  Load("std/matmul.tile", "gemm");
  PipelineOptions options;
  options.schedule = "solve:split=2";
  DiagSink diags;
  const auto warps = Lowered(Gemm(128, 128, 4096), options, diags);
  ASSERT_TRUE(warps);
  ASSERT_EQ(warps->launch.cluster, 2);
  std::set<ir::OpId> roles;
  for (ir::OpId id : ir::OpsInOrder(*warps))
    if (warps->ops[id].kind == ir::OpKind::kWarpClusterReduce)
      roles.insert(warps->blocks[warps->ops[id].block].parent);
  ASSERT_FALSE(roles.empty());
  const int many = static_cast<int>(roles.size());
  EXPECT_EQ(MeetingsIn(*warps, loaded_.sources), (Meetings{1, many + 1, 1}));
  for (const ir::OpKind around : {ir::OpKind::kIf, ir::OpKind::kFor}) {
    ir::Function inside = *warps;
    const ir::OpId role = *roles.begin();
    const ir::BlockId outer = inside.ops[role].block;
    const auto place = [&] {
      std::vector<ir::OpId>& ops = inside.blocks[outer].ops;
      return std::find(ops.begin(), ops.end(), role) - ops.begin();
    };
    const size_t before = inside.blocks[outer].ops.size();
    ir::Builder b(inside, outer);
    const ir::ValueId zero = b.Int(0), two = b.Int(2);
    const bool loop = around == ir::OpKind::kFor;
    const ir::ValueId some = loop ? two : b.Cmp("lt", zero, two);
    const ir::OpId op =
        loop ? b.Add(around, {zero, two}, {}, {{"step", int64_t{1}}}) : b.Add(around, {some}, {});
    for (int arm = 0; arm < (loop ? 1 : 2); ++arm) {
      const ir::BlockId region = inside.AddBlock(op);
      inside.ops[op].regions.push_back(region);
      if (loop) inside.AddArg(region, ir::Type::Scalar(ir::DType::kI64), "turn");
      if (arm == 0) {
        inside.ops[role].block = region;
        inside.blocks[region].ops.push_back(role);
      }
      ir::Builder(inside, region).Yield({});
    }
    std::vector<ir::OpId>& ops = inside.blocks[outer].ops;
    const std::vector<ir::OpId> made(ops.begin() + static_cast<std::ptrdiff_t>(before), ops.end());
    ops.resize(before);
    const auto at = place();
    ops.erase(ops.begin() + at);
    ops.insert(ops.begin() + at, made.begin(), made.end());
    EXPECT_EQ(MeetingsIn(inside, loaded_.sources), (Meetings{0, 0, 2}));
  }
}

// Where it cannot be, the kernel is lowered as ever, and a note says why.
TEST_F(SplitTest, AnObstacleIsANote) {
  Load("std/softmax.tile", "softmax");
  Call call = Of({{"R", int64_t{16}}, {"C", int64_t{1024}}});
  PipelineOptions options;
  options.schedule = "solve:split=4";
  DiagSink diags;
  const auto warps = Lowered(call, options, diags);
  ASSERT_TRUE(warps);
  EXPECT_EQ(warps->launch.cluster, 1);
  ASSERT_FALSE(diags.all().empty());
  EXPECT_STREQ(diags.all().back().def->code, "R603");
}

// Rows whose turns CTAs would share, on machines whose CTAs come alone: one CTA, which is said.
TEST_F(SplitTest, WithoutClustersRowsAreNotShared) {
  Load("std/softmax.tile", "softmax");
  const Call call = Of({{"R", int64_t{2}}, {"C", int64_t{50000}}});
  for (const char* target : {"rtx5090", "a100"})
    for (const char* schedule : {"solve:split=4", "sequential:split=4"}) {
      PipelineOptions options;
      options.target = target;
      options.schedule = schedule;
      DiagSink diags;
      const auto warps = Lowered(call, options, diags);
      ASSERT_TRUE(warps);
      EXPECT_EQ(warps->launch.cluster, 1) << target << " " << schedule;
      EXPECT_NE(RenderAll(diags, loaded_.sources).find("the target has no clusters"),
                std::string::npos);
      diags.Clear();
    }
}

}  // namespace
}  // namespace tilec::api
