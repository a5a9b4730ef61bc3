// What each compute role executes: the ops marked as its own, and everything those need. Ops
// without a mark are computed by every role that needs them; what writes without a mark belongs to
// role 0.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "ir/program_plan.h"

namespace tilec::ir {

// A tile passes between compute roles by two reshapes that change no shape, in the role that makes
// it and in the one that reads it: the first has the mark `signal` of a token, the second reads the
// first and has the token's mark `await`. In the order of the program it is one value; the lowering
// puts it into a ring of shared memory and takes it out.
inline bool PutsTile(const Op& op) {
  return op.kind == OpKind::kReshape && op.attr("signal") != nullptr;
}
inline bool TakesTile(const Op& op) {
  return op.kind == OpKind::kReshape && op.attr("await") != nullptr;
}

// 1 + the largest mark `role`.
int ComputeRolesOf(const Function& fn);

// By compute role; nullopt: a role needs what another one computes.
std::optional<std::vector<RoleNeeds>> NeedsOfRoles(const Function& fn, int roles);

}  // namespace tilec::ir
