// The calls of `test` blocks as compilations: what tests that compile every kernel share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/pipeline.h"
#include "api/solution_cache.h"
#include "frontend/frontend.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec {

// What the solver found in this run of ctest, in the folder that TILEC_SOLUTIONS names: tests of
// what is made of a schedule need not solve it again. Without it all are solved.
class Solved {
 public:
  Solved();
  scheduler::SolutionStore* store() { return &*store_; }

 private:
  DiagSink diags_;
  std::optional<runtime::KernelCache> folder_;
  std::optional<api::SolutionCache> store_;
};

// "gemm(M=300 N=200)"
std::string CallText(const frontend::TestCallInfo& call);

// Tensors as a launch on a device would bring them: dense, their first byte aligned.
Result<api::Call> BindDense(const frontend::Program& program, const frontend::TestCallInfo& call,
                            DiagSink& diags);

// Visits the calls of the `test` blocks of a .tile file with every schedule, by name or from a
// file; of calls that compile to one program (its key in the cache is the same) the first. Prints
// why a file or a call failed, and returns how many did: by a diagnostic, or because the visitor
// says false.
using CallVisitor = std::function<Result<bool>(const api::Loaded&, const frontend::TestCallInfo&,
                                               const std::string& schedule, DiagSink&)>;
int VisitCalls(const std::string& path, const std::vector<std::string>& schedules,
               const CallVisitor& visit);

}  // namespace tilec
