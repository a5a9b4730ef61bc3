// Mutants of warp programs: one wait, arrive, fence, commit, depth, parity or count made wrong.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/function.h"
#include "ir/warp_check/check.h"
#include "tests/warp_check/executions.h"

namespace tilec::ir {

struct Mutant {
  std::string kind;  // "remove mbar_wait", "parity", …
  OpId op;           // of the original
  std::function<void(Function&)> apply;
  mutable std::optional<Executions> seen = std::nullopt;  // of it, when it is asked for
};

std::vector<Mutant> MutantsOf(const Function& fn);

// What the verifier says of a mutant. What it accepts has a row in the table of changes that are no
// mistake, with a reason that is checked; or it survives, and the verifier has a hole.
struct MutantVerdict {
  enum class Kind { kRejected, kHarmless, kSurvives };
  Kind kind = Kind::kSurvives;
  std::string text;  // the diagnostic's name, the reason, or the mutant
};
using Uses = std::vector<WarpOpUse>;  // of the original
MutantVerdict Judge(const Function& fn, const Uses& uses, const Mutant& mutant,
                    const Target& target);

// The role an op stands in, or an invalid id.
OpId RoleOf(const Function& fn, OpId op);

}  // namespace tilec::ir
