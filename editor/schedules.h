// What the compiler decides for the loops of a kernel, for hovers and code lenses: the kernel is
// compiled as `tilec build` would with the same values, and what that compilation decided is read
// off. Takes from milliseconds to a second; whoever asks keeps the answer (server.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "editor/analysis.h"

namespace tilec::editor {

struct LoopSummary {
  uint32_t begin = 0, end = 0;  // of the loop in the document
  bool pipelined = false;
  int64_t ii = 0;       // cycles of an iteration in the steady state, on the target
  bool proved = false;  // no schedule has a smaller one
  int roles = 1;        // compute roles
  int warps = 0;        // of each
  std::string why;      // not pipelined: why
};

// "II 2414 cycles (proved smallest), 2 compute roles of 4 warps".
std::string Describe(const LoopSummary& loop);

// Of one kernel with the values that stand in for a call's. Empty: it was refused or has no loops.
std::vector<LoopSummary> SchedulesOf(const Analysis& a, const TypedKernel& kernel,
                                     const std::string& target,
                                     const api::StandardLibrary& library);

}  // namespace tilec::editor
