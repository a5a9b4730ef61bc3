// How large the proof of a program will become, as far as that is known before it is made.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/function.h"

namespace tilec::compile {

// Of CTAs that stay, with a nest around their products: in how many ways the rings of its loops can
// be full at once, the deepest ring of each depth of loops. What relates the iterations of the
// roles tells all of them apart, whatever else a state holds. 0: it has no such nest.
int64_t FillingsOfNest(const ir::Function& warps);

// Of 27 such programs of the library and the tests none is proved with more than 10 (attention's
// second pass over rows that overflowed); four have 14 or more, the gradients of attention among
// them, and were given up after 0.1 to 0.3 s each.
inline constexpr int64_t kMostFillings = 12;

}  // namespace tilec::compile
