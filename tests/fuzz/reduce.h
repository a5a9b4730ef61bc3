// Makes a failing text smaller while it still fails: lines are left out, parenthesised groups are
// replaced by one of their parts. Knows nothing of the language; what no longer parses does not
// fail in the same way and is not taken.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace tilec::fuzz {

std::string Reduce(const std::string& text, const std::function<bool(const std::string&)>& fails,
                   int tries = 3000);

}  // namespace tilec::fuzz
