// Near-miss suggestions: "did you mean `BM`?".
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilec {

// The candidate closest to `name` (insertions, deletions, replacements, swaps of neighbours; case
// only decides between equals), or "" if none is close enough to be what was meant. Ties go to the
// earlier one.
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tilec
