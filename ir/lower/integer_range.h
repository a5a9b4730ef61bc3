// Which integers a value can be, as far as its ops say: what is known of weights in few bits, whose
// conversion to a float loses nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"

namespace tilec::ir {

struct IntegerRange {
  int64_t least = 0, most = 0;
};

// Of every element of an integer tile, or of a scalar; nullopt for floats and for integers of 64
// bits. Never narrower than the truth: an op that may wrap gives all values of its type.
std::optional<IntegerRange> RangeOf(const Function& fn, ValueId v);

}  // namespace tilec::ir
