// CTAs that are neighbours along the grid's first range often load the same tiles: those whose
// place does not depend on that range. In a cluster each CTA copies a part of such a tile into the
// shared memory of all, so that the L2 delivers it once instead of once per CTA. This pass says
// which loads those are; how they are copied is decided where loads become copies.
//
//     parallel i in lo..hi step s, … { … load B[j, k] … store C[i, j] }   →
//     parallel {cluster = 2} i in lo..lo + roundup(hi - lo, 2·s) step s, …
//         { … load {shared = 1} B[j, k] … if i < hi { store C[i, j] } }
//
// A cluster is whole, so the range is rounded up. A CTA without a tile runs the same loop, since
// its neighbour counts on its part of the copies; its own loads lie outside of their tensors, where
// they give the fill, and it stores nothing.
//
// Both must make the same copies in the same order: a load is shared only if no loop or branch
// around it depends on the range.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/cluster_tiles.h"

#include <algorithm>
#include <vector>

#include "ir/lower/scalars.h"
#include "ir/passes/cluster_values.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

class Cluster {
 public:
  Cluster(Function& fn, int64_t ctas, bool clips) : fn_(fn), ctas_(ctas), clips_(clips) {}

  std::optional<Obstacle> Run() {
    for (OpId id : fn_.blocks[fn_.body].ops)
      if (fn_.ops[id].kind == OpKind::kParallel) grid_ = id;
    if (!grid_.valid() || fn_.ops[grid_].operands.empty()) return Obstacle{"it has no grid", {}};
    const BlockId body = fn_.ops[grid_].regions[0];
    values_.emplace(fn_, grid_);
    FindShared(body, false);
    if (shared_.empty())
      return Obstacle{
          "no tile that a loop loads is the same for neighbours along the first range of the grid",
          fn_.ops[grid_].at};
    const bool whole = Whole();
    if (!whole && !HarmlessOutside(body))
      return Obstacle{
          "a CTA without a tile, where the grid is not a multiple of a cluster, would "
          "not go unnoticed",
          fn_.ops[grid_].at};
    for (OpId id : shared_) fn_.ops[id].set("shared", int64_t{1});
    fn_.ops[grid_].set("cluster", ctas_);
    if (!whole) RoundUp();
    return std::nullopt;
  }

 private:
  bool Differs(ValueId v) const { return values_->Differs(v); }
  bool AnyDiffers(const std::vector<ValueId>& values) const {
    return std::any_of(values.begin(), values.end(), [&](ValueId v) { return Differs(v); });
  }

