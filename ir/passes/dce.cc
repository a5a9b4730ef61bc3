// Dead code: an op stays if it writes, or if somebody needs a result of it. A carried value of a
// loop stays if its result or its argument is needed, and then what feeds it is; an op with regions
// stays if anything in them does.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

struct UsedOps {
  Function& fn;
  std::vector<uint8_t> ops, values;
  std::vector<ValueId> work;

  explicit UsedOps(Function& f)
      : fn(f),
        ops(static_cast<size_t>(f.ops.size()), 0),
        values(static_cast<size_t>(f.values.size()), 0) {}

  void Need(ValueId v) {
    if (values[static_cast<size_t>(v.index)]++) return;
    work.push_back(v);
  }
  const Op& YieldOf(BlockId block) const { return fn.ops[fn.blocks[block].ops.back()]; }

  void Keep(OpId id) {
    if (ops[static_cast<size_t>(id.index)]) return;
    ops[static_cast<size_t>(id.index)] = 1;
    const Op& op = fn.ops[id];
    if (const OpId parent = fn.blocks[op.block].parent; parent.valid()) Keep(parent);
    if (op.kind == OpKind::kYield) return;  // values are needed one by one
    if (op.kind == OpKind::kFor) {
      Need(op.operands[0]);
      Need(op.operands[1]);
    } else if (op.kind == OpKind::kWhile) {
      Need(YieldOf(op.regions[0]).operands[0]);
    } else {
      for (ValueId v : op.operands) Need(v);
    }
    for (BlockId region : op.regions)
      if (!fn.blocks[region].ops.empty() &&
          fn.ops[fn.blocks[region].ops.back()].kind == OpKind::kYield)
        Keep(fn.blocks[region].ops.back());
  }

  // Carried value `slot` of a loop, or result `slot` of an if.
  void NeedSlot(OpId id, size_t slot) {
    Keep(id);
    const Op& op = fn.ops[id];
    if (op.kind == OpKind::kFor) {
      Need(op.operands[slot + 2]);
      Need(YieldOf(op.regions[0]).operands[slot]);
      Need(op.results[slot]);
      Need(fn.blocks[op.regions[0]].args[slot + 1]);
    } else if (op.kind == OpKind::kWhile) {
      Need(op.operands[slot]);
      Need(YieldOf(op.regions[0]).operands[slot + 1]);
      Need(YieldOf(op.regions[1]).operands[slot]);
      Need(op.results[slot]);
      Need(fn.blocks[op.regions[0]].args[slot]);
      Need(fn.blocks[op.regions[1]].args[slot]);
    } else if (op.kind == OpKind::kIf) {
      for (BlockId region : op.regions) Need(YieldOf(region).operands[slot]);
    }
  }

  void Follow(ValueId v) {
    const Value& value = fn.values[v];
    if (value.def.valid()) {
      const Op& op = fn.ops[value.def];
      const auto slot = std::find(op.results.begin(), op.results.end(), v) - op.results.begin();
      NeedSlot(value.def, static_cast<size_t>(slot));
    } else if (value.block.valid()) {
      const OpId parent = fn.blocks[value.block].parent;
      if (!parent.valid()) return;
      const std::vector<ValueId>& args = fn.blocks[value.block].args;
      const auto at = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      const OpKind kind = fn.ops[parent].kind;
      if (kind == OpKind::kFor && at > 0)
        NeedSlot(parent, at - 1);
      else if (kind == OpKind::kWhile)
        NeedSlot(parent, at);
    }
  }

  void Roots(BlockId block) {
    for (OpId id : fn.blocks[block].ops) {
      const Op& op = fn.ops[id];
      const OpEffect effect = Info(op.kind).effect;
      // Resources of the warp level (buffers, barriers, counters) hold addresses: they stay.
      const bool structured =
          IsLoop(op.kind) || op.kind == OpKind::kIf || op.kind == OpKind::kYield;
      if (effect == OpEffect::kWrite || (effect == OpEffect::kControl && !structured)) Keep(id);
      for (BlockId region : op.regions) Roots(region);
    }
  }

  void Run() {
    Roots(fn.body);
    while (!work.empty()) {
      const ValueId v = work.back();
      work.pop_back();
      Follow(v);
    }
  }
};

template <typename T>
void Filter(std::vector<T>& items, size_t first, const std::vector<uint8_t>& keep) {
  size_t out = first;
  for (size_t i = first; i < items.size(); ++i)
    if (keep[i - first]) items[out++] = items[i];
  items.resize(out);
}

struct Remover {
  Function& fn;
  PassContext& cx;
  const UsedOps& live;

  void DropSlots(OpId id) {
    Op& op = fn.ops[id];
    std::vector<uint8_t> keep;
    for (ValueId v : op.results) keep.push_back(live.values[static_cast<size_t>(v.index)] != 0);
    const auto dead = std::count(keep.begin(), keep.end(), 0);
    if (dead == 0) return;
    cx.changes += static_cast<int>(dead);
    Filter(op.results, 0, keep);
    if (op.kind != OpKind::kIf) Filter(op.operands, op.kind == OpKind::kFor ? 2 : 0, keep);
    for (size_t r = 0; r < op.regions.size(); ++r) {
      Block& block = fn.blocks[op.regions[r]];
      if (op.kind != OpKind::kIf) Filter(block.args, op.kind == OpKind::kFor ? 1 : 0, keep);
      Filter(fn.ops[block.ops.back()].operands, op.kind == OpKind::kWhile && r == 0 ? 1 : 0, keep);
    }
  }

  void Run(BlockId block) {
    RebuildBlock(fn, block, [&](OpId id, std::vector<OpId>& out) {
      if (!live.ops[static_cast<size_t>(id.index)]) {
        ++cx.changes;
        return;
      }
      out.push_back(id);
      const OpKind kind = fn.ops[id].kind;
      if (IsLoop(kind) || kind == OpKind::kIf) DropSlots(id);
      const std::vector<BlockId> regions = fn.ops[id].regions;
      for (BlockId region : regions) Run(region);
    });
  }
};

}  // namespace

Result<> Dce(Function& fn, PassContext& cx) {
  UsedOps live(fn);
  live.Run();
  Remover{fn, cx, live}.Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
