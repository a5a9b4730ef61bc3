// Plans edited as an engineer would: what keeps the laws is obeyed, and found in the program; what
// breaks one is refused, with the law's code.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>

#include "ir/function.h"
#include "tests/plan/compiled.h"

namespace tilec {
namespace {

// The first line that begins so, and the end of it; fails the test if there is none.
size_t LineOf(const std::string& plan, const std::string& begin, size_t* end) {
  const size_t at = plan.find("\n" + begin);
  EXPECT_NE(at, std::string::npos) << begin << " is not in\n" << plan;
  if (at == std::string::npos) return *end = 0;
  *end = plan.find('\n', at + 1);
  return at + 1;
}
// The line with another value of a field, which it has.
std::string With(std::string plan, const std::string& line, const std::string& field,
                 const std::string& value) {
  size_t end = 0;
  const size_t begin = LineOf(plan, line, &end);
  const size_t at = plan.find(" " + field + "=", begin);
  EXPECT_LT(at, end) << line << " has no " << field;
  if (at >= end) return plan;
  const size_t from = at + field.size() + 2;
  return plan.replace(from, plan.find_first_of(" \n", from) - from, value);
}
std::string WithWord(std::string plan, const std::string& line, const std::string& word) {
  size_t end = 0;
  const size_t begin = LineOf(plan, line, &end);
  return plan.insert(plan.find_first_of(" \n", begin), " " + word);
}
std::string Without(std::string plan, const std::string& line) {
  size_t end = 0;
  const size_t begin = LineOf(plan, line, &end);
  return plan.erase(begin, end + 1 - begin);
}
// All buffers lie at `place`; "": they are placed anew.
std::string Placed(std::string plan, std::string_view place) {
  for (size_t at = plan.find(" at="); at != std::string::npos; at = plan.find(" at=", at + 1))
    plan.replace(at, plan.find_first_of(" \n", at + 1) - at, place);
  return plan;
}

class Edits : public testing::Test {
 protected:
  static const CompiledPlan& Gemm() {
    static const CompiledPlan kMade = CompilePlan(PlanCaseOf("gemm"));
    return kMade;
  }
  static const std::string& Plan() { return Gemm().plan; }
  static CompiledPlan By(const std::string& plan) { return CompilePlan(PlanCaseOf("gemm"), plan); }
  // Refused, and by this law.
  static void Refused(const std::string& plan, const std::string& code) {
    const CompiledPlan made = By(plan);
    EXPECT_FALSE(made.ok);
    EXPECT_NE(made.said.find("[" + code + "]"), std::string::npos) << made.said;
  }
  static void Obeyed(const CompiledPlan& made, const std::string& words) {
    ASSERT_TRUE(made.ok) << made.said;
    EXPECT_NE(made.plan.find(words), std::string::npos) << made.plan;
    for (const std::string& line : NotFound(made.plan, made.program)) ADD_FAILURE() << line;
  }
};

TEST_F(Edits, ARingOfThreeSlotsHasThree) {
  const CompiledPlan made = By(Placed(With(Plan(), "ring ", "slots", "3"), ""));
  Obeyed(made, "ring slots=3");
  EXPECT_LT(made.program.launch.smem_bytes, Gemm().program.launch.smem_bytes);
}
TEST_F(Edits, ARingThatDoesNotFitIsRefused) {
  Refused(Placed(With(Plan(), "ring ", "slots", "40"), ""), "I282");
}
TEST_F(Edits, ARingWithoutSlotsIsRefused) {  // the compiler divided by them
  for (const char* slots : {"0", "-1"}) Refused(With(Plan(), "ring ", "slots", slots), "I271");
}
TEST_F(Edits, AChainNeedsThreeSlots) {
  Refused(Placed(With(Plan(), "ring ", "slots", "2"), ""), "I293");
}
TEST_F(Edits, AQuotaIsObeyed) {
  Obeyed(By(With(Plan(), "role name=compute", "registers", "216")), "registers=216");
}
TEST_F(Edits, AQuotaThatNoRegisterFileHasIsRefused) {
  Refused(With(Plan(), "role name=load", "registers", "240"), "I281");
  Refused(With(Plan(), "role name=compute", "registers", "233"), "I281");
}
TEST_F(Edits, TurnsOfARoleThatComputesNothingAreRefused) {
  Refused(WithWord(Plan(), "role name=load", "turns=yes"), "I280");
}
TEST_F(Edits, TurnsThatAreTakenAwayAreNotTaken) {
  const auto turns = [](const ir::Function& fn) {
    int64_t n = 0;
    for (ir::OpId id : ir::OpsInOrder(fn)) n += fn.ops[id].kind == ir::OpKind::kTurn;
    return n;
  };
  PlanCase of = PlanCaseOf("attention");
  of.call = 3;  // D = 128: two warpgroups
  const CompiledPlan made = CompilePlan(of);
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_GT(turns(made.program), 0);
  const CompiledPlan without = CompilePlan(of, With(made.plan, "role name=compute", "turns", "no"));
  Obeyed(without, "role name=compute");
  EXPECT_EQ(without.plan.find("turns"), std::string::npos);
  EXPECT_EQ(turns(without.program), 0);
}
// A ring around loops has the slots of its solved nest, or those that it is given.
TEST_F(Edits, ARingAroundLoopsHasTheSlotsItIsGiven) {
  const PlanCase of = PlanCaseOf("nest");
  const CompiledPlan made = CompilePlan(of);
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_NE(made.plan.find("\nnest loop="), std::string::npos) << made.plan;
  EXPECT_NE(made.plan.find("\nring slots=2 "), std::string::npos) << made.plan;
  const CompiledPlan one =
      CompilePlan(of, Placed(With(made.plan, "ring slots=2", "slots", "1"), ""));
  Obeyed(one, "\nring bytes=");
  EXPECT_LT(one.program.launch.smem_bytes, made.program.launch.smem_bytes);
  const CompiledPlan two = CompilePlan(of, Placed(WithWord(one.plan, "ring bytes", "slots=2"), ""));
  Obeyed(two, "\nring slots=2 ");
  EXPECT_EQ(two.program.launch.smem_bytes, made.program.launch.smem_bytes);
}
// When threads meet and copies are awaited follows from the function.
TEST_F(Edits, MeetingsAndDrainsStay) {
  const PlanCase of = PlanCaseOf("attention_dqkv");
  const CompiledPlan made = CompilePlan(of);
  ASSERT_TRUE(made.ok) << made.said;
  for (const auto& [line, field, value] :
       {std::tuple("operands ", "met", "no"), std::tuple("store op=atomic", "drains", "no"),
        std::tuple("store op=atomic", "freed-at", "dot1")}) {
    const CompiledPlan edited = CompilePlan(of, With(made.plan, line, field, value));
    EXPECT_FALSE(edited.ok) << field;
    EXPECT_NE(edited.said.find("[I296]"), std::string::npos) << edited.said;
  }
}
TEST_F(Edits, WarpsThatOverlapAreRefused) {
  Refused(With(Plan(), "role name=load", "first-warp", "3"), "I280");
}
TEST_F(Edits, AWrongCountIsRefused) {
  Refused(With(Plan(), "ring ", "arrivals", "7"), "I285");
  Refused(With(Plan(), "ring ", "bytes", "4096"), "I284");
}
// Four CTAs along the columns copy for each other: how many they are and what they share follows
// from the function, and each of them frees a slot by an arrival of each of its warpgroups.
TEST_F(Edits, NeighboursAreThoseOfTheFunction) {
  PlanCase of = PlanCaseOf("gemm");
  of.schedule = "solve:clusters=4:along=2";
  const CompiledPlan made = CompilePlan(of);
  ASSERT_TRUE(made.ok) << made.said;
  ASSERT_NE(made.plan.find("cluster=4"), std::string::npos) << made.plan;
  const auto refused = [&](const std::string& plan, const std::string& code) {
    const CompiledPlan edited = CompilePlan(of, plan);
    EXPECT_FALSE(edited.ok);
    EXPECT_NE(edited.said.find("[" + code + "]"), std::string::npos) << edited.said;
  };
  for (const char* ctas : {"1", "2", "8"})
    refused(With(made.plan, "cta ", "cluster", ctas), "I296");
  refused(With(made.plan, "ring ", "multicast", "no"), "I296");
  size_t end = 0;
  const size_t begin = LineOf(made.plan, "ring ", &end);
  const size_t at = made.plan.find(" arrivals=", begin) + 10;
  const int arrivals = std::stoi(made.plan.substr(at));
  EXPECT_EQ(arrivals % 4, 0);
  refused(With(made.plan, "ring ", "arrivals", std::to_string(arrivals / 4)), "I285");
  refused(With(made.plan, "ring ", "arrivals", std::to_string(arrivals - 1)), "I285");
}
TEST_F(Edits, AWaitThatIsTakenAwayIsRefused) { Refused(Without(Plan(), "await "), "I290"); }
TEST_F(Edits, AReleaseThatIsTakenAwayIsRefused) { Refused(Without(Plan(), "release "), "I291"); }
TEST_F(Edits, BuffersThatMeetAreRefused) {
  Refused(Placed(Plan(), " at=0"), "I287");
  Refused(With(Plan(), "buffer ", "at", "16"), "I288");
}
TEST_F(Edits, WhatTheFunctionGivesStays) {
  Refused(Without(Plan(), "layout "), "I296");
  Refused(Without(Plan(), "product "), "I296");
  Refused(Without(Plan(), "load "), "I296");
  Refused(WithWord(Plan(), "cta ", "warps=12"), "I270");
  Refused(WithWord(Plan(), "await ", "role=7"), "I280");
  Refused(With(Plan(), "await ", "rings", "99"), "I283");
}
// Which of two lines is meant nobody knows; the last one was.
TEST_F(Edits, ASecondLineOfTheSameIsRefused) {
  for (const char* line : {"cta ", "load ", "store ", "layout ", "product ", "operand ", "loop ",
                           "await ", "release ", "operands "}) {
    size_t end = 0;
    const std::string& plan = Plan();
    if (plan.find(std::string("\n") + line) == std::string::npos) continue;
    const size_t begin = LineOf(plan, line, &end);
    std::string twice = plan;
    const CompiledPlan made = By(twice.insert(end + 1, plan.substr(begin, end + 1 - begin)));
    EXPECT_FALSE(made.ok) << line;
  }
  size_t end = 0;
  const size_t begin = LineOf(Plan(), "await ", &end);
  std::string twice = Plan();
  Refused(twice.insert(end + 1, Plan().substr(begin, end + 1 - begin)), "I270");
}
TEST_F(Edits, AProductInFlightMayBeAwaitedInItsIteration) {
  const CompiledPlan made = By(Without(Plan(), "  chain "));
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_EQ(made.plan.find("chain"), std::string::npos);
}
TEST_F(Edits, APlanOfAnotherProgramIsRefused) {
  std::string plan = Plan();
  const size_t at = plan.find("\nprogram ") + 9;
  Refused(plan.replace(at, 16, "0123456789abcdef"), "I272");
}
TEST_F(Edits, AWordThatIsNoneIsRefusedWhereItStands) {
  const CompiledPlan made = By(WithWord(Plan(), "ring ", "slot=3"));
  EXPECT_FALSE(made.ok);
  EXPECT_NE(made.said.find("did you mean `slots`?"), std::string::npos) << made.said;
  EXPECT_NE(made.said.find("edited.plan:"), std::string::npos) << made.said;
  Refused(With(Plan(), "ring ", "slots", "three"), "I271");
  Refused(With(Plan(), "product ", "op", "dot99"), "I271");
}

// Accumulators: slots of tensor memory between the role that issues products and the one that
// stores.
class Accumulators : public testing::Test {
 protected:
  static const CompiledPlan& Gemm() {
    static const CompiledPlan kMade = CompilePlan(PlanCaseOf("gemm_b200"));
    return kMade;
  }
  static const std::string& Plan() { return Gemm().plan; }
  static CompiledPlan By(const std::string& plan) {
    return CompilePlan(PlanCaseOf("gemm_b200"), plan);
  }
  static void Refused(const std::string& plan, const std::string& code, const std::string& words) {
    const CompiledPlan made = By(plan);
    EXPECT_FALSE(made.ok);
    EXPECT_NE(made.said.find("[" + code + "]"), std::string::npos) << made.said;
    EXPECT_NE(made.said.find(words), std::string::npos) << made.said;
  }
  static int64_t Columns(const ir::Function& fn) {
    for (ir::OpId id : ir::OpsInOrder(fn))
      if (fn.ops[id].kind == ir::OpKind::kTmemAlloc) return fn.ops[id].i("columns");
    return 0;
  }
};

TEST_F(Accumulators, OfOneSlotTakeHalfTheColumns) {
  ASSERT_TRUE(Gemm().ok) << Gemm().said;
  const CompiledPlan made = By(With(Plan(), "accumulator ", "slots", "1"));
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_NE(made.plan.find("\naccumulator product=dot0 arrivals="), std::string::npos) << made.plan;
  for (const std::string& line : NotFound(made.plan, made.program)) ADD_FAILURE() << line;
  EXPECT_EQ(2 * Columns(made.program), Columns(Gemm().program));
}
TEST_F(Accumulators, OfMoreSlotsThanFitAreRefused) {
  Refused(With(Plan(), "accumulator ", "slots", "3"), "I297", "768 columns; a CTA has 512");
}
TEST_F(Accumulators, WithoutSlotsAreRefused) {
  Refused(With(Plan(), "accumulator ", "slots", "0"), "I297", "has 0 slots");
}
TEST_F(Accumulators, ThatOtherWarpsEmptyAreRefused) {
  Refused(With(Plan(), "accumulator ", "arrivals", "7"), "I285", "accumulator of dot0");
}
TEST_F(Accumulators, OfNoProductAreRefused) {
  Refused(With(Plan(), "accumulator ", "product", "dot9"), "I271", "dot9");
}
TEST_F(Accumulators, TakenAwayOrTwiceAreRefused) {
  Refused(Without(Plan(), "accumulator "), "I296", "gives `accumulator product=dot0`");
  size_t end = 0;
  const size_t begin = LineOf(Plan(), "accumulator ", &end);
  std::string twice = Plan();
  twice.insert(end + 1, Plan().substr(begin, end + 1 - begin));
  Refused(twice, "I297", "dot0 has two");
}

// Products that two CTAs make together.
class Pairs : public testing::Test {
 protected:
  static const CompiledPlan& Gemm() {
    static const CompiledPlan kMade = CompilePlan(PlanCaseOf("gemm_pair"));
    return kMade;
  }
  static const std::string& Plan() { return Gemm().plan; }
  static void Refused(const std::string& plan, const std::string& code, const std::string& words) {
    const CompiledPlan made = CompilePlan(PlanCaseOf("gemm_pair"), plan);
    EXPECT_FALSE(made.ok);
    EXPECT_NE(made.said.find("[" + code + "]"), std::string::npos) << made.said;
    EXPECT_NE(made.said.find(words), std::string::npos) << made.said;
  }
};

TEST_F(Pairs, AreObeyedWithShallowerRings) {
  ASSERT_TRUE(Gemm().ok) << Gemm().said;
  EXPECT_NE(Plan().find(" pair=yes"), std::string::npos) << Plan();
  std::string plan = With(Plan(), "ring ", "slots", "3");
  for (size_t at = plan.find(" at="); at != std::string::npos; at = plan.find(" at=", at))
    plan.erase(at, plan.find_first_of(" \n", at + 1) - at);
  const CompiledPlan made = CompilePlan(PlanCaseOf("gemm_pair"), plan);
  ASSERT_TRUE(made.ok) << made.said;
  for (const std::string& line : NotFound(made.plan, made.program)) ADD_FAILURE() << line;
}
TEST_F(Pairs, ThatAreNoneAreRefused) {
  Refused(With(Plan(), "cta ", "pair", "no"), "I296", "pair=yes");
}
TEST_F(Pairs, InClustersOfFourAreRefused) {
  Refused(With(Plan(), "cta ", "cluster", "4"), "I296", "cluster=2");
}
TEST_F(Pairs, OfOtherHalvesAreRefused) {
  Refused(With(Plan(), "load op=load1 ", "half", "1"), "I296", "half=0");
}
TEST_F(Pairs, WithTheBytesOfBothAreRefused) {
  Refused(With(Plan(), "ring ", "bytes", "65536"), "I284", "expects 65536 B");
}

// K and V share slots; in front of the loop and behind it a filling is a part of one.
TEST(Joined, SlotsAreFilledInParts) {
  const PlanCase& of = PlanCaseOf("attention_b200");
  const CompiledPlan made = CompilePlan(of);
  ASSERT_TRUE(made.ok) << made.said;
  const std::string ring = "ring slots=2";
  EXPECT_NE(made.plan.find("joined-rings=yes"), std::string::npos) << made.plan;
  const auto refused = [&](const std::string& plan, const char* law, const char* why) {
    const CompiledPlan by = CompilePlan(of, plan);
    EXPECT_FALSE(by.ok);
    EXPECT_NE(by.said.find(law), std::string::npos) << by.said;
    EXPECT_NE(by.said.find(why), std::string::npos) << by.said;
  };
  refused(With(made.plan, ring, "bytes", "20480"), "I284", "expects 20480 B");
  refused(With(made.plan, "  site ring=2 loads=load2 ", "bytes", "40960"), "I296", "bytes=40960");
  refused(With(made.plan, "cta ", "joined-rings", "no"), "I296", "bytes=20480");
}

}  // namespace
}  // namespace tilec
