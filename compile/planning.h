// The last step of the tile level, with the plan that is given or wanted beside it: a plan is
// obeyed in place of the planners' if the function is the one that it is of.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "ir/lower/sequential.h"
#include "ir/pass.h"

namespace tilec::compile {

struct Planning {
  std::optional<ir::GivenPlan> given;
  std::string* text = nullptr;             // receives the plan's
  bool* met = nullptr;                     // it is of this program
  ir::ScheduledResources* made = nullptr;  // receives rings and quotas of the program
};

// How many CTAs an SM is to have room for was changed behind the planners (compile/worth.cc): a
// line `changed what=ctas-per-sm` of the plan's text, which is obeyed where the plan is.
void NoteCtasPerSm(int64_t from, int64_t to, std::string* plan);

// Lowers `fn` by roles or by one; `specialized` (may be null without roles) tells whether there are
// any. Fails with I272 if a plan is given and of another program.
Result<> LowerBy(const Planning& planning, bool roles, ir::SequentialOptions options,
                 bool* specialized, ir::Function& fn, ir::PassContext& cx);
// The same by one role, as a step.
ir::PassStep OneRoleStep(const Planning& planning, ir::LowerNeed* need);

}  // namespace tilec::compile
