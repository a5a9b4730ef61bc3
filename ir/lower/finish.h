// The last step of the lowering: addresses of what lies behind the buffers (scratch and barriers,
// whose sizes only the emitted program knows), and whether the program fits its CTA.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/lower/emitter.h"
#include "ir/lower/realise.h"
#include "ir/lower/sequential.h"
#include "ir/program_plan.h"

namespace tilec::ir {

// Fails with I302 where the plan's bytes are more than a CTA has.
Result<> CheckSharedMemory(const Function& fn, const ProgramPlan& plan, const Target& target,
                           DiagSink& diags);

// Gives scratch and barriers their addresses and notes them in the plan. Fails with I302 (shared
// memory), I306 or I308 (registers); registers_full->refused tells the latter two.
Result<Function> Finish(Emitted emitted, ProgramPlan& plan, const Target& target,
                        const SequentialOptions& options, RegistersFull* registers_full,
                        DiagSink& diags);

}  // namespace tilec::ir
