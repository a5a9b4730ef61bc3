// How two layouts relate where no data may move: which coordinates stay, which threads hold what
// twice, whether elements lie at the same numbers. What the verifier's rules for warp ops ask.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ir/layout.h"
#include "ir/type.h"

namespace tilec::ir::verify_internal {

// So small that its threads and registers can be gone through.
bool Sane(const Layout& l);

// The dims of other extents than 1.
std::vector<bool> NotOne(const std::vector<int64_t>& shape);

// For every register of `to` there is one register of `from` that holds, in every thread, the same
// coordinate when dims are compared as kept. Elements outside `to_shape` are padding.
bool HoldsWithoutMoving(const Layout& from, const std::vector<bool>& keep_from, const Layout& to,
                        const std::vector<bool>& keep_to, const std::vector<int64_t>& to_shape);

// As many elements, but not the same dims up to those of extent 1.
bool CutsOthers(const Type& in, const Type& out);

// For every register of `to` there is one of `from` that has, in every thread, the same element,
// counted in row-major order.
bool SameNumbers(const Layout& from, const std::vector<int64_t>& from_shape, const Layout& to,
                 const std::vector<int64_t>& to_shape);

}  // namespace tilec::ir::verify_internal
