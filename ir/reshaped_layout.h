// The same elements, in row-major order, under another shape: when does no thread have to give any
// away? Where one shape cuts dims of the other ([128, 128] and [128, 16, 8]), a layout of the one
// is a layout of the other: digits whose strides lie below the cut go along the inner dim, those
// above it along the outer one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

// Does this rearrange give another shape to all elements, and no more? Each keeps its number then.
bool KeepsNumbers(const Function& fn, const Op& rearrange);

// `layout` of a tile of shape `coarse` as one of `fine`. nullopt: `fine` does not cut dims of it,
// or a digit crosses a cut, or the layout reaches past the tile.
std::optional<Layout> CutLayout(const Layout& layout, const std::vector<int64_t>& coarse,
                                const std::vector<int64_t>& fine);

// For each register of `to` the register of `from` that has, in every thread, the same element,
// counted in row-major order. nullopt: elements would have to move, or a layout reaches past its
// tile.
std::optional<std::vector<int>> ReshapedRegisters(const Layout& from,
                                                  const std::vector<int64_t>& from_shape,
                                                  const Layout& to,
                                                  const std::vector<int64_t>& to_shape);

}  // namespace tilec::ir
