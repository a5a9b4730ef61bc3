// What the producer role does beside its copies: the loops and branches around its loads, and the
// scalars that bounds, conditions and coordinates are made of. What follows from parameters,
// constants, positions and read-only scalars it computes for itself, and runs ahead. What is made
// of tiles, or of memory that the kernel writes, a compute role computes and *hands* to it: the
// load role comes to the place where that op stands, and waits for the scalar there.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

struct ProducerShare {
  std::set<ValueId> control;    // scalars that it recomputes
  std::set<OpId> structure;     // loops and branches that it walks
  std::vector<ValueId> handed;  // … of `control`: what it is told, in program order
};

// Why a role that fills rings cannot be, or is not worth its place.
struct NoProducer {
  std::string why;  // "tiles are loaded where …"
  Span at;
};

// nullopt: a load depends on what no role can hand over; `why`, if given, says on what. Scalars are
// handed over by the compute role if there is one, which knows all that is computed, in a CTA of
// its own.
std::optional<ProducerShare> ShareOfProducer(const Function& fn, const std::vector<OpId>& loads,
                                             NoProducer* why = nullptr);

// What a role that issues products does beside them: the loops and branches around `products`, and
// the scalars that bounds and conditions are made of. nullopt: it cannot compute one of them.
std::optional<ProducerShare> ShareOfIssuer(const Function& fn, const std::vector<OpId>& products);

}  // namespace tilec::ir
