// What each compute role executes: the ops marked as its own, and everything those need. Ops
// without a mark are computed by every role that needs them; what writes without a mark belongs to
// role 0.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

struct RoleNeeds {
  std::set<OpId> ops;  // structure included
  std::set<ValueId> values;
};

// 1 + the largest mark `role`.
int ComputeRolesOf(const Function& fn);

// By compute role; nullopt: a role needs what another one computes.
std::optional<std::vector<RoleNeeds>> NeedsOfRoles(const Function& fn, int roles);

}  // namespace tilec::ir
