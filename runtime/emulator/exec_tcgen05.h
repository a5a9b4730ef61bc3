// What exec_tcgen05.cc and exec_tcgen05_async.cc share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

// The other CTA of the pair; null: the cluster has none.
Cta* PeerOf(Cta& cta);
// Are these columns of a CTA inside of its allocations? False: a fault was recorded.
bool TensorInside(Warp& w, const Inst& i, const Cta& cta, uint32_t column, uint32_t columns,
                  const char* what);

}  // namespace tilec::runtime::emulator
