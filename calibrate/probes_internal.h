// Families of probes. Internal to calibrate/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "calibrate/probe.h"
#include "calibrate/ptx_writer.h"

namespace tilec::calibrate {

Probe Make(const std::string& name, const std::string& what, const Parts& parts, double per_trip,
           int smem_bytes = 0);

// A stream of wgmma n256 that the measured work runs beside: declarations, setup, one iteration of
// 4 instructions (512 cycles), and the shared memory it reads from `offset` on.
struct Stream {
  std::string declare, setup, beside, finish;
};
Stream TensorStream(int offset);
inline constexpr int kStreamBytes = 8192 + 32768;
inline constexpr int kStreamCycles = 512;

void AddTensorProbes(std::vector<Probe>& to);
void AddScalarProbes(std::vector<Probe>& to);
void AddSharedProbes(std::vector<Probe>& to);
void AddCopyProbes(std::vector<Probe>& to, uint64_t large_rows);

}  // namespace tilec::calibrate
