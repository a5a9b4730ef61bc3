// What the producer role does beside its copies: the loops and branches around its loads, and the
// scalars that bounds, conditions and coordinates are made of. It must be able to run ahead, so all
// of that may depend on parameters, constants and read-only scalars only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

struct ProducerShare {
  std::set<ValueId> control;  // scalars that it recomputes
  std::set<OpId> structure;   // loops and branches that it walks
};

// nullopt: a load depends on what only compute roles know.
std::optional<ProducerShare> ShareOfProducer(const Function& fn, const std::vector<OpId>& loads);

}  // namespace tilec::ir
