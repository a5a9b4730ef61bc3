// Arguments for a kernel that nobody described: what each byte of its parameters is used as.
//
// The text is followed from `ld.param` and from addresses of parameters, without looking at control
// flow: 64 bits that come to be an address are a pointer, an address within the parameters that a
// tensor copy or a prefetch takes is a tensor map of so many dimensions, 32 bits are a count.
// Registers that hold several things hold all of them. What is in memory is not followed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tilec::corpus {

struct Guess {
  struct Param {
    uint64_t bytes = 0;
    std::map<uint64_t, int> words;      // by offset: bytes of a load, negative for floats
    std::map<uint64_t, bool> pointers;  // offsets
    std::map<uint64_t, int> maps;       // offsets, rank
    bool image = false;                 // the whole is a texture, surface or sampler
  };
  std::vector<Param> params;
  uint32_t block[3] = {128, 1, 1}, cluster[3] = {1, 1, 1}, grid[3] = {1, 1, 1};
  uint64_t dynamic_shared = 0;
};

// Nothing if the text cannot be read. `text` may begin with `// launch: block=N`.
std::vector<std::pair<std::string, Guess>> GuessLaunches(const std::string& text);

}  // namespace tilec::corpus
