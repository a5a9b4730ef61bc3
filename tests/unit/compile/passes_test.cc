// Passes by the text that names them.
//
// SPDX-License-Identifier: Apache-2.0
#include "compile/passes.h"

#include "ir/text.h"
#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

class PassesTest : public LibraryTest {
 protected:
  PassesTest() { target_ = *ir::LoadBuiltinTarget("h200", diags_); }
  ir::Function Clean(const std::string& file, const std::string& kernel) {
    Load(file, kernel);
    auto fn = api::MakeTileIr(loaded_, kernel, Of({}), nullptr, diags_);
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    return *api::RunSteps(loaded_, std::move(*fn), steps, {}, nullptr, diags_);
  }
  ir::Function Gemm() { return Clean("std/matmul.tile", "gemm"); }
  std::string After(const std::string& pass) {
    auto step = compile::ParsePass(pass, target_, nullptr, diags_);
    if (!step.ok()) return "refused: " + diags_.all().back().message;
    const ir::PassStep steps[] = {*step};
    ir::Function fn = Gemm();
    EXPECT_TRUE(ir::RunSteps(fn, steps, target_, {}, diags_).ok())
        << RenderAll(diags_, loaded_.sources);
    return ir::Print(fn);
  }

  DiagSink diags_;
  ir::Target target_;
};

TEST_F(PassesTest, TakeParameters) {
  const std::string before = ir::Print(Gemm());
  const std::string few = After("persist-tiles{ctas=40}"), all = After("persist-tiles");
  EXPECT_NE(few, before);
  EXPECT_NE(few.find("40"), std::string::npos);
  EXPECT_NE(few, all);
  EXPECT_EQ(all, After("persist-tiles{ctas=132}"));  // of an h200
  EXPECT_NE(After("schedule-loops{slices=2,withheld=16}"), After("schedule-loops{slices=1}"));
  EXPECT_EQ(diags_.errors(), 0) << RenderAll(diags_, loaded_.sources);
}

TEST_F(PassesTest, SayWhatTheyDoNotTake) {
  EXPECT_NE(After("persist-tiles{sms=40}").find("does not take `sms=40`"), std::string::npos);
  EXPECT_NE(After("persist-tiles{ctas=-1}").find("does not take"), std::string::npos);
  EXPECT_NE(After("persist-tiles{ctas=1").find("does not take"), std::string::npos);
  EXPECT_NE(After("dce{deep=1}").find("does not take `deep=1`"), std::string::npos);
  EXPECT_NE(After("order-tile").find("there is no pass `order-tile`"), std::string::npos);
}

TEST_F(PassesTest, SayWhatKeepsThem) {
  ir::Function fn = Clean("std/elementwise.tile", "add");  // no sum to share
  const std::string before = ir::Print(fn);
  auto step = compile::ParsePass("split-reductions{ctas=4}", target_, nullptr, diags_);
  ASSERT_TRUE(step.ok());
  const ir::PassStep steps[] = {*step};
  EXPECT_TRUE(ir::RunSteps(fn, steps, target_, {}, diags_).ok());
  EXPECT_EQ(ir::Print(fn), before);
  ASSERT_FALSE(diags_.all().empty());
  EXPECT_EQ(std::string(diags_.all().back().def->code), "R620");
}

}  // namespace
}  // namespace tilec
