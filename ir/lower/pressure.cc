// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/pressure.h"

#include <algorithm>
#include <set>

namespace tilec::ir {
namespace {

class Liveness {
 public:
  explicit Liveness(const Function& fn) : fn_(fn) {}
  int64_t peak() const { return peak_; }

  // Values alive in front of the block, given those alive behind it.
  std::set<ValueId> Walk(BlockId block, std::set<ValueId> live) {
    const std::vector<OpId>& ops = fn_.blocks[block].ops;
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
      const Op& op = fn_.ops[*it];
      Note(live);
      for (ValueId r : op.results) live.erase(r);
      if (!op.regions.empty()) Enter(op, live);
      for (ValueId v : op.operands) Use(v, live);
      Note(live);
    }
    for (ValueId arg : fn_.blocks[block].args) live.erase(arg);
    return live;
  }

 private:
  bool Free(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && (def->kind == OpKind::kConstant || def->kind == OpKind::kWarpIota);
  }
  // What a value is made of, behind ops that move no data.
  ValueId Origin(ValueId v) const {
    for (const Op* def = fn_.def(v); def; def = fn_.def(v)) {
      if (def->kind != OpKind::kWarpBroadcast && def->kind != OpKind::kWarpReshape &&
          def->kind != OpKind::kWarpTranspose)
        break;
      v = def->operands[0];
    }
    return v;
  }
  void Use(ValueId v, std::set<ValueId>& live) const {
    v = Origin(v);
    if (fn_.type(v).is_tile() && !fn_.type(v).shape.empty() && !Free(v)) live.insert(v);
  }

  void Enter(const Op& op, std::set<ValueId>& live) {
    std::set<ValueId> before = live;
    for (BlockId region : op.regions) {
      std::set<ValueId> behind = live;
      // What a loop reads from outside stays alive through every turn.
      if (op.kind == OpKind::kFor || op.kind == OpKind::kWhile) Outside(region, region, behind);
      const std::set<ValueId> front = Walk(region, std::move(behind));
      before.insert(front.begin(), front.end());
    }
    live = std::move(before);
  }
  void Outside(BlockId block, BlockId loop, std::set<ValueId>& live) const {
    for (OpId id : fn_.blocks[block].ops) {
      for (ValueId v : fn_.ops[id].operands)
        if (!Inside(Origin(v), loop)) Use(v, live);
      for (BlockId region : fn_.ops[id].regions) Outside(region, loop, live);
    }
  }
  bool Inside(ValueId v, BlockId loop) const {
    const Value& value = fn_.values[v];
    BlockId block = value.block.valid() ? value.block
                    : value.def.valid() ? fn_.ops[value.def].block
                                        : BlockId();
    while (block.valid() && block != loop) {
      const OpId parent = fn_.blocks[block].parent;
      block = parent.valid() ? fn_.ops[parent].block : BlockId();
    }
    return block.valid();
  }

  void Note(const std::set<ValueId>& live) {
    int64_t registers = 0;
    for (ValueId v : live) {
      const Type& type = fn_.type(v);
      if (type.dtype == DType::kBool || !type.layout.valid()) continue;
      registers += (fn_.layouts[type.layout].regs() * ByteSize(type.dtype) + 3) / 4;
    }
    peak_ = std::max(peak_, registers);
  }

  const Function& fn_;
  int64_t peak_ = 0;
};

}  // namespace

int64_t PeakRegisters(const Function& fn, OpId role) {
  Liveness liveness(fn);
  liveness.Walk(fn.ops[role].regions[0], {});
  return liveness.peak();
}

}  // namespace tilec::ir
