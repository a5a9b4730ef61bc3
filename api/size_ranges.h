// What Kernel::Prepare makes of ranges of sizes: a launch for each class that has members in them,
// and of each class for each way in which tensors of such sizes can be aligned.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "api/call.h"
#include "frontend/frontend.h"
#include "include/tilec/tilec.h"
#include "support/diag.h"

namespace tilec::api {

// Arguments like `args`, ascending by the ranges in their order. Tensors whose strides are given
// keep them.
Result<std::vector<Args>> ArgsOfRanges(const frontend::Signature& signature, const Args& args,
                                       const std::vector<SizeRange>& ranges, DiagSink& diags);

}  // namespace tilec::api
