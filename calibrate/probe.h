// Micro-benchmarks of one SM as PTX text: what an instruction costs its warp, its unit and its
// readers. A machine file's numbers come from these (docs/adding_a_machine.md).
//
// Two ways of measuring. A slope runs a loop n and 2n times and divides the difference, so that
// prologue, barriers and the clock itself cancel: occupancy. A shot reads the clock before and
// after and keeps the smallest difference: latency. Every result is used, or the assembler would
// delete what is measured.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/target.h"

namespace tilec::calibrate {

enum class Kind { kSlope, kShot };
enum class Where { kOneSm, kAllSms };

// What the kernel's tensor map shows: bf16 rows of `box_rows` × 64 under 128-byte swizzle.
struct Box {
  int rows = 0;  // 0: the probe uses no map
  uint64_t tensor_rows = 0;
};

// Entry `probe`: (out: u64 per CTA, two per CTA; trips: u32; [map]). `out[2·cta]` gets cycles: all
// of them (slope), the smallest interval (shot).
struct Probe {
  std::string name;  // "wgmma.bf16.ss.n256"
  std::string what;  // for people: "wgmma m64n256k16, operands in shared memory: occupancy"
  Kind kind = Kind::kSlope;
  Where where = Where::kOneSm;
  std::string ptx;
  int threads = 128;
  int cluster = 1;  // CTAs; the first of each is measured
  int smem_bytes = 0;
  double per_trip = 1;  // operations of one trip: the result is cycles per operation
  double overhead = 0;  // cycles of a shot that are the clock's own
  uint32_t trips = 256;
  Box box;
};

// The probes of a machine: those of its matrix unit and the types that it multiplies, and of what
// its features say it has (TMA, mbarriers that are waited for). `large_rows`: rows of 128 bytes of
// the tensor that is to be in memory, not in L2; a power of two.
inline constexpr uint64_t kLargeRows = uint64_t{8} << 20;  // 1 GiB
std::vector<Probe> ProbesOf(const ir::Target& machine, uint64_t large_rows = kLargeRows);

}  // namespace tilec::calibrate
