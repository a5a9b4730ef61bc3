// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/copies_first.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "ir/lower/operands.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

constexpr int64_t kMostOfVector = 256;  // elements: two to four registers of a thread

bool IsTileLoad(const Function& fn, const Op& op) {
  return op.kind == OpKind::kLoad && fn.type(op.results[0]).is_tile() &&
         !fn.type(op.results[0]).is_scalar();
}

class Mover {
 public:
  Mover(Function& fn, OpId grid)
      : fn_(fn),
        ops_(fn.blocks[fn.ops[grid].regions[0]].ops),
        shares_(fn.ops[grid].i("cluster", 1) > 1) {}

  void Run() {
    const auto first = std::find_if(ops_.begin(), ops_.end(), [&](OpId id) {
      return IsTileLoad(fn_, fn_.ops[id]) && !Copies(fn_.ops[id]);
    });
    const auto copy = std::find_if(first, ops_.end(), [&](OpId id) { return Copies(fn_.ops[id]); });
    if (copy == ops_.end()) return;
    behind_ = std::set<OpId>(first, ops_.end());
    std::vector<OpId> now(ops_.begin(), first);
    Take(copy, now, [&](const Op& op) { return Copies(op); });
    if (shares_) Take(first, now, [&](const Op& op) { return IsVector(op); });
    std::copy_if(first, ops_.end(), std::back_inserter(now),
                 [&](OpId id) { return behind_.count(id) > 0; });
    ops_ = std::move(now);
  }

 private:
  // The first load of a kept row, which a copy brings.
  static bool Copies(const Op& op) {
    return op.kind == OpKind::kLoad && op.attr("kept") != nullptr && op.i("kept") == 0;
  }
  bool IsVector(const Op& op) const {
    return IsTileLoad(fn_, op) && op.attr("kept") == nullptr && IsReadOnlyLoad(fn_, op) &&
           fn_.type(op.results[0]).elements() <= kMostOfVector;
  }

  // Each with the scalars that say where it lies; not, if something else does.
  template <class Which>
  void Take(std::vector<OpId>::iterator from, std::vector<OpId>& to, Which which) {
    std::set<OpId> taken;
    for (auto at = from; at != ops_.end(); ++at) {
      std::set<OpId> with;
      if (which(fn_.ops[*at]) && Scalars(*at, with)) taken.insert(with.begin(), with.end());
    }
    for (OpId id : ops_)
      if (taken.count(id) > 0) to.push_back(id), behind_.erase(id);
  }
  bool Scalars(OpId id, std::set<OpId>& with) const {
    if (behind_.count(id) == 0 || !with.insert(id).second) return true;
    return std::all_of(fn_.ops[id].operands.begin(), fn_.ops[id].operands.end(), [&](ValueId v) {
      const OpId def = fn_.values[v].def;
      if (!def.valid() || behind_.count(def) == 0) return true;
      const Op& op = fn_.ops[def];
      return Info(op.kind).effect == OpEffect::kPure && op.regions.empty() &&
             fn_.type(op.results[0]).is_scalar() && Scalars(def, with);
    });
  }

  Function& fn_;
  std::vector<OpId>& ops_;
  const bool shares_;
  std::set<OpId> behind_;  // from the first load by threads on, but for what was taken
};

}  // namespace

void CopiesFirst(Function& fn, OpId grid) { Mover(fn, grid).Run(); }

}  // namespace tilec::ir
