// Branches on what a loop carries: roles that compute it alike agree, others do not; and what the
// proof says of programs that it gives up on.
//
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/unit/warp_check/programs.h"

namespace tilec::ir {
namespace {

std::string Pair(const std::string& load, const std::string& compute) {
  return Kernel(8, Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) +
                       Role("load", 4, 1, Counter("lc") + load) +
                       Role("compute", 0, 4, Counter("cc") + compute));
}

// for k in 0..K step 64, w from `start`: if w < M { body }, w becomes what `next` makes of it.
std::string Carrying(const std::string& tag, const std::string& start, const std::string& next,
                     const std::string& body) {
  return fmt::format(
      "%e{0} = for %zero, %K, {1} {{step = 64}} : i64 do (%k{0}: i64, %w{0}: i64) {{\n"
      "{2}{3}{4}yield %u{0}\n}}\n",
      tag, start, Less("%any" + tag, "%w" + tag, "%M"), If("%any" + tag, body), next);
}

std::string Add(const std::string& tag, int by) { return Plus("%u" + tag, "%w" + tag, by); }

// The smaller of M and w + L[k]: another number in every iteration.
std::string Search(const std::string& tag) {
  return fmt::format(
      "%o{0} = gload_scalar %L, %k{0} : i64\n%s{0} = add %w{0}, %o{0} : i64\n"
      "%u{0} = min %s{0}, %M : i64\n",
      tag);
}

const std::string kLoad = Put("r", "lc", "l", 3, "%ka");
const std::string kTake = Take("r", "cc", "c", 3);

TEST(WarpCarried, RolesAgreeOnWhatGrowsByAConstant) {
  for (const int by : {64, 128, 6400}) {
    std::string text;
    WarpCheckStats stats;
    EXPECT_EQ(Verdict(Pair(Carrying("a", "%zero", Add("a", by), kLoad),
                           Carrying("b", "%zero", Add("b", by), kTake)),
                      &text, &stats),
              "")
        << by << text;
    EXPECT_LT(stats.states, 500) << by;
  }
}

TEST(WarpCarried, NotAMultipleOfTheStep) {
  std::string text;
  EXPECT_EQ(Verdict(Pair(Carrying("a", "%zero", Add("a", 100), kLoad),
                         Carrying("b", "%zero", Add("b", 100), kTake)),
                    &text),
            "")
      << text;
}

TEST(WarpCarried, RolesAgreeOnWhatALoadMoves) {
  std::string text;
  WarpCheckStats stats;
  EXPECT_EQ(Verdict(Pair(Carrying("a", "%zero", Search("a"), kLoad),
                         Carrying("b", "%zero", Search("b"), kTake)),
                    &text, &stats),
            "")
      << text;
  EXPECT_LT(stats.states, 1500);
}

// The same branch, but what is carried differs: in the first iteration, in what is added, or in
// which element is read.
TEST(WarpCarried, OtherRecurrencesAreNotTakenForTheSame) {
  const std::string take = Carrying("b", "%zero", Search("b"), kTake);
  EXPECT_NE(Verdict(Pair(Carrying("a", "%c64", Search("a"), kLoad), take)), "");
  EXPECT_NE(Verdict(Pair(Carrying("a", "%zero", Add("a", 64), kLoad), take)), "");
  EXPECT_NE(Verdict(Pair(Carrying("a", "%zero", With(Search("a"), "%ka", "%zero"), kLoad), take)),
            "");
  EXPECT_NE(Verdict(Pair(Carrying("a", "%zero", Add("a", 128), kLoad),
                         Carrying("b", "%zero", Add("b", 64), kTake))),
            "");
}

// A consumer whose iterations may all be empty does not run away from the role that feeds it.
TEST(WarpCarried, LoopsThatMayBeEmptyInsideALoop) {
  const auto nest = [](const std::string& tag, const std::string& body) {
    return For("%zero", "%M", 64, "%m" + tag, For("%zero", "%K", 64, "%k" + tag, body));
  };
  std::string text;
  WarpCheckStats stats;
  EXPECT_EQ(Verdict(Pair(nest("a", kLoad), nest("b", kTake)), &text, &stats), "") << text;
  EXPECT_LT(stats.states, 1500);
  EXPECT_EQ(Verdict(Pair(nest("a", kLoad), nest("b", Without(kTake, "fence_async\n")))),
            "WarpFence");
  EXPECT_EQ(Verdict(Pair(nest("a", With(kLoad, "8192", "4096")), nest("b", kTake))), "WarpBytes");
}

TEST(WarpVerdict, SaysWhichLimitItCameTo) {
  DiagSink diags;
  const std::string program =
      Pair(For("%zero", "%K", 64, "%ka", kLoad), For("%zero", "%K", 64, "%kb", kTake));
  const Result<Function> fn = ParseFunction(program, diags);
  ASSERT_TRUE(fn.ok());
  WarpCheckOptions options(H200());
  options.widen = false;
  EXPECT_EQ(ProveWarps(*fn, options).proof, WarpProof::kProved);
  options.max_states = 2;
  WarpVerdict verdict = ProveWarps(*fn, options);
  EXPECT_EQ(verdict.proof, WarpProof::kGivenUp);
  EXPECT_EQ(verdict.limit, WarpLimit::kStates);
  EXPECT_EQ(verdict.available, 2);
  EXPECT_FALSE(verdict.finding.has_value());
  options.max_states = 6000;
  options.max_ops = 10;
  verdict = ProveWarps(*fn, options);
  EXPECT_EQ(verdict.proof, WarpProof::kGivenUp);
  EXPECT_EQ(verdict.limit, WarpLimit::kOps);
  const Result<Function> wrong = ParseFunction(With(program, "8192", "4096"), diags);
  ASSERT_TRUE(wrong.ok());
  verdict = ProveWarps(*wrong, WarpCheckOptions(H200()));
  EXPECT_EQ(verdict.proof, WarpProof::kRefuted);
  ASSERT_TRUE(verdict.finding.has_value());
  EXPECT_EQ(std::string(verdict.finding->def->name), "WarpBytes");
}

// What roles agree on is walked for some ops, then what relates iterations, then the rest of it:
// the walk goes on where it was cut, and ends as one that never was.
TEST(WarpVerdict, AWalkThatWasCutGoesOn) {
  DiagSink diags;
  const auto nest = [](const std::string& tag, const std::string& body) {
    return For("%zero", "%M", 64, "%m" + tag, For("%zero", "%K", 64, "%k" + tag, body));
  };
  const std::string program = Pair(nest("a", kLoad), nest("b", kTake));
  const auto prove = [&](const std::string& text, int64_t first) {
    const Result<Function> fn = ParseFunction(text, diags);
    EXPECT_TRUE(fn.ok());
    WarpCheckOptions options(H200());
    options.first_agreed_ops = first;
    options.widen = false;
    options.max_states = 20;  // what relates iterations needs more
    options.max_ops = 20'000;
    return ProveWarps(*fn, options);
  };
  const WarpVerdict whole = prove(program, 20'000);
  ASSERT_EQ(whole.proof, WarpProof::kProved);
  EXPECT_EQ(whole.stats.walked, whole.stats.ops);  // one walk was enough
  for (int64_t first = 1; first < whole.stats.ops; first += 7) {
    const WarpVerdict cut = prove(program, first);
    ASSERT_EQ(cut.proof, WarpProof::kProved) << first;
    EXPECT_EQ(cut.stats.states, whole.stats.states) << first;
    EXPECT_GT(cut.stats.walked, cut.stats.ops) << first;
    // A wait that the limit fell on is asked for once more.
    EXPECT_GE(cut.stats.ops, whole.stats.ops) << first;
    EXPECT_LE(cut.stats.ops, whole.stats.ops + 1) << first;
  }
  const std::string wrong = With(program, "8192", "4096");
  for (const int64_t first : {1, 40, 20'000})
    EXPECT_EQ(prove(wrong, first).proof, WarpProof::kRefuted) << first;
}

}  // namespace
}  // namespace tilec::ir
