// Text form of a ProgramPlan: what `tilec build --emit=plan` and `tilec explain` print and
// `--plan=FILE` reads. Line oriented; a line is a record, `keyword name=value…`, fields with their
// default value left out, `#` comments. Print then parse is the identity, parse then print as well
// but for comments.
//
// Ops are named by what they are and which of their kind, in program order: `dot1` is the second
// product of the function; values as the IR text names them (`%acc`); the arms and bodies of an op
// as `if0.1`. Roles, rings and buffers are numbered in the order in which they stand.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "ir/program_plan.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::ir {

std::string ToText(const ProgramPlan& plan, const Function& fn);

// `fn` is the function that the plan was made for; its text tells (`program HASH`). Fails with I270
// (form), I271 (a name or value) or I272 (the plan of another program). What is not part of the
// text is derived anew. The plan is not judged: ir/check_plan.h does that.
Result<ProgramPlan> ParsePlan(std::string_view text, int32_t file, const Function& fn,
                              DiagSink& diags);

// Of the text of a tile function: which one a plan belongs to.
uint64_t ProgramHash(const Function& fn);
// The hash that a plan's text names, 0 if it names none.
uint64_t ProgramOf(std::string_view plan_text);

// Names of the ops of a function.
class OpNames {
 public:
  explicit OpNames(const Function& fn);
  const std::string& operator[](OpId op) const { return names_.at(op); }
  OpId Find(std::string_view name) const;
  std::vector<std::string> All() const;

 private:
  std::map<OpId, std::string> names_;
  std::map<std::string, OpId, std::less<>> ops_;
};

}  // namespace tilec::ir
