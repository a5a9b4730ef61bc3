// Executions with numbers: what is ordered raises nothing, what is not is found. And code that no
// execution reaches.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/executions.h"

#include "tests/unit/warp_check/programs.h"
#include "tests/warp_check/dead_code.h"

namespace tilec::ir {
namespace {

Executions Executed(const std::string& program) {
  DiagSink diags;
  SourceMap sources;
  const Result<Function> fn = ParseFunction(program, diags);
  if (!fn.ok()) {
    ADD_FAILURE() << RenderAll(diags, sources) << program;
    return {};
  }
  for (OpId id : OpsInOrder(*fn))
    if (fn->ops[id].kind == OpKind::kFor) return Execute(*fn, fn->ops[id].regions[0]);
  return Execute(*fn, fn->body);
}
std::string FaultOf(const std::string& program) { return Executed(program).fault; }
bool Finds(const std::string& program, const std::string& what) {
  const std::string fault = FaultOf(program);
  EXPECT_NE(fault.find(what), std::string::npos) << fault;
  return !fault.empty();
}

TEST(Executions, OfARing) {
  const std::string good = Overlapped();
  const Executions seen = Executed(good);
  EXPECT_EQ(seen.fault, "");
  EXPECT_GE(seen.runs, 8);  // that have another number of turns
  EXPECT_GE(seen.most, 6);  // deeper than the ring
  EXPECT_TRUE(Finds(Without(good, "mbar_wait %rf, %qc, %sc\n"), "in another phase"));
  EXPECT_TRUE(Finds(Without(good, "mbar_wait %re, %pl, %sl\n"), "in another phase"));
  EXPECT_TRUE(Finds(Without(good, "mbar_arrive %re, %old\n"), "nothing ends"));
  EXPECT_TRUE(Finds(With(good, "mma_wait {pending = 1}", "mma_wait {pending = 2}"),
                    "is not ordered after"));
  EXPECT_TRUE(Finds(With(good, "%w = mma_wait %e {pending = 0} : f32[64, 64]#0", ""), "is done"));
  EXPECT_TRUE(Finds(With(good, "mbar_wait %rf, %qc", "mbar_wait %rf, %i0"), "in another phase"));
}

// The copies of two stores a turn, each from a buffer of its own.
std::string TwoStores(const char* first, const char* second, const char* last) {
  auto store = [](const char* wait, const char* buffer) {
    return fmt::format(R"(
      elect do {{
        {}
        yield
      }}
      cta_sync {{id = 0}}
      smem_store %x, {}
      fence_async
      cta_sync {{id = 0}}
      elect do {{
        tma_store {}, %k, %zero {{map = 2, offset = 0}}
        tma_commit
        yield
      }}
)",
                       wait, buffer, buffer);
  };
  return Kernel(4, fmt::format(R"(
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %x = constant {{value = 0}} : bf16[64, 64]#0
      %a = smem_alloc {{offset = 16384}} : smem<{0}, depth=1>
      %b = smem_alloc {{offset = 24576}} : smem<{0}, depth=1>
      for %zero, %K {{step = 64}} do (%k: i64) {{
{1}{2}
        yield
      }}
      elect do {{
        {3}
        yield
      }}
      yield
    }}
)",
                               kTile, store(first, "%a"), store(second, "%b"), last));
}

TEST(Executions, OfCopiesOut) {
  const char* all = "tma_wait {pending = 0, read = 1}";
  const char* but_one = "tma_wait {pending = 1, read = 1}";
  EXPECT_EQ(FaultOf(TwoStores(all, all, all)), "");
  // Each store's buffer is free when the other's copy alone is under way.
  EXPECT_EQ(FaultOf(TwoStores(but_one, but_one, all)), "");
  EXPECT_EQ(FaultOf(TwoStores("", all, all)), "");
  EXPECT_EQ(FaultOf(Without(TwoStores(all, all, all), "tma_commit\n")), "");
  EXPECT_TRUE(Finds(TwoStores("", but_one, all), "smem_store"));
  EXPECT_TRUE(Finds(TwoStores("", "", all), "is not ordered after"));
  EXPECT_TRUE(Finds(TwoStores(all, all, but_one), "is done"));
  EXPECT_TRUE(Finds(Without(TwoStores(but_one, but_one, all), "tma_commit\n"), "smem_store"));
  EXPECT_TRUE(
      Finds(Without(TwoStores(but_one, but_one, all), "cta_sync {id = 0}\n"), "smem_store"));
}

