// The loop of a fuzzer whose inputs follow from a seed each.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/fuzz/inputs.h"
#include "tests/fuzz/last_input.h"

namespace tilec::fuzz {

// Calls `one` with the seed of each input, which counts as `step` of what ends the run. False: one
// said so, and it is printed.
template <typename One>
bool RunAll(Inputs& inputs, uint64_t step, uint64_t* done, const One& one) {
  ShowLastInputOnDeath();
  for (uint64_t k; inputs.Next(*done, &k); *done += step) {
    Last() = {inputs.seed, k, ""};
    if (!one(InputSeed(inputs.seed, k))) return PrintLast(), false;
  }
  return true;
}

}  // namespace tilec::fuzz
