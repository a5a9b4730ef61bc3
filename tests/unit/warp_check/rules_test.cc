// One rule at a time: a program that keeps it and its twin that does not.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/warp_check/programs.h"

namespace tilec::ir {

namespace {

std::string Pair(int load_regs = 0, int compute_regs = 0) {
  return Kernel(8,
                Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) +
                    Role("load", 4, 1,
                         Counter("lc") + For("%zero", "%K", 64, "%k", Put("r", "lc", "l", 3, "%k")),
                         load_regs) +
                    Role("compute", 0, 4,
                         Counter("cc") + For("%zero", "%K", 64, "%j", Take("r", "cc", "c", 3)),
                         compute_regs));
}

TEST(WarpRules, RingIsProvedAndEachSignalIsNeeded) {
  const std::string good = Pair();
  EXPECT_EQ(Verdict(good), "");
  EXPECT_EQ(Verdict(Without(good, "mbar_wait %rf, %qc, %sc\n")), "WarpUnfilled");
  EXPECT_NE(Verdict(Without(good, "mbar_wait %re, %pl, %sl\n")), "");
  EXPECT_EQ(Verdict(Without(good, "mbar_arrive %re, %sc\n")), "WarpDeadlock");
  EXPECT_EQ(Verdict(Without(good, "fence_async\n")), "WarpFence");
  EXPECT_EQ(Verdict(Without(good, "cta_sync {id = 0}\n")), "WarpPhase");
  EXPECT_EQ(Verdict(Without(good, "fence_mbar_init\n")), "WarpPhase");
  // In the second lap it passes at once, and the slot is released a second time.
  EXPECT_EQ(Verdict(With(good, "mbar_wait %rf, %qc", "mbar_wait %rf, %i0")), "WarpArrivals");
  EXPECT_EQ(Verdict(With(good, "mbar_wait %re, %pl", "mbar_wait %re, %ql")), "WarpDeadlock");
}

// The back end leaves the question out where a loop is said to have turns.
TEST(WarpRules, LoopsThatAreSaidToHaveTurnsHaveSome) {
  EXPECT_EQ(Verdict(With(Pair(), "for %zero, %K {step = 64} do (%j",
                         "for %zero, %K {step = 64, some = 1} do (%j")),
            "WarpForm");
}

// Warpgroups that take turns stand at different places: inside a turn they never meet.
TEST(WarpRules, NothingPassesThroughScratchInsideATurn) {
  const auto program = [](bool inside) {
    const std::string reduce =
        "%p = warp_reduce %t {kind = \"max\", axis = 1, scratch = 0} : f32[64]#2\n";
    const std::string text =
        Kernel(8, Role("compute", 0, 8,
                       "turn {id = 14, at = \"start\"}\n%t = constant {value = 1} : f32[64, 16]#1\n"
                       "turn {id = 14, at = \"begin\"}\n" +
                           (inside ? reduce : "") + "turn {id = 14, at = \"end\"}\n" +
                           (inside ? "" : reduce)));
    return With(text, "  param tensor %A",
                "  layout #1 = rank 2 t(4:1*2 8:0*1 4:0*16 2:1*8) r(2:1*1 2:0*8)\n"
                "  layout #2 = rank 1 t(4:- 8:0*1 4:0*16 2:-) r(2:0*8)\n  param tensor %A");
  };
  EXPECT_EQ(Verdict(program(false)), "");
  std::string text;
  EXPECT_EQ(Verdict(program(true), &text), "WarpDeadlock");
  EXPECT_NE(text.find("it waits inside a turn"), std::string::npos) << text;
}

TEST(WarpRules, TheReportNamesRoleOpAndChannel) {
  std::string text;
  Verdict(Without(Pair(), "mbar_wait %rf, %qc, %sc\n"), &text);
  EXPECT_NE(text.find("role `compute`, `smem_load`"), std::string::npos) << text;
  EXPECT_NE(text.find("slot 0 of the ring of `A`"), std::string::npos) << text;
  Verdict(Without(Pair(), "mbar_arrive %re, %sc\n"), &text);
  EXPECT_NE(
      text.find("role `load`, `mbar_wait`: nothing will end this wait for the empty barrier of "
                "`A`, slot 0, which has 0 of 4 arrivals"),
      std::string::npos)
      << text;
}

TEST(WarpRules, BytesAreThoseOfTheBoxes) {
  EXPECT_EQ(Verdict(With(Pair(), "bytes = 8192", "bytes = 8208")), "WarpBytes");
  EXPECT_EQ(Verdict(With(Pair(), "bytes = 8192", "bytes = 4096")), "WarpBytes");
  EXPECT_EQ(Verdict(With(Pair(), "bytes = 8192", "bytes = 0")),
            "WarpUnfilled");  // complete at once
}

TEST(WarpRules, ArrivalsAreThoseThatHappen) {
  EXPECT_EQ(Verdict(With(Pair(), "mbar_init %re {count = 4}", "mbar_init %re {count = 5}")),
            "WarpOpenEnd");  // one turn: the end comes with 4 of 5 arrivals
  EXPECT_EQ(Verdict(With(Pair(), "mbar_init %re {count = 4}", "mbar_init %re {count = 3}")),
            "WarpArrivals");
  EXPECT_EQ(Verdict(With(Pair(), "elect {scope = \"warp\"}", "elect")), "WarpOpenEnd");
}

TEST(WarpRules, RegistersFitTheLaunch) {
  EXPECT_EQ(Verdict(Pair(24, 256)), "");  // 2 groups of 248 at most
  EXPECT_EQ(Verdict(Pair(248, 256)), "WarpResource");
}

TEST(WarpRules, NamedBarriersBelongToOneSetOfWarps) {
  auto kernel = [](const char* other) {
    return Kernel(8, Role("a", 0, 4, "cta_sync {id = 1}\n") +
                         Role("b", 4, 4, fmt::format("cta_sync {{id = {}}}\n", other)));
  };
  EXPECT_EQ(Verdict(kernel("2")), "");
  EXPECT_EQ(Verdict(kernel("1")), "WarpResource");
  EXPECT_EQ(Verdict(Kernel(4, Role("a", 0, 4, "elect do {\ncta_sync {id = 1}\nyield\n}\n"))),
            "WarpForm");
}

// ---- one role: staging, copies out -----------------------------------------------------------

// ---- parts of a role that store for themselves -----------------------------------------------

// ---- a channel between compute roles ---------------------------------------------------------

std::string Handed(const std::string& read) {
  return Kernel(
      8, Ring("h", 0, 0, 2) + Init(InitRing("h", 4, 4)) +
             Role("front", 0, 4,
                  Counter("pc") + "%x = constant {value = 0} : bf16[64, 64]#0\n" +
                      For("%zero", "%K", 64, "%k",
                          Next("h", "pc", "l", 2, "e") +
                              "smem_store %x, %h, %sl\nfence_async\n"
                              "elect {scope = \"warp\"} do {\nmbar_arrive %hf, %sl\nyield\n}\n")) +
             Role("back", 4, 4,
                  Counter("cc") +
                      For("%zero", "%K", 64, "%j",
                          Next("h", "cc", "c", 2, "f") + read +
                              "elect {scope = \"warp\"} do {\nmbar_arrive %he, %sc\nyield\n}\n")));
}

TEST(WarpRules, TilesHandedBetweenComputeRoles) {
  const std::string loads = Handed("%y = smem_load %h, %sc : bf16[64, 64]#0\n");
  EXPECT_EQ(Verdict(loads), "");
  EXPECT_EQ(Verdict(Without(loads, "fence_async\n")), "");  // ordinary to ordinary: no fence
  EXPECT_EQ(Verdict(Without(loads, "mbar_wait %hf, %qc, %sc\n")), "WarpUnfilled");
  EXPECT_EQ(Verdict(Without(loads, "mbar_wait %he, %pl, %sl\n")), "WarpOverwrite");

  const std::string product = R"(%z = constant {value = 0} : f32[64, 64]#0
%g = mma_fence %z : f32[64, 64]#0
%m = mma %g, %h, %h, %sc, %sc
    {k = 64, split = "m", trans_a = 0, trans_b = 0, zero = 1, k_begin = 0} : f32[64, 64]#0
mma_commit
%w = mma_wait %m {pending = 0} : f32[64, 64]#0
)";
  const std::string products = Handed(product);
  std::string text;
  EXPECT_EQ(Verdict(products, &text), "") << text;
  EXPECT_EQ(Verdict(Without(products, "fence_async\n")), "WarpFence");
  EXPECT_EQ(Verdict(Without(products, "mma_commit\n")), "WarpProduct");
  EXPECT_EQ(Verdict(With(products, "pending = 0", "pending = 1")), "WarpProduct");
}

