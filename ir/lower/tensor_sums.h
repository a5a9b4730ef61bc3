// Sums in tensor memory: products of a unit that keeps accumulators there, which add to one another
// with nothing between them, and what a role does about them.
//
//     acc = 0; for k { acc = acc + a(k) · b(k) }; use(acc)
//
// is one sum: the loop carries no tile, its products add to the same columns, and threads load the
// tile once, where it is first used. A product whose sum something else looks at, or changes, is a
// sum of its own: its accumulator is stored before it and loaded behind it. Where a loop carries
// and changes it by elementwise work alone, it is a resident sum (resident_sums.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ir/function.h"
#include "ir/program_plan.h"
#include "ir/uses.h"

namespace tilec::ir {

// All sums of a function, in program order. `tiles` says which products are on which unit; the
// products in `apart` are sums of their own, whose tiles threads hold between them.
std::vector<TensorSum> FindTensorSums(const Function& fn, const LayoutPlan& tiles,
                                      const std::set<OpId>& apart = {});

// Columns that a slice of a tile of rows and columns has, so that threads need not have all of it
// at once; 0: its columns are no registers.
int64_t ColumnsOfSlice(const Type& tile, const Layout& layout);

// Does the op make its columns from the same columns of operand `i`?
bool MadeByColumns(const Function& fn, const LayoutPlan& tiles, const Op& op, size_t i);

// Columns for the sums of every role; those of one role share columns where one is loaded before
// the other begins. Returns how many there are in all.
int64_t PlaceTensorSums(const Function& fn, const std::vector<std::vector<size_t>>& sums_of_role,
                        ProgramPlan* plan);

}  // namespace tilec::ir
