// The calls of `test` blocks as compilations: what tests that compile every kernel share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "api/call.h"
#include "frontend/frontend.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec {

// "gemm(M=300 N=200)"
std::string CallText(const frontend::TestCallInfo& call);

// Tensors as a launch on a device would bring them: dense, their first byte aligned.
Result<api::Call> BindDense(const frontend::Program& program, const frontend::TestCallInfo& call,
                            DiagSink& diags);

}  // namespace tilec
