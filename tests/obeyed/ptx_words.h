// Small words about PTX that the readers of its code share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace tilec::obeyed {

constexpr size_t kMostTurns = 512;

inline bool Starts(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

}  // namespace tilec::obeyed
