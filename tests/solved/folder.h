// Where loops that were solved are kept for one run of ctest; empty for a program that is started
// by hand, which solves everything itself (docs/testing.md, "Loops that are solved already").
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

namespace tilec {

inline std::string SolvedFolder() {
  const char* folder = std::getenv("TILEC_SOLUTIONS");
  return folder ? folder : "";
}

}  // namespace tilec
