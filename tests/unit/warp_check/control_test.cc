// Roles that arrange the same transfers in different ways: accepted; with one transfer, release or
// token more or less: rejected.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/warp_check/programs.h"

#include "tests/unit/warp_check/plain_roles.h"

namespace tilec::ir {

namespace {

TEST(WarpControl, PlainLoop) {
  WarpCheckStats stats;
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(kPlainLoad, kPlainCompute), &text, &stats), "") << text;
  EXPECT_LT(stats.states, 40);
}

TEST(WarpControl, OneTurnLessOnOneSide) {
  const std::string late = For("%c64", "%K", 64, "%j", Take("r", "cc", "c", 3));
  EXPECT_EQ(Verdict(LoadAndCompute(kPlainLoad, late)), "WarpOpenEnd");
  const std::string early = For("%c64", "%K", 64, "%k", Put("r", "lc", "l", 3, "%k"));
  EXPECT_EQ(Verdict(LoadAndCompute(early, kPlainCompute)), "WarpDeadlock");
}

TEST(WarpControl, PeeledTurnsAreTheSameTurns) {
  const std::string peeled =
      Less("%any", "%zero", "%K") +
      If("%any", Take("r", "cc", "a", 3) + For("%c64", "%K", 64, "%j", Take("r", "cc", "b", 3)));
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(kPlainLoad, peeled), &text), "") << text;
  // Without the guard it waits for a turn that does not come when K = 0.
  const std::string bold =
      Take("r", "cc", "a", 3) + For("%c64", "%K", 64, "%j", Take("r", "cc", "b", 3));
  EXPECT_EQ(Verdict(LoadAndCompute(kPlainLoad, bold)), "WarpDeadlock");
}

TEST(WarpControl, PrologueAndEpilogueOfOneRoleOnly) {
  // Two turns deep if there are two, else turn by turn.
  const std::string deep =
      Plus("%e", "%K", -128) + If("%two",
                                  Take("r", "cc", "a", 3) + Take("r", "cc", "b", 3) +
                                      For("%c128", "%K", 64, "%j", Take("r", "cc", "c", 3)),
                                  For("%zero", "%K", 64, "%g", Take("r", "cc", "d", 3)));
  const std::string compute =
      "%c128 = constant {value = 128} : i64\n" + Less("%two", "%c64", "%K") + deep;
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(kPlainLoad, compute), &text), "") << text;
  EXPECT_NE(Verdict(LoadAndCompute(kPlainLoad, With(compute, "cmp %c64, %K", "cmp %zero, %K"))),
            "");
}

// Turns on this side of two borders have a version of their own, with a mistake that shows when the
// ring comes round: late turns of it are walked, too, however far off the borders are.
TEST(WarpControl, VersionsWithFarBorders) {
  for (const int border : {1000, 100000, 2147483000}) {
    const std::string fits = Take("r", "cc", "c", 8);
    auto compute = [&](const std::string& here) {
      return fmt::format("%far = constant {{value = {}}} : i64\n", border) +
             fmt::format("%nearer = constant {{value = {}}} : i64\n", border - 5) +
             For("%zero", "%K", 64, "%j",
                 Less("%x", "%j", "%far") + Less("%y", "%j", "%nearer") +
                     "%both = and %x, %y : bool\n" + If("%both", here, Take("r", "cc", "e", 8)));
    };
    const std::string load = For("%zero", "%K", 64, "%k", Put("r", "lc", "l", 8, "%k"));
    std::string text;
    EXPECT_EQ(Verdict(LoadAndCompute(load, compute(fits), 8), &text), "") << text;
    const std::string wrong =
        "%v = constant {value = 7} : i32\n" + With(fits, "div %nc, %dc", "div %nc, %v");
    // Its wait passes too early. Sizes all lie on one side of what is far off, so there the version
    // is met from the first lap on, and reads what nothing has filled.
    const char* finding = border < (1 << 30) ? "WarpPhase" : "WarpUnfilled";
    EXPECT_EQ(Verdict(LoadAndCompute(load, compute(wrong), 8)), finding) << border;
  }
}

// A version for the last turn, and for every turn whose numbers do not fit. It gives its slot back
// before it reads it, which only harms where another turn follows.
TEST(WarpControl, VersionsForTheLastTurnAndForFarBorders) {
  const std::string load = For("%zero", "%K", 64, "%k", Put("r", "lc", "l", 3, "%k"));
  const std::string good = Take("r", "cc", "e", 3);
  const size_t read = good.find("%xe = "), release = good.find("elect ");
  const std::string wrong =
      good.substr(0, read) + good.substr(release) + good.substr(read, release - read);
  const auto compute = [&](const std::string& other, const std::string& fits) {
    return "%far = constant {value = 2147483647} : i64\n" +
           For("%zero", "%K", 64, "%j",
               Plus("%next", "%j", 64) + Less("%inner", "%next", "%K") +
                   Less("%near", "%next", "%far") + "%both = and %inner, " + fits + " : bool\n" +
                   If("%both", Take("r", "cc", "c", 3), other));
  };
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, compute(good, "%near")), &text), "") << text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, compute(wrong, "%inner")), &text), "") << text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, compute(wrong, "%near"))), "WarpOverwrite");
}

