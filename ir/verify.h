// The invariants of a function at either level. Run on everything a front end or parser makes, and
// after every pass; ir/verify.cc opens with the list.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "support/diag.h"

namespace tilec::ir {

// Reports up to a handful of violations. Each shows the op as printed IR and, where the op carries
// one, its place in the .tile source.
Result<> Verify(const Function& fn, DiagSink& diags);

}  // namespace tilec::ir