TEST(Executions, OfTilesInTheTensorCore) {
  const std::string good = Overlapped();
  // The accumulator is passed on while the product of the turn is under way, to products alone.
  EXPECT_TRUE(
      Finds(With(good, "yield %m\n}", "%n = neg %m : f32[64, 64]#0\nyield %n\n}"), "under way"));
  EXPECT_TRUE(Finds(With(good, "%g = mma_fence %acc : f32[64, 64]#0\n%m = mma %g", "%m = mma %acc"),
                    "mma_fence"));
  EXPECT_TRUE(Finds(With(good, "%w = mma_wait %e {pending = 0}", "%w = mma_wait %e {pending = 1}"),
                    "passes on"));
}

TEST(Executions, OfATensorThatIsReadAndWritten) {
  const auto program = [](const char* sync) {
    return Kernel(4, fmt::format(R"(
    role {{name = "main", first_warp = 0, warps = 4, regs = 0}} do {{
      %x = constant {{value = 0}} : bf16[64, 64]#0
      for %zero, %K {{step = 64}} do (%k: i64) {{
        %y = gload %O, %zero, %k, %M, %K
            {{modes = "rr", sizes = [64, 64], vector = 1, has_fill = 0}} : bf16[64, 64]#0
        {0}
        gstore %O, %y, %zero, %k, %M, %K {{modes = "rr", sizes = [64, 64], vector = 1}}
        {0}
        yield
      }}
      yield
    }}
)",
                                 sync));
  };
  EXPECT_EQ(FaultOf(program("cta_sync {id = 0}")), "");
  EXPECT_TRUE(Finds(program(""), "gstore"));
}

// A pipeline of more stages than any ring has slots is executed, too.
TEST(Executions, GoWhereABranchAsksForLongLoops) {
  const auto program = [](int64_t least) {
    return Kernel(4, Init("") + Role("main", 0, 4,
                                     fmt::format("%l = constant {{value = {}}} : i64\n", least) +
                                         Less("%c", "%l", "%K") +
                                         If("%c", For("%zero", "%K", 64, "%k", "fence_async\n"))));
  };
  for (int64_t least : {100, 2000, 10000}) {
    const Executions seen = Executed(program(least));
    EXPECT_GE(seen.runs, 3) << least;
    EXPECT_GT(seen.most, least / 64);
    EXPECT_EQ(seen.fault, "");
  }
}

// The block of the release in a loop over j with `condition` around it, and one over i.
bool Dead(const std::string& condition) {
  DiagSink diags;
  SourceMap sources;
  const Result<Function> fn = ParseFunction(
      Kernel(4, Init("") +
                    Role("main", 0, 4,
                         For("%zero", "%M", 64, "%i",
                             For("%zero", "%K", 32, "%j", condition + If("%c", "fence_async\n"))))),
      diags);
  if (!fn.ok()) {
    ADD_FAILURE() << RenderAll(diags, sources);
    return false;
  }
  for (OpId id : OpsInOrder(*fn))
    if (fn->ops[id].kind == OpKind::kFenceAsync) return NeverExecuted(*fn, fn->ops[id].block);
  ADD_FAILURE() << "no fence";
  return false;
}

TEST(DeadCode, ConditionsThatExcludeEachOther) {
  const std::string below = Plus("%j31", "%j", 31) + Less("%a", "%j31", "%i");
  const auto above = [](int by) { return Plus("%j5", "%j", by) + Less("%b", "%i", "%j5"); };
  const std::string both = "%c = and %a, %b : bool\n";
  // A tile that is wholly below a diagonal and partly above another, far to the left.
  EXPECT_TRUE(Dead(below + above(5) + both));
  EXPECT_TRUE(Dead(below + above(32) + both));
  EXPECT_FALSE(Dead(below + above(33) + both));
  EXPECT_FALSE(Dead(below + above(5) + "%c = or %a, %b : bool\n"));
  EXPECT_TRUE(Dead(below + "%b = not %a : bool\n" + both));
  // i goes by 64 and j by 32, so nothing lies strictly between two of their distances.
  const std::string farther = Plus("%j32", "%j", 32) + Less("%a", "%j32", "%i");
  EXPECT_TRUE(Dead(farther + above(64) + both));
  EXPECT_FALSE(Dead(farther + above(65) + both));
  // Sums of several.
  const std::string ends = Less("%a", "%K", "%M") + Less("%b", "%M", "%i");
  EXPECT_TRUE(Dead(ends + both));  // the loop over i ends at M
  EXPECT_FALSE(Dead(Less("%c", "%M", "%K")));
  // One of two, neither of which can be.
  const std::string outside = Less("%a", "%M", "%i");
  EXPECT_TRUE(Dead(outside + Less("%b", "%K", "%j") + "%c = or %a, %b : bool\n"));
  EXPECT_FALSE(Dead(outside + Less("%b", "%j", "%K") + "%c = or %a, %b : bool\n"));
}

}  // namespace
}  // namespace tilec::ir
