// Text of one probe: the frame that all share (parameters, clock, loop, result) around a body.
// Internal to calibrate/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tilec::calibrate {

// The parts of a probe's kernel. `setup` runs once before the clock starts, `body` every trip,
// `finish` after the clock stopped (results that keep the work alive go to [%out_data], a place of
// each thread's own).
//
// Registers that a part may use: %me (thread), %warp, %lane, %trip (counts up), %smem (u32 address
// of shared memory), %map (u64, address of the tensor map). It declares others in `declare`.
struct Parts {
  std::string declare, setup, body, finish;
  std::string last;  // all threads run it when all have done the rest: what was got is given back
  // A second warpgroup (threads 128 to 255) that runs this many iterations of `beside` for each
  // trip, so that the body is measured next to it.
  std::string beside, beside_finish;
  int beside_per_trip = 0;
  bool shot = false;  // body reads the clock itself: `begin` and `end` below
  bool map = false;
  int threads = 128;
  int cluster = 1;
};

inline constexpr const char* kBegin = "mov.u64 %begin, %clock64;\n";
inline constexpr const char* kEnd =
    "mov.u64 %end, %clock64;\nsub.u64 %end, %end, %begin;\nmin.u64 %best, %best, %end;\n";

// The module without `.version`, `.target` and `.address_size`.
std::string Write(const Parts& parts);

// "%a0, %a1, …"
std::string Registers(const std::string& prefix, int n);

}  // namespace tilec::calibrate
