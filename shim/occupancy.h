// What both interfaces answer about occupancy. Registers are not known without an assembler: where
// the program says no bound, 32 of a thread are assumed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "shim/process.h"

namespace tilec::shim {

// A function whose block is open, with shared memory of `bytes`(threads), or `dynamic` where that
// is null.
struct OpenBlock {
  Function* f;
  size_t (*bytes)(int);
  size_t dynamic;
  int limit;  // threads; 0: the function's
};

inline Code BestBlock(Process& p, const OpenBlock& open, int* grid, int* block) {
  int most = 0;
  p.GetAttribute(open.f, 0, &most);
  if (open.limit > 0) most = std::min(most, open.limit);
  int best = 0;
  *grid = *block = 0;
  for (int threads = most / 32 * 32; threads >= 32; threads -= 32) {
    const size_t bytes = open.bytes != nullptr ? open.bytes(threads) : open.dynamic;
    const int blocks = p.BlocksPerSm(open.f, threads, bytes);
    if (blocks * threads <= best) continue;
    best = blocks * threads;
    *block = threads;
    *grid = blocks * static_cast<int>(p.machine().sms);
  }
  return best > 0 ? kOk : kInvalidValue;
}

inline size_t DynamicFor(const Process& p, const Function* f, int blocks) {
  const runtime::MachineLimits& m = p.machine();
  const uint64_t each = m.smem_bytes_per_sm / static_cast<uint64_t>(blocks);
  const uint64_t fixed = f->facts.shared_bytes + m.smem_reserved_bytes;
  return each < fixed ? 0 : std::min(each - fixed, m.smem_bytes - f->facts.shared_bytes);
}

inline int ClustersAtATime(const Process& p, const Function* f, Dim3 block, uint64_t dynamic,
                           const KernelWork& work) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const uint64_t ctas = std::max<uint64_t>(
      1, uint64_t{work.config.cluster[0]} * work.config.cluster[1] * work.config.cluster[2]);
  if (threads == 0 || threads > 1024 || ctas > (f->non_portable ? 16u : 8u)) return 0;
  const int blocks = p.BlocksPerSm(f, static_cast<int>(threads), dynamic);
  return static_cast<int>(static_cast<uint64_t>(blocks) * p.machine().sms / ctas);
}

}  // namespace tilec::shim
