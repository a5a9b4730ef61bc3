// Schedules of execution: a right program gives the same under all of them, a wrong one shows, and
// what one run decided can be replayed, shortened and written down.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tests/unit/emulator/gemm.h"

namespace tilec::runtime {
namespace {

using Outputs = std::vector<uint16_t>;

EmulatorOptions With(Policy policy, Landing landing, uint64_t seed, int threads = 2) {
  EmulatorOptions o;
  o.policy = policy;
  o.landing = landing;
  o.seed = seed;
  o.threads = threads;
  o.spurious_try_wait = seed % 2 == 1;
  return o;
}

Outputs RunGemm(const std::string& ptx, const EmulatorOptions& options, std::string* text = nullptr,
                LaunchStats* stats = nullptr) {
  Gemm g(options);
  if (!g.Run(ptx, stats)) {
    if (text != nullptr) *text = g.emu.Text();
    return {};
  }
  return g.emu.Download<uint16_t>(g.dc, kSize * kSize);
}

TEST(Policy, ARightProgramGivesTheSameUnderAllOfThem) {
  EMULATOR_ONLY();
  const Outputs want = RunGemm(Ptx(), {});
  ASSERT_FALSE(want.empty());
  for (Policy policy : {Policy::kRunToBlock, Policy::kRandom, Policy::kPct, Policy::kProducerFirst,
                        Policy::kConsumerFirst})
    for (Landing landing : {Landing::kEarly, Landing::kLate, Landing::kRandom, Landing::kPoison})
      for (uint64_t seed : {0, 1}) {
        std::string text;
        EXPECT_EQ(RunGemm(Ptx(), With(policy, landing, seed), &text), want)
            << Name(policy) << " " << Name(landing) << " " << seed << "\n"
            << text;
      }
}

// The wait for the full barrier is deleted: the copy is nearly always there in time.
std::string WithoutFullWait() {
  std::string ptx = Ptx();
  size_t at = ptx.find("wgmma.mma_async");
  at = ptx.rfind("mbarrier.try_wait", at);
  size_t end = ptx.find('\n', at), begin = ptx.rfind('\n', at) + 1;
  ptx.replace(begin, end - begin, "setp.eq.u32 P1, %r1, %r1;");
  return ptx;
}

TEST(Policy, LateCopiesShowAMissingWait) {
  EMULATOR_ONLY();
  const Outputs want = RunGemm(Ptx(), {});
  const std::string wrong = WithoutFullWait();
  auto has_nan = [](const Outputs& o) {
    return std::any_of(o.begin(), o.end(), [](uint16_t x) { return std::isnan(FromBf16(x)); });
  };
  const Outputs stale = RunGemm(wrong, With(Policy::kProducerFirst, Landing::kEarly, 0));
  ASSERT_FALSE(stale.empty());
  EXPECT_FALSE(has_nan(stale)) << "old data of the stage: numbers like any other";
  const Outputs poisoned = RunGemm(wrong, With(Policy::kRunToBlock, Landing::kPoison, 0));
  EXPECT_TRUE(poisoned.empty() || has_nan(poisoned));
}

TEST(Policy, WhatIsReadBeforeACopyLands) {
  EMULATOR_ONLY();
  auto run = [](Landing landing) {
    EmulatorOptions options;
    options.landing = landing;
    return RunBody(
        ".reg .b32 %a, %b;\n.reg .pred %p;\n.shared .align 128 .b8 s[256];\n"
        ".shared .align 8 .b64 bar;",
        "setp.ne.u32 %p, %t, 0;\n@%p bra J;\n"
        "st.shared.u32 [s], 7;\n"
        "mbarrier.init.shared.b64 [bar], 1;\n"
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%in], 128, "
        "[bar];\n"
        "ld.shared.u32 %a, [s];\n"
        "W:\nmbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra W;\n"
        "ld.shared.u32 %b, [s];\n"
        "st.global.u32 [%pout], %a;\nst.global.u32 [%pout+4], %b;\n"
        "J:",
        std::vector<uint64_t>(32, 42), 32, nullptr, options)[0];
  };
  constexpr uint64_t kAfter = 42ull << 32;
  EXPECT_EQ(run(Landing::kEarly), kAfter | 42);
  EXPECT_EQ(run(Landing::kLate), kAfter | 7);
  EXPECT_EQ(run(Landing::kPoison), kAfter | 0xffffffff);
}

// One slot goes round between two warps. Where the lanes of the loading one do not meet behind the
// wait, one that is left in front of it may find the phase after the one it waits for.
TEST(Policy, LanesAreLeftBehindAtWaits) {
  EMULATOR_ONLY();
  auto hangs = [](const std::string& meet, Policy policy, uint64_t seed) {
    EmulatorOptions options;
    options.policy = policy;
    options.seed = seed;
    options.spurious_try_wait = true;
    std::string error;
    RunBody(
        ".reg .b32 %i, %p, %l;\n.reg .pred %first, %loads, %q;\n"
        ".shared .align 8 .b64 full;\n.shared .align 8 .b64 empty;",
        "and.b32 %l, %t, 31;\nsetp.eq.u32 %first, %l, 0;\nsetp.ge.u32 %loads, %t, 32;\n"
        "setp.ne.u32 %q, %t, 0;\n@%q bra I;\n"
        "mbarrier.init.shared.b64 [full], 1;\nmbarrier.init.shared.b64 [empty], 1;\n"
        "I:\nbar.sync 0;\nmov.u32 %i, 0;\n@%loads bra L;\n"
        "C:\nand.b32 %p, %i, 1;\n"
        "F:\nmbarrier.try_wait.parity.shared.b64 %q, [full], %p;\n@!%q bra F;\n"
        "bar.warp.sync 0xffffffff;\n@%first mbarrier.arrive.shared.b64 _, [empty];\n"
        "add.u32 %i, %i, 1;\nsetp.lt.u32 %q, %i, 4;\n@%q bra C;\nbra J;\n"
        "L:\nxor.b32 %p, %i, 1;\nand.b32 %p, %p, 1;\n"
        "E:\nmbarrier.try_wait.parity.shared.b64 %q, [empty], %p;\n@!%q bra E;\n" +
            meet +
            "@%first mbarrier.arrive.shared.b64 _, [full];\n"
            "add.u32 %i, %i, 1;\nsetp.lt.u32 %q, %i, 4;\n@%q bra L;\nJ:",
        {}, 64, &error, options);
    return error.find("deadlock") != std::string::npos;
  };
  int found = 0;
  for (Policy policy : {Policy::kRunToBlock, Policy::kProducerFirst, Policy::kRandom, Policy::kPct})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      EXPECT_FALSE(hangs("bar.warp.sync 0xffffffff;\n", policy, seed)) << seed;
      found += hangs("", policy, seed);
    }
  EXPECT_GT(found, 20);
}

