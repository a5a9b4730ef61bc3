// The period of emitted loops, against what is computed by hand on a machine of round numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/rate.h"

#include "ir/operand_reads.h"
#include "tests/unit/warp_check/programs.h"

namespace tilec::ir {
namespace {

// A load takes 1000 cycles and keeps the copy engine for 100; a product takes 300 and keeps the
// tensor core for 200; reading a tile into registers takes 50 of its role's time.
constexpr const char* kRound = R"(name = "round"
title = "round numbers"
extends = "h200"
features = ["tma"]
[[unit]]
name = "tensor"
capacity = 1
tag = "assumed"
source = "test"
[[unit]]
name = "tma"
capacity = 1
tag = "assumed"
source = "test"
[[op]]
kind = "tma_load"
ops = ["load"]
warps = 1
async = true
issue = 10
latency = 1000
use = { tma = 100 }
tag = "assumed"
source = "test"
[[op]]
kind = "dot"
ops = ["dot"]
warps = 4
async = true
issue = 20
latency = 300
use = { tensor = 200 }
tag = "assumed"
source = "test"
[[op]]
kind = "smem_load"
ops = ["smem_load"]
warps = 4
issue = 50
latency = 50
tag = "assumed"
source = "test"
[[op]]
kind = "other"
ops = ["*"]
warps = 4
issue = 0
latency = 0
tag = "assumed"
source = "test"
)";

LoopRate RateOf(const std::string& program) {
  DiagSink diags;
  SourceMap sources;
  EXPECT_EQ(Verdict(program), "");
  const Result<Function> fn = ParseFunction(program, diags);
  const Result<Target> target = ParseTarget(kRound, -1, diags);
  if (!fn.ok() || !target.ok()) {
    ADD_FAILURE() << RenderAll(diags, sources);
    return {};
  }
  const auto rates = RatesOf(*fn, *target, diags);
  if (!rates.ok() || rates->size() != 1) {
    ADD_FAILURE() << RenderAll(diags, sources) << "not one loop";
    return {};
  }
  return (*rates)[0];
}

// A load role and a compute role that reads each tile, through a ring.
std::string RingOf(int depth) {
  return Kernel(
      8, Ring("r", 0, 0, depth) + Init(InitRing("r", 1, 4)) +
             Role("load", 4, 1,
                  Counter("lc") + For("%zero", "%K", 64, "%k", Put("r", "lc", "l", depth, "%k"))) +
             Role("compute", 0, 4,
                  Counter("cc") + For("%zero", "%K", 64, "%j", Take("r", "cc", "c", depth))));
}

TEST(WarpRate, ARingIsAsFastAsItIsDeep) {
  // A slot is away for 1000 + 50 cycles per turn of the ring, until the copy engine is the limit.
  for (const int depth : {1, 2, 3, 5, 7, 10}) {
    const LoopRate rate = RateOf(RingOf(depth));
    EXPECT_EQ(rate.order.delay * depth, 1050 * rate.order.tokens) << depth;
    EXPECT_EQ(rate.loops.size(), 2u);
  }
  const LoopRate deep = RateOf(RingOf(12));
  EXPECT_EQ(deep.order.delay, 100 * deep.order.tokens);
  EXPECT_EQ(deep.unit, "tma");
  EXPECT_EQ(deep.Cycles(), 100);
}

TEST(WarpRate, ProductsAwaitedATurnLater) {
  // The slot of turn c is given back in turn c + 1, after that turn's own tile has come (1000) and
  // its product was issued (20): only two of the three slots are on their way.
  const LoopRate rate = RateOf(Overlapped());
  EXPECT_EQ(rate.order.delay * 2, 1020 * rate.order.tokens);
  EXPECT_EQ(rate.busy, 200);
  EXPECT_EQ(rate.unit, "tensor");
}

TEST(WarpRate, PeeledTurnsDoNotSlowTheRest) {
  const std::string peeled =
      Less("%any", "%zero", "%K") +
      If("%any", Take("r", "cc", "a", 3) + For("%c64", "%K", 64, "%j", Take("r", "cc", "b", 3)));
  const std::string program = Kernel(
      8, Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) +
             Role("load", 4, 1,
                  Counter("lc") + For("%zero", "%K", 64, "%k", Put("r", "lc", "l", 3, "%k"))) +
             Role("compute", 0, 4, Counter("cc") + peeled));
  EXPECT_EQ(RateOf(program).Cycles(), 350);
}

// 16 of K of 128 x 256 by eight warps: of 64 x 64 each reads 128 rows and columns of 32 bytes, of
// 16 x 256 272; what comes from registers is not read. A unit that reads by itself asks no warp.
TEST(WarpRate, WarpsReadTheRowsAndColumnsOfTheirParts) {
  const MatrixUnit unit = *MatrixUnitNamed("mma.sync");
  const ProductShape product{DType::kBF16, 128, 256, 16};
  EXPECT_EQ(OperandReads(unit, product, 2, WgSplit::kN, 2, false), 8 * (64 + 64) * 32);
  EXPECT_EQ(OperandReads(unit, product, 2, WgSplit::kM, 1, false), 8 * (16 + 256) * 32);
  EXPECT_EQ(OperandReads(unit, product, 2, WgSplit::kM, 4, false), 8 * (64 + 64) * 32);
  EXPECT_EQ(OperandReads(unit, product, 2, WgSplit::kM, 1, true), 8 * 256 * 32);
  EXPECT_EQ(OperandReads(kOfOld, product, 2, WgSplit::kM, 1, false), 0);
  EXPECT_EQ(OperandReads(MatrixUnit::kNone, product, 2, WgSplit::kM, 1, false), 0);
}

// Two warpgroups, 1000 cycles of products for both, 74 to hand a turn over: own, the other's, own.
TEST(WarpRate, TurnsHoldUpForThreeHalves) {
  DiagSink diags;
  const auto target = LoadBuiltinTarget("h200", diags);
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(HeldUpByTurns(1000, *target), (500 + 74) * 3 / 2);
}

}  // namespace
}  // namespace tilec::ir
