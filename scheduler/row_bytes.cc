// SPDX-License-Identifier: Apache-2.0
#include "scheduler/row_bytes.h"

#include <algorithm>

#include "ir/lower/slides.h"

namespace tilec::scheduler {

// (H200: layernorm 2010x128607 by one CTA a row, 68 MB at a time, 805 us, by two, 34 MB, 625;
// rmsnorm 7532x55337, 29 MB, 654 and 750.)
double FarBytes(const ir::WorkCount& work, const ir::Target& target, int64_t together) {
  constexpr double kOthers = 0.35;  // of an L2: what is written, and vectors
  const auto instances = static_cast<double>(std::max<int64_t>(1, work.instances));
  const double share = std::min(1.0, static_cast<double>(together) / instances);
  const double held = share * (work.least_bytes - work.stored_bytes);
  const bool holds = held <= (1 - kOthers) * static_cast<double>(target.limits.l2_bytes);
  return holds ? std::min(work.least_bytes, work.far_bytes) : work.far_bytes;
}

// (H200, norms of 55337 to 192277 odd columns in five forms: 6.2 to 6.6 TB/s, of 4.3 from memory;
// of 86352 columns, which copies bring, 9.1. Half of what comes from memory again adds to that:
// layernorm 2010x128607 646 and 239 us of it, 805 as timed, rmsnorm 4431x81607 564, 167 and 637.)
double NearBytes(const ir::Function& fn, const ir::WorkCount& work, double far) {
  constexpr double kNearer = 1.48, kAgain = 0.5;
  const bool threads = std::any_of(fn.ops.begin(), fn.ops.end(),
                                   [&](const ir::Op& op) { return ir::BeginsAnywhere(fn, op); });
  return threads ? (work.loaded_bytes + work.stored_bytes) / kNearer +
                       kAgain * std::max(0.0, far - work.least_bytes)
                 : 0;
}

}  // namespace tilec::scheduler
