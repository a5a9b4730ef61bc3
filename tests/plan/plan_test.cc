// Goldens of program plans, by kind of kernel; each line found in the warp program; print, parse
// and compile again gives the same plan and the same program. TILEC_ACCEPT=1 rewrites the goldens.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "ir/text.h"
#include "tests/plan/compiled.h"
#include "tests/test_calls.h"

namespace tilec {

const std::vector<PlanCase>& PlanCases() {
  static const std::vector<PlanCase> kCases = {
      {"gemm", "stdlib/matmul.tile", "gemm", 0, "solve"},
      {"gemm_b200", "stdlib/matmul.tile", "gemm", 0, "solve", "b200"},
      {"gemm_pair", "stdlib/matmul.tile", "gemm", 0, "solve:clusters", "b200"},
      {"gemm_once", "stdlib/matmul.tile", "gemm", 0, "solve:once"},
      {"attention", "stdlib/attention.tile", "attention", 0, "solve"},
      {"attention_backward", "tests/exec/attention_backward.tile", "attn_bwd", 1, "solve"},
      {"attention_dqkv", "stdlib/models/attention_backward.tile", "attention_dqkv", 2, "solve"},
      {"attention_b200", "tests/blackwell/attention.tile", "attention", 1, "solve", "b200"},
      {"gathered", "tests/exec/embedding.tile", "embed_rmsnorm", 0, "solve"},
      {"linear_attention", "tests/exec/linear_attention.tile", "linear_attention", 0, "solve"},
      {"softmax", "stdlib/softmax.tile", "softmax", 0, "solve"},
      {"nest", "tests/exec/windows.tile", "window", 1, "solve"},
      {"passes", "tests/exec/passes.tile", "", 0, "tests/exec/passes.sched"},
      {"split", "tests/exec/shared_sums.tile", "", 0, "solve:split=2"},
  };
  return kCases;
}

const PlanCase& PlanCaseOf(std::string_view name) {
  for (const PlanCase& c : PlanCases())
    if (c.name == name) return c;
  std::abort();
}

CompiledPlan CompilePlan(const PlanCase& of, const std::string& plan) {
  CompiledPlan out;
  const std::string root = std::string(TILEC_SOURCE_DIR) + "/";
  api::Loaded loaded;
  DiagSink diags;
  const auto said = [&] { out.said = RenderAll(diags, loaded.sources); };
  auto program = api::LoadProgram(loaded.sources, root + of.file, api::StandardLibrary(), diags);
  if (!program.ok()) return said(), out;
  loaded.program = std::move(*program);
  const std::string schedule =
      api::NamesScheduleFile(of.schedule) ? root + of.schedule : of.schedule;
  if (!api::LoadScheduleFile(loaded, schedule, diags).ok()) return said(), out;
  if (!plan.empty()) loaded.plan_file = loaded.sources.Add("edited.plan", plan);
  std::vector<frontend::TestCallInfo> calls;
  for (const frontend::TestInfo& test : loaded.program->tests())
    for (const frontend::TestCallInfo& call : test.calls)
      if (of.kernel.empty() || call.kernel == of.kernel) calls.push_back(call);
  if (of.call >= calls.size()) return out.said = "no such call", out;
  const frontend::TestCallInfo& call = calls[of.call];
  const Result<api::Call> bound = BindDense(*loaded.program, call, diags);
  if (!bound.ok()) return said(), out;
  api::PipelineOptions options;
  options.schedule = schedule;
  options.target = of.target;
  Solved solved;
  options.solutions = solved.store();
  api::Observation look;
  look.plan = &out.plan;
  auto tile = api::MakeTileIr(loaded, call.kernel, *bound, &look, diags);
  if (!tile.ok()) return said(), out;
  auto warps = api::LowerToWarps(loaded, std::move(*tile), options.For(*bound), &look, diags);
  said();
  if (!warps.ok()) return out;
  out.program = std::move(*warps);
  out.ok = true;
  return out;
}

namespace {

// Compiled once for all tests of a kernel.
const CompiledPlan& Made(const PlanCase& of) {
  static std::map<std::string, CompiledPlan> kept;
  const auto [it, fresh] = kept.try_emplace(of.name);
  if (fresh) it->second = CompilePlan(of);
  return it->second;
}

class Plans : public testing::TestWithParam<PlanCase> {};

TEST_P(Plans, EveryLineIsFoundInTheProgram) {
  const CompiledPlan& made = Made(GetParam());
  ASSERT_TRUE(made.ok) << made.said;
  EXPECT_NE(made.plan.find("\nrole "), std::string::npos);
  for (const std::string& line : NotFound(made.plan, made.program)) ADD_FAILURE() << line;
}

TEST_P(Plans, CompilingByThePrintedPlanGivesTheSameProgram) {
  const CompiledPlan& made = Made(GetParam());
  ASSERT_TRUE(made.ok) << made.said;
  const CompiledPlan again = CompilePlan(GetParam(), made.plan);
  ASSERT_TRUE(again.ok) << again.said;
  EXPECT_EQ(made.plan, again.plan);
  EXPECT_EQ(ir::Print(made.program), ir::Print(again.program));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Plans, testing::ValuesIn(PlanCases()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace tilec
