// Cuts a kernel along its independent rows: every value that has them becomes one value per slice,
// every op on such values one op per slice, marked with the attribute `slice`. What has no such
// rows (the other operand of a product, scalars) stays one and is shared. Each slice computes
// exactly what it did; no element changes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/function.h"
#include "ir/row_classes.h"

namespace tilec::ir {

// `slices` is one of RowClasses(fn).Choices().
void SliceRows(Function& fn, int slices);

}  // namespace tilec::ir