  void FindShared(BlockId block, bool in_loop) {
    for (OpId id : fn_.blocks[block].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kLoad && in_loop && IsReadOnlyLoad(fn_, op) &&
          fn_.type(op.results[0]).rank() == 2 && !AnyDiffers(op.operands))
        shared_.push_back(id);
      const bool same = op.kind == OpKind::kFor
                            ? !Differs(op.operands[0]) && !Differs(op.operands[1])
                        : op.kind == OpKind::kIf ? !Differs(op.operands[0])
                                                 : false;
      if (!same) continue;
      for (BlockId region : op.regions) FindShared(region, in_loop || op.kind == OpKind::kFor);
    }
  }

  ValueId Low() const { return fn_.ops[grid_].operands[0]; }
  ValueId High() const { return fn_.ops[grid_].operands[1]; }
  int64_t Step() const { return fn_.ops[grid_].ints("steps")[0]; }

  // The range is known to be a multiple of the cluster.
  bool Whole() const {
    const int64_t* low = IntConstantOf(fn_, Low());
    const int64_t* high = IntConstantOf(fn_, High());
    if (low && high) return (*high - *low) > 0 && (*high - *low + Step() - 1) / Step() % ctas_ == 0;
    return low && *low == 0 && AlignOf(fn_, High()) % (ctas_ * Step()) == 0;
  }

  // Would nobody notice a CTA whose place along the first range is outside?
  bool HarmlessOutside(BlockId block) const {
    return std::all_of(fn_.blocks[block].ops.begin(), fn_.blocks[block].ops.end(), [&](OpId id) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kLoad) {  // only ranges may lie outside of their tensors
        const std::string& modes = op.s("modes");
        for (size_t d = 0; d < modes.size(); ++d)
          if (!IsRange(modes[d]) && Differs(op.operands[1 + d])) return false;
        return true;
      }
      const bool effect = Info(op.kind).effect == OpEffect::kWrite;
      if (effect && (op.kind != OpKind::kStore || !op.results.empty())) return false;
      if (op.kind == OpKind::kWhile || op.kind == OpKind::kAssert) return false;
      return std::all_of(op.regions.begin(), op.regions.end(),
                         [&](BlockId region) { return HarmlessOutside(region); });
    });
  }

  void RoundUp() {
    // In front of the grid: where the range now ends.
    std::vector<OpId>& top = fn_.blocks[fn_.body].ops;
    const auto place = std::find(top.begin(), top.end(), grid_);
    const std::vector<OpId> tail(place, top.end());
    top.erase(place, top.end());
    Builder b(fn_, fn_.body);
    b.SetSpan(fn_.ops[grid_].at);
    const ValueId low = Low(), high = High(), group = b.Int(ctas_ * Step());
    const ValueId length = b.Binary(OpKind::kSub, high, low);
    const ValueId more = b.Binary(OpKind::kAdd, length, b.Int(ctas_ * Step() - 1));
    const ValueId groups = b.Binary(OpKind::kDiv, more, group);
    const ValueId end = b.Binary(OpKind::kAdd, low, b.Binary(OpKind::kMul, groups, group));
    std::vector<OpId>& now = fn_.blocks[fn_.body].ops;
    now.insert(now.end(), tail.begin(), tail.end());
    fn_.ops[grid_].operands[1] = end;

    const BlockId body = fn_.ops[grid_].regions[0];
    Guard(body, fn_.blocks[body].args[0], high);
  }

  // Does the store, as it is, write nothing where there is no tile? Its rows begin with the tile's
  // and end with the range.
  bool Clips(const Op& store, ValueId at, ValueId high) const {
    const std::string& modes = store.s("modes");
    for (size_t d = 0, operand = 2; d < modes.size(); operand += OperandsOf(modes[d], true), ++d) {
      if (!IsRange(modes[d]) || store.operands[operand] != at) continue;
      const Op* end = fn_.def(store.operands[operand + 1]);
      if (end && end->kind == OpKind::kMin &&
          std::count(end->operands.begin(), end->operands.end(), high) > 0)
        return true;
    }
    return false;
  }

  // Stores only where there is a tile.
  void Guard(BlockId block, ValueId at, ValueId high) {
    for (OpId id : std::vector<OpId>(fn_.blocks[block].ops))
      for (BlockId region : std::vector<BlockId>(fn_.ops[id].regions)) Guard(region, at, high);
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      if (fn_.ops[id].kind != OpKind::kStore || (clips_ && Clips(fn_.ops[id], at, high))) {
        out.push_back(id);
        return;
      }
      Builder b(fn_, block);
      b.SetSpan(fn_.ops[id].at);
      const ValueId inside = b.Cmp("lt", at, high);
      const OpId branch = b.Add(OpKind::kIf, {inside}, {});
      out.insert(out.end(), {fn_.values[inside].def, branch});
      for (bool store : {true, false}) {
        const BlockId arm = fn_.AddBlock(branch);
        fn_.ops[branch].regions.push_back(arm);
        if (store) {
          fn_.blocks[arm].ops.push_back(id);
          fn_.ops[id].block = arm;
        }
        Builder(fn_, arm).Yield({});
      }
    });
  }

  Function& fn_;
  const int64_t ctas_;
  const bool clips_;
  OpId grid_;
  std::optional<ClusterValues> values_;
  std::vector<OpId> shared_;
};

}  // namespace

std::optional<Obstacle> ClusterTiles(Function& fn, int64_t ctas, bool clips) {
  return Cluster(fn, ctas, clips).Run();
}

}  // namespace tilec::ir
