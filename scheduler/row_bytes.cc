// SPDX-License-Identifier: Apache-2.0
#include "scheduler/row_bytes.h"

#include <algorithm>

#include "ir/lower/slides.h"

namespace tilec::scheduler {

double FarBytes(const ir::WorkCount& work, const ir::Target& target, int64_t together) {
  const auto instances = static_cast<double>(std::max<int64_t>(1, work.instances));
  const double share = std::min(1.0, static_cast<double>(together) / instances);
  const double held = share * (work.least_bytes - work.stored_bytes);
  const bool holds =
      held <= (1 - target.model.l2_others_share) * static_cast<double>(target.limits.l2_bytes);
  return holds ? std::min(work.least_bytes, work.far_bytes) : work.far_bytes;
}

double NearBytes(const ir::Function& fn, const ir::TargetModel& model, const ir::WorkCount& work,
                 double far) {
  const bool threads = std::any_of(fn.ops.begin(), fn.ops.end(),
                                   [&](const ir::Op& op) { return ir::BeginsAnywhere(fn, op); });
  return threads ? (work.loaded_bytes + work.stored_bytes) / model.near_rate_times +
                       model.near_again_share * std::max(0.0, far - work.least_bytes)
                 : 0;
}

}  // namespace tilec::scheduler
