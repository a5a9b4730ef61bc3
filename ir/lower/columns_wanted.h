// Columns of tensor memory, for whoever compares tile sizes. Products whose accumulators do not fit
// are taken apart (plan_program.cc): right, and each passes through registers; so a tile size that
// wants more columns than there are must not look good by the size of its tiles. And CTAs side by
// side share the columns, as they share registers.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

// Does an iteration of an innermost loop want more columns than a CTA can have: for each product's
// accumulator, and for left operands that threads compute? Of a tile function; never where
// accumulators are registers.
bool WantsTooManyColumns(const Function& fn, const Target& target);

// Has a CTA of this warp program an SM for itself, whatever it leaves of the rest: by the quotas of
// its roles, or by the columns that it gets?
bool HasSmAlone(const Function& warps, const Target& target);

}  // namespace tilec::ir
