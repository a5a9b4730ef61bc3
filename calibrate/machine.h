// From measured cycles to the entries of a machine file: one row per number, with the arithmetic
// that leads there.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "calibrate/measure.h"
#include "ir/target.h"

namespace tilec::calibrate {

struct Change {
  std::string entry;  // "dot.use.tensor.flops"
  double before = 0, after = 0;
  std::string probes;  // "wgmma.bf16.ss.n256 = 128.0"
};

// `base` with what `numbers` say; entries without a row keep their numbers and where they are from.
// `provenance`: program, device, date.
ir::Target Apply(const ir::Target& base, const Numbers& numbers, const std::string& provenance,
                 std::vector<Change>* changes);

}  // namespace tilec::calibrate