// Bulk stores read their source, and cp.async writes its destination, when somebody waits.
TEST(Policy, CopiesOfGroupsLandWhenTheyAreWaitedFor) {
  EMULATOR_ONLY();
  auto options = [](Landing landing) {
    EmulatorOptions o;
    o.landing = landing;
    return o;
  };
  auto store = [&](Landing landing, const char* between, const char* groups) {
    return RunBody(".reg .pred %p;\n.shared .align 128 .b8 s[256];",
                   std::string("setp.ne.u32 %p, %t, 0;\n@%p bra J;\n"
                               "st.shared.u64 [s], 7;\nst.shared.u64 [s+8], 8;\n"
                               "fence.proxy.async.shared::cta;\n"
                               "cp.async.bulk.global.shared::cta.bulk_group [%out], [s], 16;\n") +
                       groups + between + "st.shared.u64 [s], 9;\nJ:",
                   {}, 32, nullptr, options(landing))[0];
  };
  const char* commit = "cp.async.bulk.commit_group;\n";
  const char* more = "cp.async.bulk.commit_group;\ncp.async.bulk.commit_group;\n";
  const char* wait = "cp.async.bulk.wait_group.read 0;\n";
  for (Landing landing : {Landing::kEarly, Landing::kLate, Landing::kPoison}) {
    const bool late = landing != Landing::kEarly;
    EXPECT_EQ(store(landing, wait, commit), 7u);
    EXPECT_EQ(store(landing, "", commit), late ? 9u : 7u) << "nobody waits";
    EXPECT_EQ(store(landing, wait, ""), late ? 9u : 7u) << "not committed";
    EXPECT_EQ(store(landing, "cp.async.bulk.wait_group.read 1;\n", commit), late ? 9u : 7u);
    EXPECT_EQ(store(landing, "cp.async.bulk.wait_group.read 1;\n", more), 7u);
  }
  auto load = [&](Landing landing) {
    return RunBody(".reg .b32 %a, %b, %c, %s;\n.shared .align 128 .b8 s[1024];",
                   "shl.b32 %s, %t, 3;\nst.shared.u32 [%s], 7;\n"
                   "cp.async.ca.shared.global [%s], [%pin], 8;\n"
                   "ld.shared.u32 %a, [%s];\ncp.async.commit_group;\ncp.async.wait_group 1;\n"
                   "ld.shared.u32 %b, [%s];\ncp.async.wait_group 0;\nld.shared.u32 %c, [%s];\n"
                   "mad.lo.u32 %a, %a, 100, %b;\nmad.lo.u32 %a, %a, 100, %c;\n"
                   "st.global.u32 [%pout], %a;",
                   std::vector<uint64_t>(32, 42), 32, nullptr, options(landing))[5];
  };
  EXPECT_EQ(load(Landing::kEarly), 424242u);
  EXPECT_EQ(load(Landing::kLate), 70742u);
  EXPECT_EQ(load(Landing::kPoison), static_cast<uint32_t>(~0u * 10000u + ~0u * 100u + 42u));
}

