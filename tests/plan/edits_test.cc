// Plans edited as an engineer would: what keeps the laws is obeyed, and found in the program; what
// breaks one is refused, with the law's code.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <regex>

#include "ir/function.h"
#include "tests/plan/compiled.h"

namespace tilec {
namespace {

// The first match of `what` replaced; fails the test if there is none.
std::string Edited(const std::string& plan, const std::string& what, const std::string& by) {
  const std::regex regex(what);
  EXPECT_TRUE(std::regex_search(plan, regex)) << what << " is not in\n" << plan;
  return std::regex_replace(plan, regex, by, std::regex_constants::format_first_only);
}
// All buffers are placed anew.
std::string Unplaced(const std::string& plan) {
  return std::regex_replace(plan, std::regex(" at=\\d+"), "");
}

class Edits : public testing::Test {
 protected:
  static const CompiledPlan& Gemm() {
    static const CompiledPlan kMade = CompilePlan(PlanCaseOf("gemm"));
    return kMade;
  }
  static CompiledPlan By(const std::string& plan) { return CompilePlan(PlanCaseOf("gemm"), plan); }
  // Refused, and by this law.
  static void Refused(const std::string& plan, const std::string& code) {
    const CompiledPlan made = By(plan);
    EXPECT_FALSE(made.ok);
    EXPECT_NE(made.said.find("[" + code + "]"), std::string::npos) << made.said;
  }
};

TEST_F(Edits, ARingOfThreeSlotsHasThree) {
  const std::string plan = Unplaced(Edited(Gemm().plan, "ring slots=\\d+", "ring slots=3"));
  const CompiledPlan made = By(plan);
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_NE(made.plan.find("ring slots=3"), std::string::npos);
  EXPECT_LT(made.program.launch.smem_bytes, Gemm().program.launch.smem_bytes);
  for (const std::string& line : NotFound(made.plan, made.program)) ADD_FAILURE() << line;
}
TEST_F(Edits, ARingThatDoesNotFitIsRefused) {
  Refused(Unplaced(Edited(Gemm().plan, "ring slots=\\d+", "ring slots=40")), "I282");
}
TEST_F(Edits, AChainNeedsThreeSlots) {
  Refused(Unplaced(Edited(Gemm().plan, "ring slots=\\d+", "ring slots=2")), "I293");
}
TEST_F(Edits, AQuotaIsObeyed) {
  const CompiledPlan made =
      By(Edited(Gemm().plan, "(name=compute[^\\n]*registers=)\\d+", "$01216"));
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_NE(made.plan.find("registers=216"), std::string::npos);
  for (const std::string& line : NotFound(made.plan, made.program)) ADD_FAILURE() << line;
}
TEST_F(Edits, AQuotaThatNoRegisterFileHasIsRefused) {
  Refused(Edited(Gemm().plan, "(name=load[^\\n]*registers=)\\d+", "$01240"), "I281");
  Refused(Edited(Gemm().plan, "(name=compute[^\\n]*registers=)\\d+", "$01233"), "I281");
}
TEST_F(Edits, WarpsThatOverlapAreRefused) {
  Refused(Edited(Gemm().plan, "(name=load[^\\n]*first-warp=)\\d+", "$013"), "I280");
}
TEST_F(Edits, AWrongCountIsRefused) {
  Refused(Edited(Gemm().plan, "(ring [^\\n]*arrivals=)\\d+", "$017"), "I285");
  Refused(Edited(Gemm().plan, "(ring [^\\n]*bytes=)\\d+", "$014096"), "I284");
}
TEST_F(Edits, AWaitThatIsTakenAwayIsRefused) {
  Refused(Edited(Gemm().plan, "\\nawait [^\\n]*", ""), "I290");
}
TEST_F(Edits, AReleaseThatIsTakenAwayIsRefused) {
  Refused(Edited(Gemm().plan, "\\nrelease [^\\n]*", ""), "I291");
}
TEST_F(Edits, BuffersThatMeetAreRefused) {
  Refused(std::regex_replace(Gemm().plan, std::regex(" at=\\d+"), " at=0"), "I287");
  Refused(Edited(Gemm().plan, " at=0", " at=16"), "I288");
}
TEST_F(Edits, WhatTheFunctionGivesStays) {
  Refused(Edited(Gemm().plan, "\\nlayout [^\\n]*", ""), "I296");
  Refused(Edited(Gemm().plan, "\\nproduct [^\\n]*", ""), "I296");
  Refused(Edited(Gemm().plan, "\\nload [^\\n]*", ""), "I296");
  Refused(Edited(Gemm().plan, "compute-roles=|warps=", "warpgroups=1 warps="), "I270");
  Refused(Edited(Gemm().plan, "\\nawait ", "\\nawait role=7 "), "I280");
  Refused(Edited(Gemm().plan, "(\\nawait [^\\n]*rings=)\\d+", "$0199"), "I283");
}
TEST_F(Edits, AProductInFlightMayBeAwaitedInItsIteration) {
  const std::string plan =
      std::regex_replace(Gemm().plan, std::regex("\\n(loop|  chain) [^\\n]*"), "");
  const CompiledPlan made = By(plan);
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_EQ(made.plan.find("chain"), std::string::npos);
}
TEST_F(Edits, APlanOfAnotherProgramIsRefused) {
  Refused(Edited(Gemm().plan, "program [0-9a-f]+", "program 0123456789abcdef"), "I272");
}
TEST_F(Edits, AWordThatIsNoneIsRefusedWhereItStands) {
  const CompiledPlan made = By(Edited(Gemm().plan, "ring slots", "ring slot"));
  EXPECT_FALSE(made.ok);
  EXPECT_NE(made.said.find("did you mean `slots`?"), std::string::npos) << made.said;
  EXPECT_NE(made.said.find("edited.plan:"), std::string::npos) << made.said;
  Refused(Edited(Gemm().plan, "ring slots=\\d+", "ring slots=three"), "I271");
  Refused(Edited(Gemm().plan, "product op=dot0", "product op=dot99"), "I271");
}

}  // namespace
}  // namespace tilec
