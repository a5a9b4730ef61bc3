// SPDX-License-Identifier: Apache-2.0
#include "ir/loop_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/arms.h"
#include "ir/loop_planner.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"

namespace tilec::ir {

std::optional<LoopPlan> LoopPlanner::Run(std::string* why) {
  if (!Collect() || !Anchor()) {
    *why = why_;
    return std::nullopt;
  }
  std::set<int> roles;
  for (const auto& [id, time] : times_) roles.insert(time.role);
  for (int role : roles)
    if (role >= 0) Rotate(role);
  Shift();
  if (!schedule_.in_place && !schedule_.in_flight.empty())
    for (int role : roles)
      if (role >= 0) ReadLoadsInOneTurn(role);
  KeepResultsInTheirTurn();
  if (schedule_.close && roles.size() - roles.count(-1) == 1) {
    UseInTheirTurn();
    DrawClose();
  }
  ReadBeforeUpdate();
  if (!Order()) {
    *why = "its order contradicts the data";
    return std::nullopt;
  }
  for (const PlannedOp& op : plan_.order) plan_.stages = std::max(plan_.stages, op.stage);
  Tokens();
  return std::move(plan_);
}

bool LoopPlanner::Fail(std::string why) {
  why_ = std::move(why);
  return false;
}

bool LoopPlanner::Collect() {
  for (OpId id : fn_.blocks[body_].ops) {
    const Op& op = fn_.ops[id];
    rank_[id] = static_cast<int64_t>(rank_.size());
    if (op.kind == OpKind::kYield) continue;
    reads_[id] = ReadBy(fn_, id);
    if (!op.regions.empty() && op.kind != OpKind::kIf) return Fail("it has a loop inside");
    if (auto it = schedule_.ops.find(id); it != schedule_.ops.end())
      times_[id] = it->second;
    else if (!IsReplicated(fn_, op) && !schedule_.replicated.count(id))
      return Fail(std::string("the schedule has no place for its `") + Info(op.kind).mnemonic +
                  "`");
  }
  return true;
}

// Replicated ops whose values are carried need a place after all: where their operands are made.
bool LoopPlanner::Anchor() {
  const Op& yield = fn_.ops[fn_.blocks[body_].ops.back()];
  for (ValueId v : yield.operands) {
    const BodyRef ref = Resolve(fn_, loop_, v);
    if (ref.kind == BodyRef::Kind::kUnclear || ref.kind == BodyRef::Kind::kPosition)
      return Fail("a carried value is the position itself");
    if (ref.kind == BodyRef::Kind::kDefined && !AnchorOp(fn_.values[ref.value].def)) return false;
    if (ref.kind == BodyRef::Kind::kOutside && !ref.args.empty())
      return Fail("a carried value is replaced by one from outside");
  }
  return true;
}

bool LoopPlanner::AnchorOp(OpId id) {
  if (times_.count(id)) return true;
  // On a circle of carried scalars: its own operands lead back to it.
  times_[id] = {-1, 0};
  LoopSchedule::Time best{-1, 0};
  for (ValueId v : reads_.at(id)) {
    if (!AnchorCarried(v)) return false;
    std::vector<Read> reads;
    Leaves(v, id, 0, &reads);
    for (const Read& r : reads) {
      const LoopSchedule::Time& t = times_.at(r.from);
      if (t.role < 0) continue;
      const int64_t at = t.cycle - r.distance * schedule_.ii;
      if (best.role >= 0 && best.role != t.role) return Fail("a carried value joins two roles");
      if (best.role < 0 || at > best.cycle) best = {t.role, at};
    }
  }
  times_[id] = best;
  return true;
}

// Carried values that v is computed from through replicated ops.
bool LoopPlanner::AnchorCarried(ValueId v) {
  const BodyRef ref = Resolve(fn_, loop_, v);
  if (ref.kind == BodyRef::Kind::kUnclear) return Fail("a carried value is the position itself");
  if (ref.kind != BodyRef::Kind::kDefined) return true;
  const OpId def = fn_.values[ref.value].def;
  if (times_.count(def)) return true;
  if (!ref.args.empty()) return AnchorOp(def);
  for (ValueId operand : reads_.at(def))
    if (!AnchorCarried(operand)) return false;
  return true;
}

BodyRef Resolve(const Function& fn, OpId loop, ValueId v) {
  const BlockId body = fn.ops[loop].regions[0];
  const std::vector<ValueId>& args = fn.blocks[body].args;
  const Op& yield = fn.ops[fn.blocks[body].ops.back()];
  BodyRef ref;
  ref.value = v;
  while (fn.values[ref.value].block == body) {
    const size_t i =
        static_cast<size_t>(std::find(args.begin(), args.end(), ref.value) - args.begin());
    if (i == 0) {
      ref.kind = ref.args.empty() ? BodyRef::Kind::kPosition : BodyRef::Kind::kUnclear;
      return ref;
    }
    if (yield.operands[i - 1] == ref.value && ref.args.empty()) {  // never changes
      ref.kind = BodyRef::Kind::kOutside;
      ref.value = fn.ops[loop].operands[1 + i];
      return ref;
    }
    if (std::count(ref.args.begin(), ref.args.end(), i - 1)) {
      ref.kind = BodyRef::Kind::kUnclear;
      return ref;
    }
    ref.args.push_back(i - 1);
    ref.value = yield.operands[i - 1];
  }
  const OpId def = fn.values[ref.value].def;
  const bool inside = def.valid() && fn.ops[def].block == body;
  ref.kind = inside ? BodyRef::Kind::kDefined : BodyRef::Kind::kOutside;
  return ref;
}

bool IsReplicated(const Function& fn, const Op& op) {
  if (IsFree(op.kind) || IsReadOnlyLoad(fn, op)) return true;
  return Info(op.kind).effect == OpEffect::kPure && op.results.size() == 1 && op.regions.empty() &&
         Squeezed(fn.type(op.results[0]).shape).empty();
}

std::optional<LoopPlan> PlanLoop(const Function& fn, OpId loop, const LoopSchedule& schedule,
                                 std::string* why) {
  return LoopPlanner(fn, loop, schedule).Run(why);
}

}  // namespace tilec::ir
