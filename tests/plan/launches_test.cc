// Plans of kernels that are two launches: one file of two sections, each obeyed by its own launch,
// edited or refused at its own line.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "api/divided.h"
#include "api/stdlib.h"
#include "ir/text.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

struct Compiled {
  bool ok = false;
  std::string plan, said;
  std::vector<std::string> programs;  // warp IR
};

// The first call of the kernel in the file's `test` blocks, by this plan ("": by the planners').
Compiled Compile(const char* path, const char* kernel, const char* schedule,
                 const std::string& plan = "") {
  Compiled out;
  api::Loaded loaded;
  DiagSink diags;
  Solved solved;
  const auto run = [&]() -> Result<> {
    TRY(frontend::Program program,
        api::LoadProgram(loaded.sources, std::string(TILEC_SOURCE_DIR) + "/" + path,
                         api::StandardLibrary(), diags));
    loaded.program = std::move(program);
    if (!plan.empty()) loaded.plan_file = loaded.sources.Add("edited.plan", plan);
    api::PipelineOptions options;
    options.schedule = schedule;
    options.solutions = solved.store();
    for (const frontend::TestInfo& test : loaded.program->tests())
      for (const frontend::TestCallInfo& call : test.calls) {
        if (call.kernel != kernel || !out.programs.empty()) continue;
        TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
        TRY(ir::Function fn, api::MakeTileIr(loaded, kernel, bound, nullptr, diags));
        TRY(api::Launches launches,
            api::LaunchesOf(loaded, std::move(fn), options.For(bound), diags));
        std::vector<std::string> plans;
        for (api::LaunchProgram& program : launches.programs) {
          api::Observation look;
          look.plan = &plans.emplace_back();
          TRY(const ir::Function made,
              api::LowerToWarps(loaded, std::move(program.fn), program.options, &look, diags));
          out.programs.push_back(ir::Print(made));
        }
        out.plan = api::BehindTitles(launches, plans, "#");
      }
    return Done();
  };
  out.ok = run().ok();
  out.said = RenderAll(diags, loaded.sources);
  return out;
}

constexpr char kUnlikely[] = "tests/exec/unlikely.tile";
constexpr char kMatmul[] = "stdlib/matmul.tile";

const Compiled& Halved() {
  static const Compiled kMade = Compile(kUnlikely, "halved", "solve");
  return kMade;
}
Compiled HalvedBy(const std::string& plan) { return Compile(kUnlikely, "halved", "solve", plan); }

size_t Second(const std::string& plan) { return plan.find("\nplan ", plan.find("plan ") + 1) + 1; }

void Refused(const Compiled& made, const std::string& code) {
  EXPECT_FALSE(made.ok);
  EXPECT_NE(made.said.find("[" + code + "]"), std::string::npos) << made.said;
}

TEST(PlansOfLaunches, AreReadBack) {
  ASSERT_TRUE(Halved().ok) << Halved().said;
  ASSERT_EQ(Halved().programs.size(), 2u);
  const Compiled again = HalvedBy(Halved().plan);
  ASSERT_TRUE(again.ok) << again.said;
  EXPECT_EQ(again.plan, Halved().plan);
  EXPECT_EQ(again.programs, Halved().programs);
}

TEST(PlansOfLaunches, PartsAndTheirSumAreReadBack) {
  const Compiled made = Compile(kMatmul, "gemm", "solve:split=4:apart");
  ASSERT_TRUE(made.ok) << made.said;
  ASSERT_EQ(made.programs.size(), 2u);
  const Compiled again = Compile(kMatmul, "gemm", "solve:split=4:apart", made.plan);
  ASSERT_TRUE(again.ok) << again.said;
  EXPECT_EQ(again.plan, made.plan);
  EXPECT_EQ(again.programs, made.programs);
  Refused(Compile(kMatmul, "gemm", "solve:split=4:apart", made.plan.substr(Second(made.plan))),
          "I273");
  Refused(Compile(kMatmul, "gemm", "solve", made.plan), "I273");
}

// … is of its own launch, and the other is what it was.
TEST(PlansOfLaunches, AnEditIsOfItsLaunch) {
  ASSERT_TRUE(Halved().ok);
  for (const bool second : {false, true}) {
    std::string plan = Halved().plan;
    const size_t role = plan.find("role name=compute", second ? Second(plan) : 0);
    const size_t at = plan.find(" registers=", role);
    ASSERT_NE(at, std::string::npos) << plan;
    plan.replace(at + 11, 3, "216");
    const Compiled made = HalvedBy(plan);
    ASSERT_TRUE(made.ok) << made.said;
    EXPECT_EQ(made.plan, plan);
    EXPECT_EQ(made.programs[second ? 0 : 1], Halved().programs[second ? 0 : 1]);
    EXPECT_NE(made.programs[second ? 1 : 0], Halved().programs[second ? 1 : 0]);
  }
}

TEST(PlansOfLaunches, WhatIsWrongIsSaidWhereItStands) {
  ASSERT_TRUE(Halved().ok);
  std::string plan = Halved().plan;
  const size_t at = plan.find("\nring ", Second(plan));
  plan.insert(at + 5, " slot=3");
  const auto line = 2 + std::count(plan.begin(), plan.begin() + static_cast<ptrdiff_t>(at), '\n');
  const Compiled made = HalvedBy(plan);
  Refused(made, "I270");
  EXPECT_NE(made.said.find("edited.plan:" + std::to_string(line) + ":"), std::string::npos)
      << line << "\n"
      << made.said;
}

TEST(PlansOfLaunches, OfOtherLaunchesAreRefused) {
  ASSERT_TRUE(Halved().ok);
  const std::string& plan = Halved().plan;
  const size_t second = Second(plan);
  Refused(HalvedBy(plan.substr(second) + plan.substr(0, second)), "I272");
  Refused(HalvedBy(plan.substr(second)), "I272");  // of one program, without the branch apart
  Refused(HalvedBy(plan + plan.substr(second)), "I273");
  std::string twice = plan;
  Refused(HalvedBy(twice.insert(twice.find("\ncta "), "\nprogram 0123456789abcdef")), "I270");
}

}  // namespace
}  // namespace tilec
