// Which probes a machine has, by its matrix unit and its features, and what all families share.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "calibrate/probes_internal.h"
#include "support/architecture.h"

namespace tilec::calibrate {

namespace {

// The first lines of a module. The lowest .version that knows the architecture: the oldest drivers
// can load it. PTX ISA, release notes: sm_120a 8.7, sm_103a and sm_121a 8.8; sm_100a 8.6, its
// products of mxf4nvf4 8.7; products of 8-bit floats on sm_89 8.4.
std::string Header(const std::string& arch) {
  bool specific = false;
  const int number = CapabilityOf(arch, &specific);
  const char* version = number == 89                     ? "8.4"
                        : number < 100                   ? "8.0"
                        : number == 100 || number == 120 ? "8.7"
                                                         : "8.8";
  return fmt::format(".version {}\n.target {}\n.address_size 64\n", version, arch);
}

}  // namespace

Probe Make(const std::string& name, const std::string& what, const Parts& parts, double per_trip,
           int smem_bytes) {
  Probe p;
  p.name = name;
  p.what = what;
  p.kind = parts.shot ? Kind::kShot : Kind::kSlope;
  p.ptx = Write(parts);
  p.threads = parts.beside.empty() ? parts.threads : 256;
  p.smem_bytes = smem_bytes;
  p.per_trip = per_trip;
  p.overhead = parts.shot ? 2 : 0;
  p.cluster = parts.cluster;
  if (parts.map) p.box.rows = 1;
  return p;
}

std::optional<Stream> StreamOf(const ir::Target& machine, int offset) {
  switch (machine.matrix_unit.kind) {
    case ir::MatrixUnit::kNone: return std::nullopt;
    case ir::MatrixUnit::kWgmma: return WgmmaStream(offset);
    case ir::MatrixUnit::kMmaSync: return MmaSyncStream();
    case ir::MatrixUnit::kTcgen05: return Tcgen05Stream(offset);
  }
  return std::nullopt;
}

Parts Beside(Parts measured, const Stream& stream, int cycles) {
  measured.declare += stream.declare;
  measured.setup += stream.setup;
  measured.beside = stream.beside;
  measured.beside_finish = stream.finish;
  measured.beside_per_trip = (cycles + stream.cycles - 1) / stream.cycles;
  measured.last = stream.last;
  return measured;
}

std::vector<Probe> ProbesOf(const ir::Target& machine, uint64_t large_rows) {
  std::vector<Probe> all;
  switch (machine.matrix_unit.kind) {
    case ir::MatrixUnit::kNone: break;
    case ir::MatrixUnit::kWgmma: AddWgmmaProbes(all); break;
    case ir::MatrixUnit::kMmaSync: AddMmaSyncProbes(machine, all); break;
    case ir::MatrixUnit::kTcgen05: AddTcgen05Probes(machine, all); break;
  }
  AddScalarProbes(machine, all);
  AddSharedProbes(machine, all);
  if (machine.Has("tma")) AddCopyProbes(machine, all, large_rows);
  for (Probe& p : all) p.ptx = Header(machine.arch) + p.ptx;
  return all;
}

}  // namespace tilec::calibrate
