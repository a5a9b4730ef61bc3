// Roles whose way depends on scalars: branches on what is only read, counters that are carried,
// tokens between roles, loops that steer themselves. Accepted where roles agree, rejected where
// they need not.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/warp_check/plain_roles.h"
#include "tests/unit/warp_check/programs.h"

namespace tilec::ir {

namespace {

TEST(WarpControl, BranchesOnReadOnlyDataAgree) {
  auto body = [](const std::string& tag, const std::string& position, const std::string& transfer) {
    return "%v" + tag + " = gload_scalar %L, " + position + " : i64\n" +
           Less("%go" + tag, "%zero", "%v" + tag) + If("%go" + tag, transfer);
  };
  const std::string load =
      For("%zero", "%K", 64, "%k", body("l", "%k", Put("r", "lc", "l", 3, "%k")));
  const std::string compute =
      For("%zero", "%K", 64, "%j", body("c", "%j", Take("r", "cc", "c", 3)));
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, compute), &text), "") << text;
  EXPECT_NE(Verdict(LoadAndCompute(load, kPlainCompute)), "");
  EXPECT_NE(Verdict(LoadAndCompute(load, With(compute, "cmp %zero, %vc", "cmp %c64, %vc"))), "");
}

TEST(WarpControl, SlotAndPhaseCarriedWithoutCounter) {
  const std::string compute = R"(%e0, %e1 = for %zero, %K, %i0, %i0 {step = 64} : i32, i32
      do (%j: i64, %slot: i32, %phase: i32) {
    mbar_wait %rf, %phase, %slot
    %x = smem_load %r, %slot : bf16[64, 64]#0
    fence_async
    elect {scope = "warp"} do {
      mbar_arrive %re, %slot
      yield
    }
    %up = add %slot, %i1 : i32
    %wrap = cmp %up, %i3 {pred = "eq"} : bool
    %next = select %wrap, %i0, %up : i32
    %other = xor %phase, %i1 : i32
    %turn = select %wrap, %other, %phase : i32
    yield %next, %turn
  }
)";
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(kPlainLoad, compute), &text), "") << text;
  EXPECT_NE(Verdict(LoadAndCompute(kPlainLoad, With(compute, "cmp %up, %i3", "cmp %up, %i2"))), "");
  EXPECT_NE(Verdict(LoadAndCompute(kPlainLoad,
                                   With(compute, "yield %next, %turn", "yield %next, %phase"))),
            "");
}

TEST(WarpControl, LongLoopOfKnownLength) {
  const std::string hi = "%h = constant {value = 640000} : i64\n";
  const std::string load = hi + For("%zero", "%h", 64, "%k", Put("r", "lc", "l", 3, "%k"));
  const std::string compute =
      With(hi, "%h", "%g") + For("%zero", "%g", 64, "%j", Take("r", "cc", "c", 3));
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, compute), &text), "") << text;
  EXPECT_NE(Verdict(LoadAndCompute(load, With(compute, "640000", "640064"))), "");
}

