// Which names of built-in functions are atomics, and which stand alone as statements.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tilec::frontend {

// One of "atomic_add", "atomic_min", … for the prefix "atomic_".
inline bool IsAtomic(const std::string& name, const std::string& prefix = "atomic_") {
  for (const char* kind : {"add", "min", "max", "and", "or", "xor"})
    if (name == prefix + kind) return true;
  return false;
}
inline bool IsFetch(const std::string& name) { return IsAtomic(name, "fetch_"); }
inline bool OnlyStatement(const std::string& name) {
  return IsAtomic(name) || name == "print" || name == "assert" || name == "static_assert";
}

}  // namespace tilec::frontend
