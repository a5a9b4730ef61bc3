// SPDX-License-Identifier: Apache-2.0
#include "ir/arms.h"

#include <algorithm>
#include <set>

#include "ir/loop_plan.h"
#include "ir/queries.h"

namespace tilec::ir {
namespace {

void Collect(const Function& fn, BlockId block, std::vector<OpId>* out) {
  for (OpId id : fn.blocks[block].ops) {
    if (fn.ops[id].kind == OpKind::kYield) continue;
    out->push_back(id);
    for (BlockId region : fn.ops[id].regions) Collect(fn, region, out);
  }
}

void Captured(const Function& fn, OpId whole, BlockId block, std::set<ValueId>* seen,
              std::vector<ValueId>* out) {
  for (OpId id : fn.blocks[block].ops) {
    for (ValueId v : fn.ops[id].operands) {
      // A block of the op's own is reached from inside only.
      BlockId at = BlockOf(fn, v);
      bool inside = false;
      while (!inside && at.valid() && fn.blocks[at].parent.valid()) {
        inside = fn.blocks[at].parent == whole;
        at = fn.ops[fn.blocks[at].parent].block;
      }
      if (!inside && seen->insert(v).second) out->push_back(v);
    }
    for (BlockId region : fn.ops[id].regions) Captured(fn, whole, region, seen, out);
  }
}

}  // namespace

std::vector<ValueId> ReadBy(const Function& fn, OpId id) {
  std::vector<ValueId> reads = fn.ops[id].operands;
  std::set<ValueId> seen(reads.begin(), reads.end());
  for (BlockId region : fn.ops[id].regions) Captured(fn, id, region, &seen, &reads);
  return reads;
}

std::vector<OpId> OpsInside(const Function& fn, OpId id) {
  std::vector<OpId> ops;
  for (BlockId region : fn.ops[id].regions) Collect(fn, region, &ops);
  return ops;
}

OpId CloneWhole(Builder& b, Function& fn, OpId id, ValueMap& map) {
  const std::vector<BlockId> regions = fn.ops[id].regions;
  const OpId copy = CloneOp(b, fn, id, map);
  for (BlockId region : regions) {
    const BlockId block = fn.AddBlock(copy);
    fn.ops[copy].regions.push_back(block);
    const std::vector<ValueId> args = fn.blocks[region].args;
    for (ValueId arg : args) map[arg] = fn.AddArg(block, fn.type(arg), fn.values[arg].name);
    Builder inside(fn, block);
    const std::vector<OpId> ops = fn.blocks[region].ops;
    for (OpId op : ops) CloneWhole(inside, fn, op, map);
  }
  return copy;
}

void MarkRole(Function& fn, OpId id, int role) {
  if (fn.ops[id].regions.empty()) {
    fn.ops[id].set("role", int64_t{role});
    return;
  }
  for (OpId inside : OpsInside(fn, id))
    if (fn.ops[inside].regions.empty() && !IsReplicated(fn, fn.ops[inside]))
      fn.ops[inside].set("role", int64_t{role});
}

}  // namespace tilec::ir
