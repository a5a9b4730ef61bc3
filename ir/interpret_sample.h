// Judging by sampling what a worst-case bound cannot judge; see ir/interpret_sample.cc. Included by
// ir/interpret*.cc only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/interpret.h"

namespace tilec::ir::interpret_internal {

// One run. `perturb` = 0: exact values with bounds; the flags of interpret_internal.h stand in
// `undecided`. Otherwise a perturbed run with that seed: values only, e = 0 throughout.
Result<InterpretReport> RunOnce(const Function& fn, InterpretInputs& inputs,
                                const InterpretOptions& options, uint64_t perturb, DiagSink& diags);

}  // namespace tilec::ir::interpret_internal
