// The passes as functions, declared from their rows.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/pass.h"

namespace tilec::ir {

#define PASS(Name, ...) Result<> Name(Function& fn, PassContext& cx);
#include "ir/passes/passes.def"
#undef PASS

}  // namespace tilec::ir
