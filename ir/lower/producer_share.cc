// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/producer_share.h"

#include <algorithm>

#include "ir/lower/scalars.h"

namespace tilec::ir {
namespace {

class Closure {
 public:
  explicit Closure(const Function& fn) : fn_(fn) {}

  bool NeedControl(OpId load) {
    const Op& op = fn_.ops[load];
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (!Need(op.operands[i])) return false;
    for (BlockId b = op.block; fn_.blocks[b].parent.valid();) {
      const OpId parent = fn_.blocks[b].parent;
      if (!NeedStructure(parent)) return false;
      b = fn_.ops[parent].block;
    }
    return true;
  }

  bool NeedStructure(OpId id) {
    if (!share_.structure.insert(id).second) return true;
    const Op& op = fn_.ops[id];
    switch (op.kind) {
      case OpKind::kFor: return Need(op.operands[0]) && Need(op.operands[1]);
      case OpKind::kIf: return Need(op.operands[0]);
      case OpKind::kParallel:
        for (ValueId v : op.operands)
          if (!Need(v)) return false;
        return true;
      default: return false;  // a `while` over tiles steers itself
    }
  }

  bool Need(ValueId v) {
    if (fn_.param(v)) return true;
    if (!share_.control.insert(v).second) return true;
    if (!fn_.type(v).is_tile() || !Squeezed(fn_.type(v).shape).empty()) return false;
    const Value& value = fn_.values[v];
    if (value.block.valid()) {
      const OpId parent = fn_.blocks[value.block].parent;
      if (!NeedStructure(parent)) return false;
      const Op& op = fn_.ops[parent];
      if (op.kind == OpKind::kParallel) return true;
      const std::vector<ValueId>& args = fn_.blocks[value.block].args;
      const size_t i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      return i == 0 || NeedCarried(op, i - 1);
    }
    const Op& op = *fn_.def(v);
    const size_t index = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                             op.results.begin());
    if (op.kind == OpKind::kFor) return NeedStructure(value.def) && NeedCarried(op, index);
    if (op.kind == OpKind::kIf) {
      for (BlockId region : op.regions)
        if (!Need(fn_.ops[fn_.blocks[region].ops.back()].operands[index])) return false;
      return NeedStructure(value.def);
    }
    if (op.kind == OpKind::kLoad) {
      const Param* p = fn_.param(op.operands[0]);
      if (!p || p->direction != Direction::kIn) return false;
      for (size_t i = 1; i < op.operands.size(); ++i)
        if (!Need(op.operands[i])) return false;
      return true;
    }
    if (op.kind != OpKind::kConstant && op.kind != OpKind::kReshape && !Info(op.kind).elementwise())
      return false;
    for (ValueId operand : op.operands)
      if (!Need(operand)) return false;
    return true;
  }

  bool NeedCarried(const Op& loop, size_t i) {
    const Op& yield = fn_.ops[fn_.blocks[loop.regions[0]].ops.back()];
    return Need(loop.results[i]) && Need(fn_.blocks[loop.regions[0]].args[1 + i]) &&
           Need(loop.operands[2 + i]) && Need(yield.operands[i]);
  }

  ProducerShare Take() { return std::move(share_); }

 private:
  const Function& fn_;
  ProducerShare share_;
};

}  // namespace

std::optional<ProducerShare> ShareOfProducer(const Function& fn, const std::vector<OpId>& loads) {
  Closure closure(fn);
  for (OpId load : loads)
    if (!closure.NeedControl(load)) return std::nullopt;
  return closure.Take();
}

}  // namespace tilec::ir
