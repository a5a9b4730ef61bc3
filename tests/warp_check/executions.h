// Executions of a warp program with numbers for its parameters, warp by warp: who knows what of
// whom when a byte is touched again. Far less than the verifier proves, and by other code, without
// symbols and without moments that are taken for one: a second opinion on mutants it accepts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "ir/function.h"

namespace tilec::ir {

struct Executions {
  int64_t runs = 0;   // that differ in their trip counts or branches and execute the block
  int64_t most = 0;   // times one of them executes it
  std::string fault;  // the first access that nothing orders after one before, or a wait that
                      // nothing ends; "": none
};

// Runs `fn` with many sizes: a handful of tiles, loops of all lengths up to twice the deepest ring.
Executions Execute(const Function& fn, BlockId block);

}  // namespace tilec::ir