// ---- products under way ----------------------------------------------------------------------

TEST(WarpRules, ProductsUnderWayAcrossTurns) {
  const std::string good = Overlapped();
  std::string text;
  EXPECT_EQ(Verdict(good, &text), "") << text;
  // Releasing its own slot while the product still reads it.
  const std::string own =
      With(good, "%before = constant {value = 2}", "%before = constant {value = 3}");
  EXPECT_EQ(Verdict(With(own, "cmp %zero, %j {pred = \"lt\"}", "cmp %zero, %j {pred = \"le\"}")),
            "WarpOverwrite");
  EXPECT_EQ(Verdict(With(good, "mma_wait {pending = 1}", "mma_wait {pending = 2}")),
            "WarpOverwrite");
  EXPECT_EQ(Verdict(With(good, "%w = mma_wait %e {pending = 0} : f32[64, 64]#0\n", "")),
            "WarpOpenEnd");
}

const char* kRegisterOperand = R"(
    %s = smem_alloc {offset = 0} :
        smem<bf16[64, 64], rows=64, cols=64, panel=64, swizzle=128, depth=1>
    role {name = "main", first_warp = 0, warps = 4, regs = 0} do {
      %x = constant {value = 0} : bf16[64, 64]#0
      %z = constant {value = 0} : f32[64, 64]#0
      smem_store %x, %s
      fence_async
      cta_sync {id = 0}
      %g, %a = mma_fence %z, %x : f32[64, 64]#0, bf16[64, 64]#0
      %m = mma %g, %a, %s
    {k = 64, split = "m", trans_a = 0, trans_b = 1, zero = 1, k_begin = 0} : f32[64, 64]#0
      mma_commit
      %w = mma_wait %m, %a {pending = 0} : f32[64, 64]#0
      %n = neg %w : f32[64, 64]#0
      yield
    }
)";

