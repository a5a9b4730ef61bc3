// Programs in text or of the library, loaded for a compilation, what a call with aligned tensors
// says of them, and what the scheduler and the lowering make of them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "ir/target.h"
#include "scheduler/program.h"
#include "support/diag.h"

namespace tilec {

inline void LoadText(api::Loaded& loaded, const std::string& text) {
  DiagSink diags;
  auto program = frontend::Program::LoadText(loaded.sources, "t.tile", text, nullptr, diags);
  ASSERT_TRUE(program.ok()) << RenderAll(diags, loaded.sources);
  loaded.program.emplace(std::move(*program));
}

// Tensors A, B and C, dense and aligned.
inline api::Call AlignedCall() {
  api::Call call;
  for (const char* name : {"A", "B", "C"})
    call.facts[name] = {.base_align_bytes = 256,
                        .stride_align_bytes = 512,
                        .last_dim_align = 128,
                        .last_contiguous = true};
  return call;
}

// A kernel of the library, and calls of it.
class LibraryTest : public ::testing::Test {
 protected:
  void Load(const std::string& path, const std::string& kernel) {
    DiagSink diags;
    auto program = api::LoadProgram(loaded_.sources, path, library_, diags);
    ASSERT_TRUE(program.ok()) << RenderAll(diags, loaded_.sources);
    loaded_.program.emplace(std::move(*program));
    auto signature = frontend::SignatureOf(*loaded_.program, kernel, diags);
    ASSERT_TRUE(signature.ok());
    signature_ = *signature;
  }
  // A call with these values and dense, well aligned tensors.
  api::Call Of(const api::Given& given) {
    DiagSink diags;
    api::Call call;
    auto values = api::CheckValues(signature_, given, diags);
    EXPECT_TRUE(values.ok()) << RenderAll(diags, loaded_.sources);
    call.all = *values;
    for (const auto& [name, value] : call.all)
      if (signature_.TakesValue(name, value)) call.statics[name] = value;
    for (const frontend::ParamInfo& p : signature_.params)
      if (p.role == frontend::ParamRole::kTensor)
        call.facts[p.name] = {.base_align_bytes = 16,
                              .stride_align_bytes = 16,
                              .last_dim_align = 8,
                              .last_contiguous = true};
    return call;
  }
  // The same, and where rows begin.
  api::Call WithRows(const api::Given& given) {
    api::Call call = Of(given);
    call.row_starts = api::RowStartsOf(signature_, call.all);
    return call;
  }
  api::Call ProductCall(int64_t m, int64_t n, int64_t k, int64_t bm, int64_t bn, int64_t bk) {
    return WithRows({{"M", m}, {"N", n}, {"K", k}, {"BM", bm}, {"BN", bn}, {"BK", bk}});
  }
  static api::PipelineOptions ByModel() {
    api::PipelineOptions options;
    options.tune = "model";
    return options;
  }

  api::StandardLibrary library_{""};
  api::Loaded loaded_;
  frontend::Signature signature_;
};

// A kernel in text: scheduled, and lowered. Notes are kept.
class LoweringTest : public ::testing::Test {
 protected:
  explicit LoweringTest(std::string kernel) : kernel_(std::move(kernel)) {}

  // By the schedule of the file that `loaded_` names, if it names one.
  ir::Function Lowered(api::Lowered* lowered) {
    api::Observation look;
    look.lowered = lowered;
    auto fn = api::MakeTileIr(loaded_, kernel_, call_, nullptr, diags_);
    EXPECT_TRUE(fn.ok());
    api::PipelineOptions options;
    if (!target_.empty()) options.target = target_;
    if (loaded_.schedule_file >= 0) options.schedule = kernel_ + ".sched";
    auto warps = api::LowerToWarps(loaded_, std::move(*fn), options, &look, diags_);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags_, loaded_.sources);
    return warps.ok() ? std::move(*warps) : ir::Function{};
  }
  // As `tilec schedule` would write it, and the program that it is for.
  scheduler::ProgramSchedule Solved(bool divide, ir::Function* made) {
    auto fn = api::MakeTileIr(loaded_, kernel_, call_, nullptr, diags_);
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    fn = api::RunSteps(loaded_, std::move(*fn), steps, {}, nullptr, diags_);
    auto target = ir::LoadBuiltinTarget("h200", diags_);
    scheduler::ProgramOptions options;
    options.target = &*target;
    options.solve = scheduler::SolveOptions::ForCompilation();
    options.divide_slices = divide;
    scheduler::ProgramSchedule schedule = scheduler::ScheduleProgram(*fn, options);
    *made = std::move(*fn);
    return schedule;
  }
  // How often.
  int Said(const std::string& code) const {
    return static_cast<int>(
        std::count_if(diags_.all().begin(), diags_.all().end(),
                      [&](const Diagnostic& d) { return d.def->code == code; }));
  }

  const std::string kernel_;
  std::string target_;  // a machine or its file; "": the default
  api::Loaded loaded_;
  api::Call call_;
  DiagSink diags_;
};

}  // namespace tilec
