// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/sink_masks.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/uses.h"

namespace tilec::ir {

namespace {

class Sinker {
 public:
  Sinker(Function* fn, const Uses& uses, BlockId block) : fn_(*fn), uses_(uses), block_(block) {
    for (OpId id : fn_.blocks[block].ops)
      if (IsOfIndices(fn_.ops[id])) of_indices_.insert(id);
  }

  // From the last on: readers are where they stay.
  void Run() {
    std::vector<OpId>& ops = fn_.blocks[block_].ops;
    const std::vector<OpId> order = ops;
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (!of_indices_.count(*id)) continue;
      const auto at = std::find(ops.begin(), ops.end(), *id);
      const auto reader = std::find_if(at + 1, ops.end(),
                                       [&](OpId other) { return Readers(*id).count(other) > 0; });
      const bool past_load = std::any_of(
          at, reader, [&](OpId other) { return fn_.ops[other].kind == OpKind::kTmemLoad; });
      if (reader != ops.end() && past_load) std::rotate(at, at + 1, reader);
    }
  }

 private:
  // Of what lies in other blocks nothing is moved: it stays alive anyway.
  bool IsOfIndices(const Op& op) const {
    if (op.results.size() != 1 || !op.regions.empty()) return false;
    const Type& type = fn_.type(op.results[0]);
    if (!type.is_tile() || (type.dtype != DType::kBool && !IsInteger(type.dtype))) return false;
    if (op.kind != OpKind::kWarpIota && op.kind != OpKind::kWarpBroadcast &&
        op.kind != OpKind::kConstant && !Info(op.kind).elementwise())
      return false;
    return std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
      const OpId def = fn_.values[v].def;
      return !fn_.type(v).is_tile() || !def.valid() || fn_.ops[def].block != block_ ||
             of_indices_.count(def) > 0;
    });
  }

  // The ops of the block that read it, in their regions too.
  const std::set<OpId>& Readers(OpId id) {
    const auto [it, fresh] = readers_.try_emplace(id);
    if (!fresh) return it->second;
    for (const Uses::Use& use : uses_.of(fn_.ops[id].results[0])) {
      OpId reader = use.reader;
      while (fn_.ops[reader].block != block_) reader = fn_.blocks[fn_.ops[reader].block].parent;
      it->second.insert(reader);
    }
    return it->second;
  }

  Function& fn_;
  const Uses& uses_;
  BlockId block_;
  std::set<OpId> of_indices_;
  std::map<OpId, std::set<OpId>> readers_;
};

}  // namespace

void SinkMasks(Function* warps) {
  std::set<BlockId> blocks;
  for (OpId id : OpsInOrder(*warps))
    if (warps->ops[id].kind == OpKind::kTmemLoad) blocks.insert(warps->ops[id].block);
  const Uses uses(*warps);
  for (BlockId block : blocks) Sinker(warps, uses, block).Run();
}

}  // namespace tilec::ir