TEST(WarpRules, RegistersOfProducts) {
  const std::string good = Kernel(4, kRegisterOperand);
  std::string text;
  EXPECT_EQ(Verdict(good, &text), "") << text;
  EXPECT_EQ(Verdict(With(good, "mma_wait %m, %a", "mma_wait %m")), "WarpProduct");
  EXPECT_EQ(Verdict(With(good, "mma %g, %a", "mma %z, %a")), "WarpProduct");
  EXPECT_EQ(Verdict(With(good, "mma %g, %a", "mma %g, %x")), "WarpProduct");
  EXPECT_EQ(Verdict(With(good, "neg %w", "neg %m")), "WarpProduct");
  EXPECT_EQ(Verdict(Without(good, "cta_sync {id = 0}\n")), "WarpUnfilled");
  EXPECT_EQ(Verdict(Without(good, "fence_async\n")), "WarpFence");
}

TEST(WarpRules, ScratchOfTwoRolesIsTwoScratches) {
  const std::string wide = R"(layout #1 = rank 2 t(4:1*16 32:0*1) r(16:1*1 2:0*32))";
  auto kernel = [&](int other) {
    auto role = [](int at, int first, const char* name) {
      return Role(name, first, 4,
                  fmt::format("%x{0} = constant {{value = 0}} : bf16[64, 64]#0\n"
                              "%y{0} = convert %x{0} {{scratch = {1}}} : bf16[64, 64]#1\n",
                              first, at));
    };
    return With(Kernel(8, role(0, 0, "a") + role(other, 4, "b")), "  param tensor %A",
                "  " + wide + "\n  param tensor %A");
  };
  std::string text;
  EXPECT_EQ(Verdict(kernel(16384), &text), "") << text;
  EXPECT_EQ(Verdict(kernel(0)), "WarpOverwrite");
}

TEST(WarpRules, TensorsReadAndWritten) {
  // Threads of a role write a tensor that others of them read.
  const std::string good =
      Kernel(4, R"(role {name = "main", first_warp = 0, warps = 4, regs = 0} do {
      %x = constant {value = 0} : bf16[64, 64]#0
      for %zero, %M {step = 64} do (%m: i64) {
        %end = add %m, %c64 : i64
        cta_sync {id = 1}
        gstore %O, %x, %m, %end, %zero, %c64 {modes = "rr", sizes = [64, 64], vector = 1}
        cta_sync {id = 2}
        %y = gload %O, %zero, %zero {modes = "rr", sizes = [64, 64], vector = 1} : bf16[64, 64]#0
        yield
      }
      yield
    }
)");
  const std::string inout = With(good, "out [M, K]", "inout [M, K]");
  std::string text;
  EXPECT_EQ(Verdict(inout, &text), "") << text;
  EXPECT_EQ(Verdict(Without(inout, "cta_sync {id = 1}\n")), "WarpOverwrite");
  EXPECT_EQ(Verdict(Without(inout, "cta_sync {id = 2}\n")), "WarpUnfilled");
}

TEST(WarpRules, EndlessStatesAreSaidSo) {
  // A counter that steers a branch in a way that never repeats.
  const std::string body = Kernel(
      4, Role("main", 0, 4,
              Counter("c") +
                  For("%zero", "%K", 64, "%k",
                      "%n = counter_read %c : i32\n%low = cmp %n, %i3 {pred = \"lt\"} : bool\n"
                      "counter_add %c {by = 1}\n" +
                          If("%low", "fence_async\n"))));
  EXPECT_EQ(Verdict(body), "WarpTooLarge");
}

}  // namespace

}  // namespace tilec::ir
