// SPDX-License-Identifier: Apache-2.0
#include "scheduler/body_facts.h"

#include <algorithm>
#include <map>

#include "ir/arms.h"
#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::scheduler {

using ir::Op;
using ir::OpId;
using ir::OpKind;
using ir::ValueId;

namespace {

class Reader {
 public:
  Reader(const ir::Function& fn, OpId loop)
      : fn_(fn), block_(fn.ops[loop].regions[0]), body_(fn.blocks[block_]) {}

  BodyFacts Run() {
    facts_.multiplies = std::any_of(fn_.ops.begin(), fn_.ops.end(),
                                    [](const Op& op) { return op.kind == OpKind::kDot; });
    FindMasks();
    for (OpId id : body_.ops) {
      FindLiveIns(id);
      for (OpId inside : OpsInside(fn_, id)) FindLiveIns(inside);
    }
    return std::move(facts_);
  }

 private:
  void FindLiveIns(OpId id) {
    const Op& op = fn_.ops[id];
    if (IsFree(op.kind) || op.kind == OpKind::kYield) return;
    for (size_t i = 0; i < op.operands.size(); ++i)
      FindLiveIn(op.operands[i], op.kind == OpKind::kDot && i < 2);
  }

  bool Inside(ValueId v) const {
    const OpId def = fn_.values[v].def;
    return def.valid() && AncestorIn(fn_, block_, def).valid();
  }

  // More than a scalar.
  bool Wide(ValueId v) const { return fn_.type(v).is_tile() && fn_.type(v).rank() > 0; }

  // Made of positions, scalars and constants only.
  bool Positional(ValueId v) {
    if (!Wide(v)) return true;
    if (auto it = positional_.find(v); it != positional_.end()) return it->second;
    positional_[v] = false;
    const Op* def = fn_.def(v);
    if (def == nullptr) return false;
    const bool plain = IsFree(def->kind) || ir::Info(def->kind).elementwise();
    const bool all = plain && std::all_of(def->operands.begin(), def->operands.end(),
                                          [&](ValueId operand) { return Positional(operand); });
    return positional_[v] = all;
  }

  bool Constant(ValueId v) const {
    const Op* def = fn_.def(v);
    while (def != nullptr && IsFree(def->kind) && def->kind != OpKind::kConstant &&
           def->kind != OpKind::kIota)
      def = fn_.def(def->operands[0]);
    return def != nullptr && def->kind == OpKind::kConstant;
  }

  void FindMasks() {
    const ir::Uses all(fn_);
    for (size_t i = body_.ops.size(); i-- > 0;) {
      const OpId id = body_.ops[i];
      const Op& op = fn_.ops[id];
      if (op.results.empty() || !Wide(op.results[0])) continue;
      if (op.kind == OpKind::kSelect && Positional(op.operands[0]) &&
          (Constant(op.operands[1]) || Constant(op.operands[2]))) {
        facts_.masks.insert(id);
        continue;
      }
      // Conditions of masks, and what they are made of.
      const std::span<const ir::Uses::Use> uses = all.of(op.results[0]);
      if (Positional(op.results[0]) && !uses.empty() &&
          std::all_of(uses.begin(), uses.end(), [&](const ir::Uses::Use& use) {
            const bool select = fn_.ops[use.reader].kind == OpKind::kSelect;
            return facts_.masks.count(use.reader) > 0 && (!select || use.operand == 0);
          }))
        facts_.masks.insert(id);
    }
  }

  void FindLiveIn(ValueId v, bool product) {
    if (!Wide(v) || Positional(v)) return;
    if (Inside(v)) {
      const Op& def = *fn_.def(v);
      if (IsFree(def.kind))
        for (ValueId operand : def.operands) FindLiveIn(operand, product);
      return;
    }
    const Op* def = fn_.def(v);
    if (def == nullptr && fn_.values[v].block == block_) return;  // carried
    if (def != nullptr && IsFree(def->kind) && !def->operands.empty())
      return FindLiveIn(def->operands[0], product);
    const bool operand = product && def != nullptr && def->kind == OpKind::kLoad;
    for (LiveIn& known : facts_.live_in)
      if (known.value == v) {
        known.loaded_operand = known.loaded_operand && operand;
        return;
      }
    facts_.live_in.push_back({v, operand});
  }

  const ir::Function& fn_;
  const ir::BlockId block_;
  const ir::Block& body_;
  BodyFacts facts_;
  std::map<ValueId, bool> positional_;
};

}  // namespace

BodyFacts FactsOf(const ir::Function& fn, OpId loop) { return Reader(fn, loop).Run(); }

bool StoresInstead(const ir::Function& fn, const ir::Op& op) {
  if (op.kind != ir::OpKind::kIf) return false;
  const auto stored = [&](ir::BlockId arm) {
    for (ir::OpId id : fn.blocks[arm].ops)
      if (fn.ops[id].kind == ir::OpKind::kStore) return fn.ops[id].operands[0];
    return ir::ValueId();
  };
  const ir::ValueId first = stored(op.regions.front());
  return first.valid() && op.regions.front() != op.regions.back() &&
         stored(op.regions.back()) == first;
}

}  // namespace tilec::scheduler
