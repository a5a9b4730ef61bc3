// What an emulated GPU has: plain data, so that the emulator knows nothing of compilers. Whoever
// compiles for a machine hands over its limits, and a launch that exceeds one of them is refused.
//
// What stands here is the GPU that the emulator's instructions were compared with, compute
// capability 9.0 (CUDA C++ programming guide, technical specifications per compute capability); a
// PTX text that nobody compiled here runs on that.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tilec::runtime {

struct MachineLimits {
  std::string name;  // for messages; "": the emulator's own
  std::string arch;  // "sm_90a": refuses PTX that it cannot run; "": any `.target` will do
  uint64_t smem_bytes = 227 << 10;         // of a CTA
  uint64_t smem_bytes_per_sm = 228 << 10;  // of all CTAs of an SM …
  uint64_t smem_reserved_bytes = 1 << 10;  // … each of which takes that much on top
  uint64_t registers = 64 << 10;           // of an SM, and of a CTA
  uint32_t regs_per_thread = 255;          // at the launch, and by setmaxnreg (up to 256 then)
  uint32_t named_barriers = 16;            // of a CTA
  uint32_t threads_per_sm = 2048;
  uint32_t ctas_per_sm = 32;
  uint32_t sms = 132;
  bool clusters = true;
};

}  // namespace tilec::runtime
