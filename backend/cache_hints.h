// What of a kernel's tensors the caches need not keep.
//
// Rows that find no room on the chip are read again by a later loop, from an L2 that holds what all
// CTAs have read meanwhile and what they have written. Nothing reads again what the last of those
// loops reads, nor what is written beside it: evicted first, both leave the room to what is read
// again. (H200, us: softmax of 4096x65536 bf16 360 and, so, 303, of 1898x68567 214 and 195, of
// 6577x37699 f32 679 and 605.) A kernel that reads nothing again says nothing: who runs next may
// read what it wrote.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::backend {

// Of a load or store of a tensor: does it stand in a loop that reads rows for the last time?
bool PassesBy(const ir::Function& fn, const ir::Op& access);

}  // namespace tilec::backend
