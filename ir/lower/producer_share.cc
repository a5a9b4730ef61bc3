// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/producer_share.h"

#include <algorithm>

#include "ir/lower/role_needs.h"
#include "ir/lower/scalars.h"

namespace tilec::ir {
namespace {

class Closure {
 public:
  Closure(const Function& fn, bool may_hand) : fn_(fn), may_hand_(may_hand) {}

  bool NeedControl(OpId load) {
    const Op& op = fn_.ops[load];
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (!NeedPosition(op.operands[i])) return false;
    return NeedPlace(load);
  }

  // Of rows that are gathered (bring.h): a tile is made where its op stands.
  bool NeedPosition(ValueId v) {
    const Op* op = fn_.def(v);
    if (!fn_.type(v).is_tile() || Squeezed(fn_.type(v).shape).empty() || !op) return Need(v);
    if (!share_.control.insert(v).second) return true;
    return NeedPlace(fn_.values[v].def) &&
           std::all_of(op->operands.begin(), op->operands.end(),
                       [&](ValueId o) { return fn_.param(o) || NeedPosition(o); });
  }

  bool NeedPlace(OpId id) {
    for (BlockId b = fn_.ops[id].block; fn_.blocks[b].parent.valid();) {
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
      case OpKind::kWhile: return Need(Yield(op, 0).operands[0]);
      default: return Refuse("loads stand in what the load role cannot walk", op.at);
    }
  }

  bool Need(ValueId v) {
    if (fn_.param(v)) return true;
    if (!share_.control.insert(v).second) return true;
    if (!fn_.type(v).is_tile() || !Squeezed(fn_.type(v).shape).empty())
      return Refuse("loads depend on a tile that is computed", PlaceOf(v));
    const Value& value = fn_.values[v];
    if (value.block.valid()) {
      const OpId parent = fn_.blocks[value.block].parent;
      if (!NeedStructure(parent)) return false;
      const Op& op = fn_.ops[parent];
      if (op.kind == OpKind::kParallel) return true;
      const std::vector<ValueId>& args = fn_.blocks[value.block].args;
      const size_t i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
      if (op.kind == OpKind::kWhile) return NeedCarriedByWhile(op, i);
      return i == 0 || NeedCarried(op, i - 1);
    }
    const Op& op = *fn_.def(v);
    const size_t index = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                             op.results.begin());
    if (op.kind == OpKind::kFor) return NeedStructure(value.def) && NeedCarried(op, index);
    if (op.kind == OpKind::kWhile) return NeedStructure(value.def) && NeedCarriedByWhile(op, index);
    if (op.kind == OpKind::kIf) {
      for (BlockId region : op.regions)
        if (!Need(fn_.ops[fn_.blocks[region].ops.back()].operands[index])) return false;
      return NeedStructure(value.def);
    }
    if (op.kind == OpKind::kLoad) {
      const Param* p = fn_.param(op.operands[0]);
      if (!p || p->direction != Direction::kIn) return Hand(v);
      for (size_t i = 1; i < op.operands.size(); ++i)
        if (!Need(op.operands[i])) return false;
      return true;
    }
    const bool computed =
        op.kind == OpKind::kConstant || op.kind == OpKind::kReshape || Info(op.kind).elementwise();
    const bool of_scalars =
        std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId operand) {
          return fn_.param(operand) ||
                 (fn_.type(operand).is_tile() && Squeezed(fn_.type(operand).shape).empty());
        });
    if (!computed || !of_scalars) return Hand(v);
    for (ValueId operand : op.operands)
      if (!Need(operand)) return false;
    return true;
  }

  // The scalar comes from the compute role, where its op stands.
  bool Hand(ValueId v) {
    const Op& op = *fn_.def(v);
    if (!may_hand_ || !op.regions.empty() || op.results.size() != 1)
      return Refuse("loads depend on a scalar that several roles compute", op.at);
    for (BlockId b = op.block; fn_.blocks[b].parent.valid();) {
      const OpId parent = fn_.blocks[b].parent;
      if (!NeedStructure(parent)) return false;
      b = fn_.ops[parent].block;
    }
    handed_.insert(v);
    return true;
  }

  bool NeedCarried(const Op& loop, size_t i) {
    const Op& yield = fn_.ops[fn_.blocks[loop.regions[0]].ops.back()];
    return Need(loop.results[i]) && Need(fn_.blocks[loop.regions[0]].args[1 + i]) &&
           Need(loop.operands[2 + i]) && Need(yield.operands[i]);
  }

  bool NeedCarriedByWhile(const Op& loop, size_t i) {
    return Need(loop.results[i]) && Need(loop.operands[i]) &&
           Need(fn_.blocks[loop.regions[0]].args[i]) && Need(fn_.blocks[loop.regions[1]].args[i]) &&
           Need(Yield(loop, 0).operands[1 + i]) && Need(Yield(loop, 1).operands[i]);
  }

  ProducerShare Take() {
    for (OpId id : OpsInOrder(fn_))
      for (ValueId v : fn_.ops[id].results)
        if (handed_.count(v)) share_.handed.push_back(v);
    return std::move(share_);
  }
  const NoProducer& why() const { return why_; }

 private:
  const Op& Yield(const Op& op, size_t region) const {
    return fn_.ops[fn_.blocks[op.regions[region]].ops.back()];
  }
  Span PlaceOf(ValueId v) const {
    const Op* def = fn_.def(v);
    return def ? def->at : Span{};
  }
  bool Refuse(const char* why, Span at) {
    why_ = {why, at};
    return false;
  }

  const Function& fn_;
  const bool may_hand_;
  ProducerShare share_;
  std::set<ValueId> handed_;
  NoProducer why_;
};

int64_t CtasOf(const Function& fn) {
  int64_t ctas = 1;
  for (OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == OpKind::kParallel) ctas = fn.ops[id].i("cluster", 1);
  return ctas;
}

}  // namespace

std::optional<ProducerShare> ShareOfProducer(const Function& fn, const std::vector<OpId>& loads,
                                             NoProducer* why) {
  Closure closure(fn, ComputeRolesOf(fn) == 1 && CtasOf(fn) == 1);
  for (OpId load : loads) {
    if (closure.NeedControl(load)) continue;
    if (why) *why = closure.why();
    return std::nullopt;
  }
  return closure.Take();
}

std::optional<ProducerShare> ShareOfIssuer(const Function& fn, const std::vector<OpId>& products) {
  Closure closure(fn, false);
  for (OpId product : products)
    if (!closure.NeedPlace(product)) return std::nullopt;
  return closure.Take();
}

}  // namespace tilec::ir
