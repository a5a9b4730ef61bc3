// SPDX-License-Identifier: Apache-2.0
#include "scheduler/row_bytes.h"

#include <algorithm>

#include "ir/lower/slides.h"
#include "ir/queries.h"

namespace tilec::scheduler {

namespace {
// Does a loop begin at the end of what it walks over? Its places are a number less its position
// (ir/passes/walk_back.cc).
bool WalksBack(const ir::Function& fn) {
  return std::any_of(fn.ops.begin(), fn.ops.end(), [&](const ir::Op& op) {
    if (op.kind != ir::OpKind::kSub || !ir::IntConstantOf(fn, op.operands[0])) return false;
    const ir::OpId loop = fn.blocks[op.block].parent;
    return loop.valid() && fn.ops[loop].kind == ir::OpKind::kFor &&
           fn.blocks[op.block].args[0] == op.operands[1];
  });
}
}  // namespace

double FarBytes(const ir::Function& fn, const ir::WorkCount& work, const ir::Target& target,
                int64_t together) {
  const auto instances = static_cast<double>(std::max<int64_t>(1, work.instances));
  const double share = std::min(1.0, static_cast<double>(together) / instances);
  const double held = share * (work.least_bytes - work.stored_bytes);
  const double room =
      (1 - target.model.l2_others_share) * static_cast<double>(target.limits.l2_bytes);
  const double again = std::max(0.0, work.far_bytes - work.least_bytes);
  if (held <= room) return work.far_bytes - again;
  return work.far_bytes - (WalksBack(fn) ? room / held : 0) * again;
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
