// What of a loop lives on from one iteration to later ones once its ops stand in stages: values,
// and tokens of order.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/pipeline_loop.h"

#include <algorithm>
#include <map>
#include <vector>

#include "ir/arms.h"
#include "ir/loop_pipeliner.h"

namespace tilec::ir {

LoopPipeliner::LoopPipeliner(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token)
    : fn_(fn),
      loop_id_(loop),
      loop_(fn.ops[loop]),
      body_(loop_.regions[0]),
      plan_(plan),
      stages_(plan.stages),
      step_(loop_.i("step")),
      next_token_(next_token) {
  body_ops_ = fn.blocks[body_].ops;
  args_ = fn.blocks[body_].args;
  for (const PlannedOp& op : plan.order) stage_of_[op.op] = op.stage;
}

bool LoopPipeliner::Run() {
  if (!Survey()) return false;
  Tokens();
  Rewrite();
  return true;
}

bool LoopPipeliner::Placed(ValueId v) const {
  const OpId def = fn_.values[v].def;
  return def.valid() && stage_of_.count(def) > 0;
}

bool LoopPipeliner::Survey() {
  for (const PlannedOp& op : plan_.order)
    for (ValueId v : ReadBy(fn_, op.op))
      if (!Survey(v, op.stage)) return false;
  // A result is what the iteration after the last would find carried.
  for (size_t i = 1; i < args_.size(); ++i) {
    const BodyRef ref = Resolve(fn_, loop_id_, args_[i]);
    if (ref.kind == BodyRef::Kind::kOutside && ref.args.empty()) continue;
    if (ref.kind != BodyRef::Kind::kDefined || !Placed(ref.value)) return false;
    Want(ref, static_cast<int>(ref.args.size()) - StageOf(ref.value));
  }
  return true;
}

bool LoopPipeliner::Survey(ValueId v, int stage) {
  const BodyRef ref = Resolve(fn_, loop_id_, v);
  switch (ref.kind) {
    case BodyRef::Kind::kOutside: return ref.args.empty();
    case BodyRef::Kind::kPosition: return true;
    case BodyRef::Kind::kUnclear: return false;
    case BodyRef::Kind::kDefined: break;
  }
  if (Placed(ref.value)) {
    const int age = stage - StageOf(ref.value) + static_cast<int>(ref.args.size());
    if (age < 0) return false;
    Want(ref, age);
    return true;
  }
  if (!ref.args.empty()) return false;
  for (ValueId operand : fn_.ops[fn_.values[ref.value].def].operands)
    if (!Survey(operand, stage)) return false;
  return true;
}

void LoopPipeliner::Want(const BodyRef& ref, int age) {
  if (age < 1) return;
  auto [it, fresh] = crossing_.try_emplace(Key(ref));
  if (fresh) {
    it->second.ref = ref;
    crossing_order_.push_back(Key(ref));
  }
  it->second.age = std::max(it->second.age, age);
}

void LoopPipeliner::Tokens() {
  for (const PlannedToken& t : plan_.tokens) {
    const int64_t id = (*next_token_)++;
    signals_[t.from].push_back({id, t.turns, stage_of_.at(t.to)});
    awaits_[t.to].push_back({id, t.turns, stage_of_.at(t.from)});
    if (t.turns == 0) continue;
    if (stage_of_.at(t.from) == stages_) signal_before_.push_back(id);
    if (stage_of_.at(t.to) == 0) await_after_.push_back(id);
  }
}

// Is an op of this stage at work in this iteration of the prologue or epilogue?
bool LoopPipeliner::Active(Kind kind, int index, int stage) const {
  if (kind == Kind::kSteady) return true;
  if (kind == Kind::kPrologue) return index >= 0 && stage <= index;
  return index <= stages_ && stage >= index;
}

bool LoopPipeliner::Signals(const Turn& turn, const TokenEnd& t) const {
  if (turn.kind == Kind::kSteady) return true;
  if (turn.kind == Kind::kPrologue && t.turns == 1 && turn.index == stages_ - 1) return true;
  return Active(turn.kind, turn.index + t.turns, t.other_stage);
}

bool LoopPipeliner::Awaits(const Turn& turn, const TokenEnd& t) const {
  if (turn.kind == Kind::kSteady) return true;
  if (turn.kind == Kind::kEpilogue && t.turns == 1 && turn.index == 1) return true;
  return Active(turn.kind, turn.index - t.turns, t.other_stage);
}

size_t LoopPipeliner::Carry(const Carried& c, std::vector<ValueId>& operands,
                            std::vector<Type>& types) {
  const auto [it, fresh] = carried_.try_emplace(c, types.size());
  if (fresh) {
    operands.push_back(c.initial);
    types.push_back(fn_.type(c.value));
  }
  return it->second;
}

bool PipelineLoop(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token) {
  return LoopPipeliner(fn, loop, plan, next_token).Run();
}

}  // namespace tilec::ir
