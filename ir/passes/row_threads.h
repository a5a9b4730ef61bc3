// How many threads the lowering gives a program without products (ir/lower/plan.cc): what passes
// reckon with that weigh the registers of a thread.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/target.h"

namespace tilec::ir {

// `largest`: elements of its largest tile.
inline int64_t ThreadsFor(int64_t largest, const TargetLowering& lowering) {
  return largest <= lowering.one_warpgroup_elements    ? 128
         : largest <= lowering.two_warpgroups_elements ? 256
                                                       : 512;
}

}  // namespace tilec::ir