// The length is a multiple of 64: whoever has a branch in front of the loop asks of it without a
// position, whoever has none asks of the first position.
TEST(WarpControl, LengthsThatAreMultiples) {
  const auto bound = [](const std::string& b) {
    return "%pid" + b + " = program_id : i64\n%" + b + " = mul %pid" + b + ", %c64 : i64\n";
  };
  const std::string load =
      bound("bl") + For("%zero", "%bl", 64, "%k", Put("r", "lc", "l", 3, "%k"));
  const std::string rest =
      Take("r", "cc", "a", 3) + For("%c64", "%bc", 64, "%j", Take("r", "cc", "b", 3));
  std::string text;
  EXPECT_EQ(
      Verdict(LoadAndCompute(load, bound("bc") + Less("%any", "%zero", "%bc") + If("%any", rest)),
              &text),
      "")
      << text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, bound("bc") + rest)), "WarpDeadlock");
}

// Which iteration is left out is asked seven iterations late.
TEST(WarpControl, BranchesThatLagBehindTheirPosition) {
  const auto role = [](const std::string& c, int lag, const std::string& body) {
    return fmt::format("%lag{0} = constant {{value = {1}}} : i64\n%at{0} = add %K, %lag{0} : i64\n",
                       c, lag) +
           For("%zero", "%M", 1, "%e" + c,
               fmt::format("%ne{0} = cmp %e{0}, %at{0} {{pred = \"ne\"}} : bool\n", c) +
                   If("%ne" + c, For("%zero", "%K", 64, "%i" + c, body)));
  };
  const auto kernel = [&](int lag) {
    return LoadAndCompute(role("lc", 7, Put("r", "lc", "l", 3, "%ilc")),
                          role("cc", lag, Take("r", "cc", "c", 3)));
  };
  std::string text;
  EXPECT_EQ(Verdict(kernel(7), &text), "") << text;
  EXPECT_NE(Verdict(kernel(8)), "");
}

// A triangle: the inner loop is as long as the outer one has come.
TEST(WarpControl, InnerLengthsThatAreOuterPositions) {
  const auto role = [](const std::string& c, const std::string& from, const std::string& body) {
    return For("%zero", "%M", 64, "%o" + c, For(from, "%o" + c, 64, "%i" + c, body));
  };
  const std::string load = role("lc", "%zero", Put("r", "lc", "l", 3, "%ilc"));
  std::string text;
  EXPECT_EQ(Verdict(LoadAndCompute(load, role("cc", "%zero", Take("r", "cc", "c", 3))), &text), "")
      << text;
  EXPECT_NE(Verdict(LoadAndCompute(load, role("cc", "%c64", Take("r", "cc", "c", 3)))), "");
}

TEST(WarpControl, ConsumersTakeTurns) {
  // Two compute roles, each every second tile through its own ring; the load role walks in pairs.
  const std::string load =
      Counter("l0") + Counter("l1") +
      For("%zero", "%K", 128, "%k",
          Put("a", "l0", "x", 2, "%k") + Plus("%k1", "%k", 64) + Less("%more", "%k1", "%K") +
              If("%more", Put("b", "l1", "y", 2, "%k1")));
  auto kernel = [&](const std::string& second) {
    return Kernel(12,
                  Ring("a", 0, 0, 2) + Ring("b", 32768, 64, 2) +
                      Init(InitRing("a", 1, 4) + InitRing("b", 1, 4)) + Role("load", 8, 1, load) +
                      Role("even", 0, 4,
                           Counter("c0") + For("%zero", "%K", 128, "%i", Take("a", "c0", "u", 2))) +
                      Role("odd", 4, 4, Counter("c1") + second));
  };
  std::string text;
  EXPECT_EQ(Verdict(kernel(For("%c64", "%K", 128, "%o", Take("b", "c1", "v", 2))), &text), "")
      << text;
  EXPECT_NE(Verdict(kernel(For("%zero", "%K", 128, "%o", Take("b", "c1", "v", 2)))), "");
}

TEST(WarpControl, OuterLoopAroundInnerLoops) {
  // The inner length is read from memory for every outer turn; counters run on.
  auto role = [](const std::string& counter, const std::string& body) {
    return Counter(counter) +
           For("%zero", "%M", 1, "%o" + counter,
               "%len" + counter + " = gload_scalar %L, %o" + counter + " : i64\n" +
                   For("%zero", "%len" + counter, 64, "%i" + counter, body));
  };
  auto kernel = [&](const std::string& load, const std::string& compute) {
    return Kernel(8, Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) + Role("load", 4, 1, load) +
                         Role("compute", 0, 4, compute));
  };
  const std::string load = role("lc", Put("r", "lc", "l", 3, "%ilc"));
  const std::string compute = role("cc", Take("r", "cc", "c", 3));
  std::string text;
  EXPECT_EQ(Verdict(kernel(load, compute), &text), "") << text;
  // Both read the length, but of different turns.
  const std::string other = With(compute, "gload_scalar %L, %occ", "gload_scalar %L, %zero");
  EXPECT_NE(Verdict(kernel(load, other)), "");
}

