// Mutants of warp programs: one wait, arrive, fence, commit, depth, parity or count made wrong.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

struct Mutant {
  std::string kind;  // "remove mbar_wait", "parity", …
  OpId op;           // of the original
  std::function<void(Function&)> apply;
};

std::vector<Mutant> MutantsOf(const Function& fn);

// The role an op stands in, or an invalid id.
OpId RoleOf(const Function& fn, OpId op);

}  // namespace tilec::ir
