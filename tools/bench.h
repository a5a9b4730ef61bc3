// Times launches of several contestants on one device, in turns: at load (sustained) and after a
// rest. Under load a GPU sits at its power limit and its clock follows what ran before, so only
// iterations compare anything.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "support/diag.h"
#include "tools/nvml.h"

namespace tilec::tools {

struct Contestant {
  std::string name;
  std::function<Result<>(size_t set, DiagSink&)> launch;  // on stream 0, buffers of that set
  // In place of `launch`: so many launches elsewhere, milliseconds of one.
  std::function<Result<double>(int count, DiagSink&)> time = nullptr;
};

struct BenchOptions {
  size_t sets = 1;  // of buffers, used in turn
  int rounds = 5;
  double seconds = 0.3;  // of one contestant in one round
  double rest = 0.5;     // seconds idle before a rested measurement
};

struct Timing {
  std::string name;
  std::vector<double> sustained, rested;  // milliseconds per launch, by round
  std::optional<double> sm_mhz, watts;    // while sustained
};
double Median(std::vector<double> values);

Result<std::vector<Timing>> MeasureInTurns(runtime::Device& device,
                                           const std::vector<Contestant>& contestants,
                                           const BenchOptions& options, DiagSink& diags);

}  // namespace tilec::tools