// A warp waits for a flag in memory that only the last warp raises, asleep or not: as the one with
// the most copies, the fewest, the highest priority it must still let the other run.
TEST(Policy, WhoWaitsForAFlagLetsTheOthersRun) {
  EMULATOR_ONLY();
  for (const std::string sleep : {"", "nanosleep.u32 20;\n"})
    for (Policy policy : {Policy::kRunToBlock, Policy::kRandom, Policy::kPct,
                          Policy::kProducerFirst, Policy::kConsumerFirst})
      for (uint64_t seed : {1, 2, 3}) {
        EmulatorOptions options = With(policy, Landing::kEarly, seed);
        options.instruction_limit = 2'000'000;
        std::string error;
        const auto out =
            RunBody(".reg .b32 %a;\n.reg .pred %p;",
                    "setp.lt.u32 %p, %t, 96;\n@%p bra WAIT;\n"
                    "st.release.cta.global.u32 [%in], 7;\nWAIT:\n" +
                        sleep +
                        "ld.acquire.cta.global.u32 %a, [%in];\nsetp.ne.u32 %p, %a, 7;\n"
                        "@%p bra WAIT;\nst.global.u32 [%pout], %a;",
                    {0}, 128, &error, options);
        EXPECT_EQ(out, std::vector<uint64_t>(128, 7)) << Name(policy) << seed << error;
      }
}

TEST(Policy, TheNumberOfThreadsDoesNotMatter) {
  EMULATOR_ONLY();
  const std::string wrong = WithoutFullWait();
  for (Landing landing : {Landing::kRandom, Landing::kLate}) {
    std::string one_text, two_text;
    const Outputs one = RunGemm(wrong, With(Policy::kPct, landing, 5, 1), &one_text);
    const Outputs two = RunGemm(wrong, With(Policy::kPct, landing, 5, 4), &two_text);
    EXPECT_EQ(one, two);
    EXPECT_EQ(one_text, two_text);
  }
}

TEST(Policy, ARecordedRunCanBeReplayedAndShortened) {
  EMULATOR_ONLY();
  const Outputs want = RunGemm(Ptx(), {});
  const std::string wrong = WithoutFullWait();
  EmulatorOptions options;
  Outputs first;  // wrong, but without a fault that would end the launch early
  for (uint64_t seed = 0; seed < 30 && (first.empty() || first == want); ++seed) {
    options = With(Policy::kRandom, Landing::kRandom, seed);
    options.record = std::make_shared<Execution>();
    first = RunGemm(wrong, options);
  }
  ASSERT_FALSE(first.empty() || first == want);
  ASSERT_EQ(options.record->clusters.size(), 16u);
  std::string why;
  auto parsed = ParseExecution(Print(*options.record), &why);
  ASSERT_TRUE(parsed.has_value()) << why;
  EXPECT_EQ(*parsed, *options.record);

  options.replay = std::make_shared<const Execution>(*parsed);
  options.policy = Policy::kRunToBlock;
  options.record = std::make_shared<Execution>();
  EXPECT_EQ(RunGemm(wrong, options), first);
  EXPECT_EQ(options.record->clusters, parsed->clusters);

  options.record = nullptr;
  int asked = 0;
  auto fails = [&](const std::vector<Decision>& list) {
    ++asked;
    Execution e = *parsed;
    e.clusters = {{0, list}};
    options.replay = std::make_shared<const Execution>(e);
    const Outputs got = RunGemm(wrong, options);
    for (size_t m = 0; m < 128; ++m)  // the tile of cluster 0
      for (size_t n = 0; n < 128; ++n)
        if (got.empty() || got[m * kSize + n] != want[m * kSize + n]) return true;
    return false;
  };
  const std::vector<Decision>& all = parsed->clusters.at(0);
  const std::vector<Decision> least = Minimise(all, fails, 60);
  EXPECT_TRUE(fails(least));
  EXPECT_LT(least.size(), all.size());
  EXPECT_LE(asked, 61);
}

TEST(Policy, MinimiseFindsTheDecisionsThatMatter) {
  std::vector<Decision> all;
  for (uint32_t k = 0; k < 100; ++k) all.push_back({k, 1});
  auto fails = [](const std::vector<Decision>& list) {
    bool a = false, b = false;
    for (const Decision& d : list) {
      a = a || d.warp == 17;
      b = b || (a && d.warp == 62);
    }
    return b;
  };
  EXPECT_EQ(Minimise(all, fails, 1000), (std::vector<Decision>{{17, 1}, {62, 1}}));
  EXPECT_EQ(Minimise(all, fails, 0), all);
}

TEST(Policy, TextsThatAreNoExecution) {
  for (const char* text : {"", "cluster 0", "execution policy=pct\n0:1", "execution policy=best",
                           "execution\ncluster x", "execution\ncluster 0\n1-2",
                           "execution\ncluster 0\n99999999999:1", "execution seed=-1"}) {
    std::string why;
    EXPECT_FALSE(ParseExecution(text, &why).has_value()) << text;
    EXPECT_EQ(why.substr(0, 5), "line ") << text;
  }
}

}  // namespace
}  // namespace tilec::runtime
