// From a plan to its program: what every way of lowering ends with, whoever made the plan.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/lower/sequential.h"
#include "ir/program_plan.h"

namespace tilec::ir {

// Why a program was refused that lacks nothing but registers.
struct RegistersFull {
  bool refused = false;
  // Its loop of products keeps as many as any place of its role: other ways to store and to load
  // around it change nothing.
  bool in_loop = false;
};

// The plan's program, if the machine has room for it.
Result<Function> Realise(const Function& fn, ProgramPlan& plan, const Target& target,
                         const SequentialOptions& options, RegistersFull* registers_full,
                         DiagSink& diags);

// What somebody else planned, obeyed to the letter.
Result<Function> ObeyPlan(const Function& fn, const Target& machine,
                          const SequentialOptions& options, ProgramPlan* made, DiagSink& diags);

// How the stores of a plan leave.
SequentialOptions::Staging StagingOf(const ProgramPlan& plan);

// CTAs that an SM has side by side: as many as are wanted, if the quotas of the plan's roles leave
// them room, else one. (It follows from the plan, so a plan does not say it.)
int64_t CtasSideBySide(const Function& fn, const ProgramPlan& plan, const Target& target);

}  // namespace tilec::ir
