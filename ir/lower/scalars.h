// What is known of scalar values at compile time: launch expressions and alignments.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ir/function.h"

namespace tilec::ir {

// The i64 scalar `v` as an expression over dims and integer scalars of the function, if it is one.
std::optional<Expr> ToExpr(const Function& fn, ValueId v);

// A power of two (capped at 2^20) that divides every value `v` can take; block arguments of `for`
// and `parallel` divide by what divides their start and step, dims by TensorFacts::last_dim_align.
int64_t AlignOf(const Function& fn, ValueId v);

// True if `v` is provably >= 0: dims, positions of loops that start at such a value, sums, products
// and quotients of such values.
bool NonNegative(const Function& fn, ValueId v);
// … where an op of this block reads it: the branches around were taken.
bool NonNegativeIn(const Function& fn, BlockId block, ValueId v);

// Shape without its dims of extent 1: the form tiles have at the warp level.
std::vector<int64_t> Squeezed(const std::vector<int64_t>& shape);
size_t SqueezedRank(const std::vector<int64_t>& shape);
// Index of dim d of `shape` in Squeezed(shape), −1 if its extent is 1.
int SqueezedDim(const std::vector<int64_t>& shape, int64_t d);

}  // namespace tilec::ir
