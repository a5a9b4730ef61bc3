// SPDX-License-Identifier: Apache-2.0
#include "scheduler/issue_together.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace tilec::scheduler {

namespace {

using ir::OpId;
using ir::OpKind;

// Is the value computed in this block from what `product` makes?
bool MadeOf(const ir::Function& fn, ir::ValueId v, OpId product) {
  const OpId def = fn.values[v].def;
  if (!fn.type(v).is_tile() || !def.valid()) return false;
  if (def == product) return true;
  const ir::Op& op = fn.ops[def];
  if (op.block != fn.ops[product].block || op.kind == OpKind::kLoad) return false;
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](ir::ValueId operand) { return MadeOf(fn, operand, product); });
}

}  // namespace

bool IssueTogether(const ir::Function& fn, OpId loop, ir::LoopSchedule* schedule) {
  constexpr int kWarpgroups = 2;
  if (schedule->warpgroups != kWarpgroups || schedule->ops.empty()) return false;
  std::vector<std::tuple<int64_t, size_t, OpId>> order;  // of an iteration
  const int role = schedule->ops.begin()->second.role;
  const std::vector<OpId>& body = fn.blocks[fn.ops[loop].regions[0]].ops;
  size_t products = 0;
  for (size_t rank = 0; rank < body.size(); ++rank) {
    const ir::Op& op = fn.ops[body[rank]];
    if (!op.regions.empty()) return false;
    if (op.kind == OpKind::kDot) ++products;
    const auto at = schedule->ops.find(body[rank]);
    if (at == schedule->ops.end()) continue;
    if (at->second.role != role) return false;
    order.emplace_back(at->second.cycle, rank, body[rank]);
  }
  std::sort(order.begin(), order.end());
  if (products != 2 || order.size() < 3) return false;
  const OpId first = std::get<OpId>(order.front()), last = std::get<OpId>(order.back());
  if (!schedule->in_flight.count(first) || !schedule->in_flight.count(last) ||
      !MadeOf(fn, fn.ops[last].operands[0], first))
    return false;
  // Slots: the first product, the last one of the iteration before, the rest.
  const auto n = static_cast<int64_t>(order.size());
  schedule->ii = 2 * n;
  for (int64_t i = 0; i < n; ++i) {
    int64_t& cycle = schedule->ops.at(std::get<OpId>(order[static_cast<size_t>(i)])).cycle;
    cycle = i + 1 < n ? schedule->ii + 2 * i : 2 * schedule->ii + 1;
  }
  return true;
}

}  // namespace tilec::scheduler
