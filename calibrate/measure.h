// Runs probes on a device.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/probe.h"
#include "runtime/device.h"

namespace tilec::calibrate {

using Numbers = std::map<std::string, double>;  // probe → cycles per operation

struct MeasureOptions {
  int sms = 132;
  int repeats = 5;          // the median counts
  uint32_t most_trips = 0;  // > 0: fewer trips than the probes ask for
};

Result<Numbers> Measure(runtime::Device& device, const std::vector<Probe>& probes,
                        const MeasureOptions& options, DiagSink& diags);

}  // namespace tilec::calibrate
