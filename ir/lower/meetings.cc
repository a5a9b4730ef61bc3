// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/meetings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/layout_scratch.h"
#include "ir/loop_plan.h"
#include "ir/lower/scalars.h"
#include "ir/plan_text.h"
#include "ir/queries.h"

namespace tilec::ir {

// (Softmax of 49032 bf16 in six tiles of 16 elements a thread, all held: 127 registers, and one CTA
// of an SM.)
std::vector<OpId> MeetTogether(const Function& fn, BlockId block,
                               const std::function<bool(OpId)>& meets,
                               const std::function<int64_t(OpId)>& holds) {
  const std::vector<OpId>& ops = fn.blocks[block].ops;
  std::map<OpId, int> waits;  // reductions one behind the other that an op waits for
  struct Group {
    std::vector<OpId> ops;
    int64_t held = 0;
  };
  std::vector<Group> groups;
  std::map<int, size_t> last;      // of those that wait for so many
  std::map<OpId, size_t> group_of;
  const auto here = [&](ValueId v) {
    const OpId def = fn.values[v].def;
    return def.valid() && fn.ops[def].block == block ? def : OpId();
  };
  for (OpId id : ops) {
    int& level = waits[id];
    for (ValueId v : fn.ops[id].operands)
      if (const OpId def = here(v); def.valid())
        level = std::max(level, waits[def] + (meets(def) ? 1 : 0));
    if (!meets(id)) continue;
    const int64_t held = holds(id);
    const auto [it, fresh] = last.try_emplace(level, groups.size());
    if (fresh || (held > 0 && groups[it->second].held + held > kMostHeldTogether)) {
      it->second = groups.size();
      groups.emplace_back();
    }
    groups[it->second].ops.push_back(id);
    groups[it->second].held += held;
    group_of[id] = it->second;
  }
  if (std::none_of(groups.begin(), groups.end(), [](const Group& g) { return g.ops.size() > 1; }))
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
    const std::vector<OpId>& together = groups[group_of.at(id)].ops;
    for (OpId one : together)
      for (ValueId v : fn.ops[one].operands)
        if (const OpId def = here(v); def.valid()) need(def);
    for (OpId one : together)
      if (done.insert(one).second) order.push_back(one);
  }
  return moves ? order : ops;
}

std::vector<OpId> MeetTogether(const Function& fn, BlockId block, const LayoutPlan& tiles) {
  return MeetTogether(
      fn, block, [&](OpId id) { return MeetsAcrossWarps(fn, tiles, id); },
      [&](OpId id) { return HeldAcross(fn, tiles, id); });
}

bool MeetsAcrossWarps(const Function& fn, const LayoutPlan& tiles, OpId id) {
  const Op& op = fn.ops[id];
  if (op.kind != OpKind::kReduce && op.kind != OpKind::kArgReduce) return false;
  const auto layout = tiles.layouts.find(op.operands[0]);
  const int axis = SqueezedDim(fn.type(op.operands[0]).shape, op.i("axis"));
  return layout != tiles.layouts.end() && axis >= 0 &&
         !PlanReduce(layout->second, axis).cross.empty();
}

int64_t HeldAcross(const Function& fn, const LayoutPlan& tiles, OpId id) {
  const ValueId tile = fn.ops[id].operands[0];
  const Op* def = fn.def(tile);
  while (def && def->kind != OpKind::kLoad && def->operands.size() == 1)
    def = fn.def(def->operands[0]);
  if (!def || def->kind != OpKind::kLoad || !def->attr("kept")) return 0;
  int uses = 0;
  for (const Op& op : fn.ops)
    uses += static_cast<int>(std::count(op.operands.begin(), op.operands.end(), tile));
  return uses > 1 ? fn.type(tile).elements() / tiles.threads() : 0;
}

std::vector<PlannedChange> PlacesLeft(const Function& fn, const LayoutPlan& tiles) {
  std::vector<PlannedChange> left;
  const OpNames names(fn);
  const auto meets = [&](OpId id) { return MeetsAcrossWarps(fn, tiles, id); };
  std::set<BlockId> seen;
  for (OpId id : OpsInOrder(fn)) {
    const BlockId block = fn.ops[id].block;
    if (!seen.insert(block).second) continue;
    const std::vector<OpId>& before = fn.blocks[block].ops;
    const std::vector<OpId> after = MeetTogether(fn, block, tiles);
    const auto places = [](const std::vector<OpId>& ops) {
      std::map<OpId, std::ptrdiff_t> at;
      for (size_t i = 0; i < ops.size(); ++i) at[ops[i]] = static_cast<std::ptrdiff_t>(i);
      return at;
    };
    const auto from = places(before), to = places(after);
    const auto note = [&](OpId op, const std::string& why) {
      left.push_back({names[op] + ".place", from.at(op), to.at(op), why});
    };
    // Does it stand in front of what stood in front of it?
    const auto overtakes = [&](size_t i) {
      return std::any_of(after.begin() + static_cast<std::ptrdiff_t>(i), after.end(), [&](OpId op) {
        return !meets(op) && from.at(op) < from.at(after[i]);
      });
    };
    std::map<OpId, OpId> reader;  // of ops that reductions read: the first one
    std::vector<std::string> whys(after.size());
    for (size_t i = after.size(); i-- > 0;) {
      const Op& op = fn.ops[after[i]];
      const OpId first = meets(after[i]) ? after[i] : reader[after[i]];
      if (!first.valid()) continue;
      for (ValueId v : op.operands) reader[fn.values[v].def] = first;
      if (first != after[i] && !IsReplicated(fn, op) && overtakes(i))
        whys[i] = fmt::format("with_{}", names[first]);
    }
    for (size_t i = 0; i < after.size(); ++i) {
      if (!whys[i].empty()) note(after[i], whys[i]);
      if (from.at(after[i]) == static_cast<std::ptrdiff_t>(i) || !meets(after[i])) continue;
      const bool behind = i > 0 && meets(after[i - 1]);
      if (!behind && (i + 1 == after.size() || !meets(after[i + 1]))) continue;
      note(after[i], fmt::format("{}_{}_for_one_barrier", behind ? "behind" : "in_front_of",
                                 names[after[behind ? i - 1 : i + 1]]));
    }
  }
  return left;
}

}  // namespace tilec::ir
