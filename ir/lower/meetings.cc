// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/meetings.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/queries.h"

namespace tilec::ir {

std::vector<OpId> MeetTogether(const Function& fn, BlockId block,
                               const std::function<bool(OpId)>& meets) {
  const std::vector<OpId>& ops = fn.blocks[block].ops;
  std::map<OpId, int> waits;  // reductions one behind the other that an op waits for
  std::map<int, std::vector<OpId>> groups;
  const auto here = [&](ValueId v) {
    const OpId def = fn.values[v].def;
    return def.valid() && fn.ops[def].block == block ? def : OpId();
  };
  for (OpId id : ops) {
    int& level = waits[id];
    for (ValueId v : fn.ops[id].operands)
      if (const OpId def = here(v); def.valid())
        level = std::max(level, waits[def] + (meets(def) ? 1 : 0));
    if (meets(id)) groups[level].push_back(id);
  }
  if (std::none_of(groups.begin(), groups.end(), [](const auto& g) { return g.second.size() > 1; }))
    return ops;
  std::vector<OpId> order;
  std::set<OpId> done;
  bool moves = true;
  const std::function<void(OpId)> need = [&](OpId id) {
    if (done.count(id)) return;
    const Op& op = fn.ops[id];
    const bool free =
        op.regions.empty() && (Info(op.kind).effect == OpEffect::kPure || IsReadOnlyLoad(fn, op));
    moves = moves && free;
    for (ValueId v : op.operands)
      if (const OpId def = here(v); def.valid()) need(def);
    if (done.insert(id).second) order.push_back(id);
  };
  for (OpId id : ops) {
    if (done.count(id)) continue;
    if (!meets(id)) {
      done.insert(id);
      order.push_back(id);
      continue;
    }
    const std::vector<OpId>& together = groups[waits[id]];
    for (OpId one : together)
      for (ValueId v : fn.ops[one].operands)
        if (const OpId def = here(v); def.valid()) need(def);
    for (OpId one : together)
      if (done.insert(one).second) order.push_back(one);
  }
  return moves ? order : ops;
}

}  // namespace tilec::ir
