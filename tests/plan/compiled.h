// A kernel compiled with its plan, or by a plan: what the tests of plans share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"

namespace tilec {

struct PlanCase {
  std::string name, file, kernel;
  size_t call = 0;  // which of the kernel's calls in the file's `test` blocks
  std::string schedule = "solve";
  std::string target = "h200";
};

struct CompiledPlan {
  bool ok = false;
  std::string plan;      // as printed
  std::string said;      // diagnostics
  ir::Function program;  // warp IR
};

// `plan`: text to be obeyed; "": the planners decide.
CompiledPlan CompilePlan(const PlanCase& of, const std::string& plan = "");

// The kinds of kernels that plans differ in.
const std::vector<PlanCase>& PlanCases();
const PlanCase& PlanCaseOf(std::string_view name);

// Lines of the plan that the warp program does not bear out, with why.
std::vector<std::string> NotFound(const std::string& plan, const ir::Function& program);

}  // namespace tilec
