// SPDX-License-Identifier: Apache-2.0
#include "scheduler/issue_together.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace tilec::scheduler {

namespace {

using ir::OpId;
using ir::OpKind;

// Is the value computed in this block from what `maker` makes?
bool ComesFrom(const ir::Function& fn, ir::ValueId v, OpId maker) {
  const OpId def = fn.values[v].def;
  if (!fn.type(v).is_tile() || !def.valid()) return false;
  if (def == maker) return true;
  const ir::Op& op = fn.ops[def];
  if (op.block != fn.ops[maker].block || op.kind == OpKind::kLoad) return false;
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](ir::ValueId operand) { return ComesFrom(fn, operand, maker); });
}

// The ops of an iteration of the only role in the order of their cycles; empty: there are branches,
// several roles, or not two products.
std::vector<OpId> OrderOf(const ir::Function& fn, OpId loop, const ir::LoopSchedule& schedule) {
  std::vector<std::tuple<int64_t, size_t, OpId>> order;
  const std::vector<OpId>& body = fn.blocks[fn.ops[loop].regions[0]].ops;
  size_t products = 0;
  for (size_t rank = 0; rank < body.size(); ++rank) {
    const ir::Op& op = fn.ops[body[rank]];
    if (!op.regions.empty()) return {};
    products += op.kind == OpKind::kDot;
    const auto at = schedule.ops.find(body[rank]);
    if (at == schedule.ops.end()) continue;
    if (at->second.role != schedule.ops.begin()->second.role) return {};
    order.emplace_back(at->second.cycle, rank, body[rank]);
  }
  if (products != 2) return {};
  std::sort(order.begin(), order.end());
  std::vector<OpId> ops;
  for (const auto& [cycle, rank, id] : order) ops.push_back(id);
  return ops;
}

constexpr int kWarpgroups = 2;

}  // namespace

bool TurnsOverlap(const ir::Function& fn, OpId loop, const ir::LoopSchedule& schedule) {
  const std::vector<OpId> order = OrderOf(fn, loop, schedule);
  if (schedule.warpgroups != kWarpgroups || order.size() < 3 || schedule.ii <= 0) return false;
  const OpId first = order.front(), last = order.back();
  if (!schedule.in_flight.count(first) || !schedule.in_flight.count(last)) return false;
  const int64_t turn = (schedule.ops.at(last).cycle - schedule.ops.at(first).cycle) % schedule.ii;
  return kWarpgroups * turn > schedule.ii;
}

bool IssueTogether(const ir::Function& fn, OpId loop, OpId longest, ir::LoopSchedule* schedule) {
  const std::vector<OpId> order = OrderOf(fn, loop, *schedule);
  if (schedule->warpgroups != kWarpgroups || order.size() < 3) return false;
  const OpId first = order.front(), last = order.back();
  const auto cut = std::find(order.begin() + 1, order.end() - 1, longest);
  if (!schedule->in_flight.count(first) || !schedule->in_flight.count(last) ||
      cut == order.end() - 1 || !ComesFrom(fn, fn.ops[last].operands[0], first))
    return false;
  // Behind the longest op: what the last product adds to, and the rest.
  std::vector<OpId> turn, rest;
  for (auto it = cut + 1; it != order.end() - 1; ++it)
    (ComesFrom(fn, fn.ops[last].operands[2], *it) ? turn : rest).push_back(*it);
  turn.push_back(first);
  turn.insert(turn.end(), rest.begin(), rest.end());
  turn.push_back(last);
  turn.insert(turn.end(), order.begin() + 1, cut + 1);
  schedule->ii = static_cast<int64_t>(turn.size());
  for (size_t slot = 0; slot < turn.size(); ++slot) {
    const auto at = std::find(order.begin(), order.end(), turn[slot]);
    const int64_t stage = at <= cut ? 1 : 2;
    schedule->ops.at(turn[slot]).cycle = stage * schedule->ii + static_cast<int64_t>(slot);
  }
  return true;
}

}  // namespace tilec::scheduler
