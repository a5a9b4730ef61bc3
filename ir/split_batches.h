// Products over batches: [B, M, K] · [B, K, N] becomes B products of [M, K] · [K, N], and whatever
// has the batch's dim becomes one value for each number of the batch, as if it had been written so.
// A loop then carries B accumulators, and each load brings what one product wants, which is what
// the planners and the copy engine know how to do; no later step meets such a product.
//
// Where something runs along the batch (a sum over it, a reshape, a print), the tiles stay whole
// and only the product's operands are cut out of them, its results put together again.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"

namespace tilec::ir {

// `fn` is a tile function whose products may have rank 3; none has behind it.
void SplitBatches(Function& fn);

}  // namespace tilec::ir
