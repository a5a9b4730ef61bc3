// Kernels whose CTAs read little and only once: more elements a thread pay there.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// Does a CTA do without loops, and read no more than `bytes` of any tensor (what all CTAs read does
// not count)? Then up to 32 elements a thread rather than 16: more CTAs run beside each other, and
// what each thread or warp does once (indices, exchanges of reductions) is done half as often. The
// machine's file says up to which sizes that pays, and what was seen.
bool ReadAtOnce(const Function& fn, int64_t bytes);

}  // namespace tilec::ir
