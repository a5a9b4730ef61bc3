// Families of probes. Internal to calibrate/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "calibrate/probe.h"
#include "calibrate/ptx_writer.h"

namespace tilec::calibrate {

Probe Make(const std::string& name, const std::string& what, const Parts& parts, double per_trip,
           int smem_bytes = 0);

// Products that the measured work runs beside: what a second warpgroup does, and the shared memory
// that it reads from `offset` on (a multiple of 1024).
struct Stream {
  std::string declare, setup, beside, finish, last;
  std::string what;  // "wgmma n256"
  int cycles = 512;  // of an iteration, at least
  int bytes = 0;
};
Stream WgmmaStream(int offset);
Stream Tcgen05Stream(int offset);
Stream MmaSyncStream();
// That of the machine's matrix unit; nullopt if it has none.
std::optional<Stream> StreamOf(const ir::Target& machine, int offset);
// `measured`, with the stream beside it for at least so many cycles a trip.
Parts Beside(Parts measured, const Stream& stream, int cycles);

void AddWgmmaProbes(std::vector<Probe>& to);
void AddTcgen05Probes(const ir::Target& machine, std::vector<Probe>& to);
void AddMmaSyncProbes(const ir::Target& machine, std::vector<Probe>& to);
void AddScalarProbes(const ir::Target& machine, std::vector<Probe>& to);
void AddSharedProbes(const ir::Target& machine, std::vector<Probe>& to);
void AddCopyProbes(const ir::Target& machine, std::vector<Probe>& to, uint64_t large_rows);

}  // namespace tilec::calibrate
