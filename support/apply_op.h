// One operator of a launch-time expression, for whoever keeps expressions in a form of its own:
// what a node means is said once (support/expr.cc).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "support/expr.h"

namespace tilec {

// `op` takes two values; nullopt where Eval has none: a division by zero, or more than 64 bits.
std::optional<int64_t> ApplyOp(Expr::Op op, int64_t a, int64_t b);

}  // namespace tilec
