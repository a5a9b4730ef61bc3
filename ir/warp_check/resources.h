// What needs no walk: registers, named barriers and shared memory of the roles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ir/warp_check/check.h"
#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

// Warpgroups that take turns cannot be stuck for it (turns.cc).
std::optional<Finding> CheckTurns(const Program& program);

std::optional<Finding> CheckResources(const Program& program, const WarpCheckOptions& options);

}  // namespace tilec::ir::warp_check
