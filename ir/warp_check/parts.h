// Parts of a role that store for themselves: what the walk takes for granted of them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

std::optional<Finding> CheckParts(const Program& program);

}  // namespace tilec::ir::warp_check
