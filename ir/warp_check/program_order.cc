// In which order the walk prefers the roles, and which branches one role has alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

// A role that fills a buffer stands above those that read it, as far as that is no circle.
void Program::FindOrder() {
  std::vector<std::set<ValueId>> fills(roles.size()), reads(roles.size());
  // So does a role whose products others load from tensor memory.
  const auto uses = [&](size_t r, OpKind kind) {
    bool any = false;
    WalkOps(fn, roles[r].body, [&](OpId id) { any = any || fn.ops[id].kind == kind; });
    return any;
  };
  for (size_t r = 1; r < roles.size(); ++r)
    WalkOps(fn, roles[r].body, [&](OpId id) {
      const Op& op = fn.ops[id];
      const bool fill = op.kind == OpKind::kTmaLoad || op.kind == OpKind::kCpLoad ||
                        op.kind == OpKind::kSmemStore || op.kind == OpKind::kSmemZero;
      for (ValueId v : op.operands)
        if (buffers.count(v)) (fill ? fills : reads)[r].insert(v);
      const TensorBase base = TensorBaseOf(fn, op);
      if (!base.allocation.valid()) return;
      const bool issues = op.kind == OpKind::kTcMma && !uses(r, OpKind::kTmemLoad);
      const bool loads = op.kind == OpKind::kTmemLoad && !uses(r, OpKind::kTcMma);
      if (issues || loads) (issues ? fills : reads)[r].insert(fn.ops[base.allocation].results[0]);
    });
  std::vector<size_t> level(roles.size(), 0);
  for (size_t round = 1; round < roles.size(); ++round)
    for (size_t from = 1; from < roles.size(); ++from)
      for (size_t to = 1; to < roles.size(); ++to) {
        const bool feeds = from != to && std::any_of(fills[from].begin(), fills[from].end(),
                                                     [&](ValueId v) { return reads[to].count(v); });
        if (feeds && level[from] < round) level[to] = std::max(level[to], level[from] + 1);
      }
  for (size_t r = 0; r < roles.size(); ++r) consumers_first.push_back(static_cast<int>(r));
  std::stable_sort(consumers_first.begin(), consumers_first.end(), [&](int a, int b) {
    return level[static_cast<size_t>(a)] > level[static_cast<size_t>(b)];
  });
}

// Others have the loop, if not the branch around it.
bool Program::HoldsLoop(const Op& op) const {
  bool loop = false;
  for (BlockId region : op.regions)
    WalkOps(fn, region, [&](OpId id) { loop = loop || IsLoop(fn.ops[id].kind); });
  return loop;
}

void Program::FindLonely() {
  using Place = std::array<int64_t, 6>;  // of the branch and of what it asks
  std::map<Place, std::set<size_t>> at;
  std::vector<std::pair<OpId, Place>> branches;
  for (size_t role = 1; role < roles.size(); ++role)
    WalkOps(fn, roles[role].body, [&](OpId id) {
      const Op& op = fn.ops[id];
      const Op* asks = op.kind == OpKind::kIf ? fn.def(op.operands[0]) : nullptr;
      if (!asks || !op.at.known() || HoldsLoop(op)) return;
      const Place place = {op.at.file,    op.at.begin,    op.at.end,
                           asks->at.file, asks->at.begin, static_cast<int64_t>(asks->kind)};
      at[place].insert(role);
      branches.push_back({id, place});
    });
  for (const auto& [id, place] : branches)
    if (at[place].size() == 1) lonely.insert(id);
}

}  // namespace tilec::ir::warp_check