TEST(WarpControl, FixedInnerLengthInPersistentLoop) {
  auto role = [](const std::string& counter, const std::string& body) {
    return Counter(counter) +
           For("%zero", "%M", 132, "%o" + counter, For("%zero", "%K", 64, "%i" + counter, body));
  };
  const std::string program =
      Kernel(8, Ring("r", 0, 0, 3) + Init(InitRing("r", 1, 4)) +
                    Role("load", 4, 1, role("lc", Put("r", "lc", "l", 3, "%ilc"))) +
                    Role("compute", 0, 4, role("cc", Take("r", "cc", "c", 3))));
  std::string text;
  EXPECT_EQ(Verdict(program, &text), "") << text;
}

// A loop around a loop whose slots are given back a turn late, but for the last, which is given
// back at the end: which of the slots of a ring were given back how does not multiply.
TEST(WarpControl, SlotsGivenBackLateInALoopInALoop) {
  static constexpr int kDepth = 7;
  auto back = [](const std::string& tag, const std::string& count) {
    return fmt::format(
        "%b{0} = constant {{value = {2}}} : i32\n%c{0} = add {1}, %b{0} : i32\n"
        "%d{0} = constant {{value = {3}}} : i32\n%o{0} = mod %c{0}, %d{0} : i32\n"
        "elect {{scope = \"warp\"}} do {{\nmbar_arrive %re, %o{0}\nyield\n}}\n",
        tag, count, kDepth - 1, kDepth);
  };
  const std::string turn = Next("r", "cc", "c", kDepth, "f") +
                           "%x = smem_load %r, %sc : bf16[64, 64]#0\nfence_async\n" +
                           Less("%later", "%zero", "%j") + If("%later", back("u", "%nc"));
  const std::string last =
      "%n = counter_read %cc : i32\n" + Less("%any", "%zero", "%K") + If("%any", back("v", "%n"));
  auto kernel = [&](const std::string& compute) {
    return Kernel(
        8, Ring("r", 0, 0, kDepth) + Init(InitRing("r", 1, 4)) +
               Role("load", 4, 1,
                    Counter("lc") +
                        For("%zero", "%M", 1, "%i",
                            For("%zero", "%K", 64, "%k", Put("r", "lc", "l", kDepth, "%k")))) +
               Role("compute", 0, 4, Counter("cc") + For("%zero", "%M", 1, "%h", compute)));
  };
  const std::string compute = For("%zero", "%K", 64, "%j", turn) + last;
  WarpCheckStats stats;
  std::string text;
  EXPECT_EQ(Verdict(kernel(compute), &text, &stats), "") << text;
  EXPECT_LT(stats.states, 250);
  EXPECT_EQ(Verdict(kernel(Without(compute, last))), "WarpDeadlock");
  // Later turns give back the slot they have read: the one at the end then comes twice.
  EXPECT_NE(
      Verdict(kernel(With(compute, "%bu = constant {value = 6}", "%bu = constant {value = 7}"))),
      "");
}

TEST(WarpControl, PersistentKernelWithThreeRingsAndTwoReaders) {
  // One tile per outer turn, two per inner turn, each read by two roles; rings of depths 2, 3, 3.
  auto outer = [](const std::string& tag, const std::string& length, const std::string& first,
                  const std::string& inner) {
    return Counter("a" + tag) + Counter("b" + tag) + Counter("c" + tag) +
           For("%zero", "%M", 132, "%o" + tag,
               fmt::format(fmt::runtime(length), tag) + first +
                   For("%zero", "%len" + tag, 64, "%i" + tag, inner));
  };
  auto kernel = [&](const std::string& length, const std::string& fewer) {
    auto load = [&](const std::string& t) {
      return outer(
          t, length, Put("a", "a" + t, "u" + t, 2, "%o" + t),
          Put("b", "b" + t, "v" + t, 3, "%i" + t) + Put("c", "c" + t, "w" + t, 3, "%i" + t));
    };
    auto compute = [&](const std::string& t, const std::string& how) {
      return outer(t, how, Take("a", "a" + t, "u" + t, 2),
                   Take("b", "b" + t, "v" + t, 3) + Take("c", "c" + t, "w" + t, 3));
    };
    return Kernel(12, Ring("a", 0, 0, 2) + Ring("b", 16384, 64, 3) + Ring("c", 49152, 128, 3) +
                          Init(InitRing("a", 1, 8) + InitRing("b", 1, 8) + InitRing("c", 1, 8)) +
                          Role("load", 8, 1, load("x")) + Role("one", 0, 4, compute("y", length)) +
                          Role("two", 4, 4, compute("z", fewer)));
  };
  const std::string length = "%len{0} = add %K, %zero : i64\n";
  WarpCheckStats stats;
  std::string text;
  EXPECT_EQ(Verdict(kernel(length, length), &text, &stats), "") << text;
  EXPECT_LT(stats.states, 1500);
  EXPECT_NE(Verdict(kernel(length, "%len{0} = add %K, %c64 : i64\n")), "");
}

}  // namespace

}  // namespace tilec::ir
