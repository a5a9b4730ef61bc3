// Kernels that nvcc made, launched the way all of tests/corpus are: (a, b, c, n), three arrays of
// n = 512 floats, 4 CTAs of 128 threads.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/judge/finding.h"

namespace tilec::corpus {

struct Plan {
  runtime::Policy policy;
  runtime::Landing landing;
  uint64_t seed = 0;
  bool spurious = false;
};

struct Outcome {
  std::string refused;  // what the emulator lacks
  std::string fault;    // how a launch failed
  std::vector<runtime::judge::Finding> findings;
  std::vector<float> outputs;    // all three arrays
  bool order_sensitive = false;  // atomics: the order of CTAs shows in the outputs
};

// One execution, with all checks on.
Outcome Run(const std::string& text, const std::string& name, const std::string& entry,
            const Plan& plan, uint64_t instruction_limit = 20'000'000);

// A name that begins with `bad_` is that of a kernel with a mistake.
inline bool IsBad(const std::string& entry) { return entry.substr(0, 4) == "bad_"; }

std::string FirstLine(const std::string& text);

}  // namespace tilec::corpus
