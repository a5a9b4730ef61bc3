// The program of each role as it was lowered: what it copies, multiplies and computes in order, and
// every wait, signal and fence with the reason it exists. Reads warp IR and nothing the lowering
// thought.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "explain/explain.h"
#include "ir/function.h"
#include "ir/target.h"

namespace tilec::explain {

// `fn`: a verified warp function. Fails where the verifier of warp programs does.
Result<std::vector<RoleProgram>> ReadProgram(const ir::Function& fn, const ir::Target& target,
                                             const SourceMap& sources, DiagSink& diags);

}  // namespace tilec::explain