TEST(WarpControl, OrderTokensBetweenComputeRoles) {
  // ping and pong pass a token round, ping first; both read their own ring in their turn.
  auto turn = [](const std::string& ring, const std::string& counter, const std::string& mine,
                 const std::string& other, bool first) {
    const std::string tag = ring;
    return Counter(counter) +
           For("%zero", "%K", 64, "%i" + tag,
               fmt::format("%tn{0} = counter_read %{1} : i32\n%tq{0} = and %tn{0}, %i1 : i32\n{4}"
                           "mbar_wait %{2}, {5}\n",
                           tag, counter, mine, other,
                           first ? fmt::format("%tp{0} = xor %tq{0}, %i1 : i32\n", tag) : "",
                           (first ? "%tp" : "%tq") + tag) +
                   Take(ring, counter, tag, 2) +
                   fmt::format("elect {{scope = \"warp\"}} do {{\nmbar_arrive %{}\nyield\n}}\n",
                               other));
  };
  auto kernel = [&](const std::string& ping, const std::string& pong) {
    return Kernel(12,
                  Ring("a", 0, 0, 2) + Ring("b", 32768, 64, 2) +
                      "%tping = mbar_alloc {offset = 121000} : mbar<1>\n"
                      "%tpong = mbar_alloc {offset = 121008} : mbar<1>\n" +
                      Init(InitRing("a", 1, 4) + InitRing("b", 1, 4) +
                           "mbar_init %tping {count = 4}\nmbar_init %tpong {count = 4}\n") +
                      Role("load", 8, 1,
                           Counter("la") + Counter("lb") +
                               For("%zero", "%K", 64, "%k",
                                   Put("a", "la", "x", 2, "%k") + Put("b", "lb", "y", 2, "%k"))) +
                      Role("ping", 0, 4, ping) + Role("pong", 4, 4, pong));
  };
  const std::string ping = turn("a", "ca", "tping", "tpong", true);
  const std::string pong = turn("b", "cb", "tpong", "tping", false);
  std::string text;
  EXPECT_EQ(Verdict(kernel(ping, pong), &text), "") << text;
  // Both wait for the other to begin.
  EXPECT_EQ(Verdict(kernel(turn("a", "ca", "tping", "tpong", false), pong)), "WarpDeadlock");
  // pong never gives the token back.
  EXPECT_NE(Verdict(kernel(ping, Without(pong, "mbar_arrive %tping\n"))), "");
}

TEST(WarpControl, LoopThatSteersItselfInOneRole) {
  const std::string body = Kernel(4, Role("main", 0, 4, R"(%n = while %zero : i64 do (%w: i64) {
      %v = gload_scalar %L, %w : i64
      %go = cmp %v, %zero {pred = "gt"} : bool
      yield %go, %w
    } do (%u: i64) {
      %nx = add %u, %c64 : i64
      yield %nx
    }
)"));
  EXPECT_EQ(Verdict(body), "");
}

// A scalar that one loop moves by a value, and a branch of another loop on it: after each turn it
// is another one, so turns are told apart no longer if that makes too many moments.
std::string IfMoved(const std::string& tag, const std::string& body) {
  const std::string moves = fmt::format(
      "%v{0} = gload_scalar %L, %zero : i64\n"
      "%p{0} = for %zero, %K, %zero {{step = 64}} : i64 do (%i{0}: i64, %w{0}: i64) {{\n"
      "%u{0} = sub %w{0}, %v{0} : i64\nyield %u{0}\n}}\n",
      tag);
  const std::string asks = fmt::format("%x{0} = gload_scalar %L, %k{0} : i64\n", tag) +
                           Less("%any" + tag, "%p" + tag, "%x" + tag) + If("%any" + tag, body);
  return moves + For("%zero", "%K", 64, "%k" + tag, asks);
}

TEST(WarpControl, CarriedScalarsThatNeverRepeat) {
  auto verdict = [](const std::string& transfer, std::string* text, WarpCheckStats* stats) {
    return Verdict(
        Kernel(4, Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) +
                      Role("main", 0, 4, Counter("lc") + Counter("cc") + IfMoved("m", transfer))),
        text, stats);
  };
  const std::string transfer = Put("r", "lc", "l", 3, "%km") + Take("r", "cc", "c", 3);
  std::string text;
  WarpCheckStats stats;
  EXPECT_EQ(verdict(transfer, &text, &stats), "") << text;
  EXPECT_LT(stats.states, 500);
  EXPECT_NE(verdict(Without(transfer, "mbar_arrive %re, %sc\n"), &text, &stats), "");
}

TEST(WarpControl, RolesAgreeOnWhatALoopInEachMoves) {
  auto verdict = [](const std::string& load) {
    return Verdict(LoadAndCompute(IfMoved("a", load), IfMoved("b", Take("r", "cc", "c", 3))));
  };
  const std::string load = Put("r", "lc", "l", 3, "%ka");
  EXPECT_EQ(verdict(load), "");
  EXPECT_NE(verdict(With(load, "8192", "4096")), "");
}

}  // namespace

}  // namespace tilec::ir
