// Tiles that go from one compute role to another, as the PTX has them: through which ring.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/obeyed/compare.h"

namespace tilec::obeyed {

struct Bytes {
  int64_t begin = 0, end = 0;  // of shared memory; end 0: not told apart from others
};

// The full barriers of the rings of `passes`, in their order. `reached`: blocks, by compute role.
// Adds a fault where there are fewer rings than tiles.
std::vector<Bytes> RingsOfPasses(const Code& code, const std::map<int, std::set<int>>& reached,
                                 const std::vector<Pass>& passes, std::vector<std::string>* faults);

}  // namespace tilec::obeyed
