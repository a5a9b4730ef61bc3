// Facts of the emission that planners count on as well: what one instruction can do, and which ops
// leave products in flight.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ir/function.h"
#include "ir/isa.h"

namespace tilec::ir {

inline constexpr int64_t kBoxRows = isa::kMostBoxExtent;
inline constexpr size_t kMostDims = isa::kMostTensorRank;

// Arms of register arithmetic only: products in flight stay in flight.
bool IsPlainBranch(const Function& fn, const Op& op);

// A tile that passes between roles, as shared memory has it. Slots start swizzle patterns.
std::vector<int64_t> ShapeInMemory(const Type& tile);
SmemLayout PassLayout(DType dtype, const std::vector<int64_t>& shape);
// … and as what a scalar that is handed to the load role lies there: memory has no truth values.
inline DType HandedAs(DType dtype) { return dtype == DType::kBool ? DType::kI32 : dtype; }

// Which dims of a broadcast's result are its operand's, in the squeezed shapes.
std::vector<int> KeptDims(const Function& fn, const Op& broadcast);

}  // namespace tilec::ir
