// A load role and a compute role around one ring, each with the ops that a test writes down.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/unit/warp_check/programs.h"

namespace tilec::ir {

// One load role, one compute role of four warps.
inline std::string LoadAndCompute(const std::string& load, const std::string& compute,
                                  int depth = 3) {
  return Kernel(8, Ring("r", 0, 0, depth) + Init(InitRing("r", 1, 4)) +
                       Role("load", 4, 1, Counter("lc") + load) +
                       Role("compute", 0, 4, Counter("cc") + compute));
}

inline const std::string kPlainLoad = For("%zero", "%K", 64, "%k", Put("r", "lc", "l", 3, "%k"));
inline const std::string kPlainCompute = For("%zero", "%K", 64, "%j", Take("r", "cc", "c", 3));

}  // namespace tilec::ir
