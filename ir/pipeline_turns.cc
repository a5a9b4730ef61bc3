// The turns of a pipelined loop, as ops: the prologue's, the steady state's, the epilogue's, each
// with the ops that are at work in it.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/loop_pipeliner.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/arms.h"
#include "ir/passes/rewrite.h"
#include "support/check.h"

namespace tilec::ir {

ValueId LoopPipeliner::Position(Builder& b, Turn& turn, int stage) {
  auto [it, fresh] = turn.positions.try_emplace(stage);
  if (!fresh) return it->second;
  const int back = turn.kind == Kind::kEpilogue ? stage - turn.index : stage;
  const ValueId p =
      back == 0 ? turn.position : b.Binary(OpKind::kSub, turn.position, b.Int(back * step_));
  return turn.positions[stage] = p;
}

// The value that a carried chain starts with, `iteration` < 0 of its defining op.
ValueId LoopPipeliner::Initial(const BodyRef& ref, int iteration) const {
  const int n = static_cast<int>(ref.args.size());
  const int at = std::clamp(iteration + n, 0, std::max(0, n - 1));
  return n == 0 ? ValueId() : loop_.operands[2 + ref.args[static_cast<size_t>(at)]];
}

ValueId LoopPipeliner::Instance(const Turn& turn, const BodyRef& ref, int age) {
  const auto made = [&](const Turn& t) {
    const auto it = t.made.find(ref.value);
    CHECK(it != t.made.end(), "a value is read before its turn");
    return it->second;
  };
  const size_t back = static_cast<size_t>(age);
  switch (turn.kind) {
    case Kind::kSteady: return age == 0 ? made(turn) : crossing_.at(Key(ref)).now[back - 1];
    case Kind::kPrologue: {
      const int iteration = turn.index - age - StageOf(ref.value);
      if (iteration < 0) return Initial(ref, iteration);
      return age == 0 ? made(turn) : made(prologue_[static_cast<size_t>(turn.index - age)]);
    }
    case Kind::kEpilogue:
      if (age == 0) return made(turn);
      if (turn.index - age >= 1) return made(epilogue_[static_cast<size_t>(turn.index - age - 1)]);
      return crossing_.at(Key(ref)).last[static_cast<size_t>(age - turn.index)];
  }
  return {};
}

ValueId LoopPipeliner::Get(Builder& b, Turn& turn, ValueId v, int stage) {
  const BodyRef ref = Resolve(fn_, loop_id_, v);
  if (ref.kind == BodyRef::Kind::kOutside) return ref.value;
  if (ref.kind == BodyRef::Kind::kPosition) return Position(b, turn, stage);
  if (Placed(ref.value))
    return Instance(turn, ref, stage - StageOf(ref.value) + static_cast<int>(ref.args.size()));
  if (auto it = turn.replicated.find({ref.value, stage}); it != turn.replicated.end())
    return it->second;
  const OpId copy = Clone(b, turn, fn_.values[ref.value].def, stage);
  return turn.replicated[{ref.value, stage}] = fn_.ops[copy].results[0];
}

OpId LoopPipeliner::Clone(Builder& b, Turn& turn, OpId id, int stage) {
  ValueMap map;  // what it reads stands in front of it
  for (ValueId v : ReadBy(fn_, id)) map[v] = Get(b, turn, v, stage);
  return CloneWhole(b, fn_, id, map);
}

void LoopPipeliner::Emit(Builder& b, Turn& turn) {
  for (const PlannedOp& planned : plan_.order) {
    if (!Active(turn.kind, turn.index, planned.stage)) continue;
    const OpId copy = Clone(b, turn, planned.op, planned.stage);
    if (planned.role >= 0) MarkRole(fn_, copy, planned.role);
    Mark(turn, planned.op, copy);
    const Op& op = fn_.ops[planned.op];
    for (size_t i = 0; i < op.results.size(); ++i)
      turn.made[op.results[i]] = fn_.ops[copy].results[i];
  }
}

void LoopPipeliner::Mark(const Turn& turn, OpId original, OpId copy) {
  std::vector<int64_t> ids;
  for (const TokenEnd& t : signals_[original])
    if (Signals(turn, t)) ids.push_back(t.id);
  if (!ids.empty()) fn_.ops[copy].set("signal", ids);
  ids.clear();
  for (const TokenEnd& t : awaits_[original])
    if (Awaits(turn, t)) ids.push_back(t.id);
  if (!ids.empty()) fn_.ops[copy].set("await", ids);
}

// In front of the steady state; returns the position at which that starts.
ValueId LoopPipeliner::Prologue(Builder& b) {
  const ValueId lo = loop_.operands[0];
  for (int t = 0; t < stages_; ++t) {
    Turn turn;
    turn.kind = Kind::kPrologue;
    turn.index = t;
    turn.position = t == 0 ? lo : b.Binary(OpKind::kAdd, lo, b.Int(t * step_));
    Emit(b, turn);
    prologue_.push_back(std::move(turn));
  }
  return stages_ > 0 ? b.Binary(OpKind::kAdd, lo, b.Int(stages_ * step_)) : lo;
}

void LoopPipeliner::Steady(Builder& b, ValueId start) {
  std::vector<ValueId> operands = {start, loop_.operands[1]};
  std::vector<Type> types;
  for (const auto& key : crossing_order_) {
    Crossing& c = crossing_.at(key);
    size_t after = SIZE_MAX;
    for (int a = 1; a <= c.age; ++a) {
      const int iteration = stages_ - a - StageOf(c.ref.value);
      ValueId v = iteration < 0 ? Initial(c.ref, iteration)
                                : prologue_[static_cast<size_t>(stages_ - a)].made.at(c.ref.value);
      // Nobody reads an iteration before the first of a value that is not carried.
      if (!v.valid()) v = b.Constant(fn_.type(c.ref.value), 0);
      after = Carry({c.ref.value, v, a, after}, operands, types);
      c.places.push_back(after);
    }
  }
  const OpId steady = b.Add(OpKind::kFor, std::move(operands), types, {{"step", step_}});
  if (!signal_before_.empty()) fn_.ops[steady].set("signal", signal_before_);
  if (!await_after_.empty()) fn_.ops[steady].set("await", await_after_);
  const BlockId block = fn_.AddBlock(steady);
  fn_.ops[steady].regions.push_back(block);
  Turn turn;
  turn.position = fn_.AddArg(block, Type::Scalar(DType::kI64), fn_.values[args_[0]].name);
  std::vector<ValueId> now;
  for (const Type& type : types) now.push_back(fn_.AddArg(block, type));
  for (const auto& key : crossing_order_) {
    Crossing& c = crossing_.at(key);
    for (size_t place : c.places) {
      fn_.values[now[place]].name = fn_.values[c.ref.value].name;
      c.now.push_back(now[place]);
      c.last.push_back(fn_.ops[steady].results[place]);
    }
  }
  Builder t(fn_, block);
  t.SetSpan(loop_.at);
  Emit(t, turn);
  std::vector<ValueId> next(types.size());
  for (const auto& [c, place] : carried_)
    next[place] = c.age == 1 ? turn.made.at(c.value) : now[c.after];
  t.Yield(std::move(next));
}

void LoopPipeliner::Epilogue(Builder& b) {
  if (stages_ == 0) return;
  const ValueId lo = loop_.operands[0], hi = loop_.operands[1];
  // The position of the last iteration.
  const ValueId turns = b.Binary(
      OpKind::kDiv, b.Binary(OpKind::kSub, b.Binary(OpKind::kSub, hi, lo), b.Int(1)), b.Int(step_));
  const ValueId last = b.Binary(OpKind::kAdd, lo, b.Binary(OpKind::kMul, turns, b.Int(step_)));
  for (int e = 1; e <= stages_; ++e) {
    Turn end;
    end.kind = Kind::kEpilogue;
    end.index = e;
    end.position = last;
    Emit(b, end);
    epilogue_.push_back(std::move(end));
  }
}

// The loop in its new form, at the end of b's block; returns its results.
std::vector<ValueId> LoopPipeliner::Pipelined(Builder& b) {
  Steady(b, Prologue(b));
  Epilogue(b);
  std::vector<ValueId> results;
  for (size_t i = 1; i < args_.size(); ++i) {
    const BodyRef ref = Resolve(fn_, loop_id_, args_[i]);
    if (ref.kind == BodyRef::Kind::kOutside) {
      results.push_back(ref.value);
      continue;
    }
    const int back = static_cast<int>(ref.args.size()) - StageOf(ref.value);
    results.push_back(back >= 1 ? crossing_.at(Key(ref)).last[static_cast<size_t>(back - 1)]
                                : epilogue_[static_cast<size_t>(-back)].made.at(ref.value));
  }
  return results;
}

// The loop as it was, for fewer iterations than stages.
std::vector<ValueId> LoopPipeliner::AsItWas(Builder& b) {
  const OpId copy = b.Add(OpKind::kFor, loop_.operands, ResultTypes(), {{"step", step_}});
  const BlockId block = fn_.AddBlock(copy);
  fn_.ops[copy].regions.push_back(block);
  ValueMap map;
  for (ValueId arg : args_) map[arg] = fn_.AddArg(block, fn_.type(arg), fn_.values[arg].name);
  std::map<OpId, int> roles;
  for (const PlannedOp& op : plan_.order) roles[op.op] = op.role;
  Builder t(fn_, block);
  for (OpId id : body_ops_) {
    const OpId clone = CloneWhole(t, fn_, id, map);
    if (auto it = roles.find(id); it != roles.end() && it->second >= 0)
      MarkRole(fn_, clone, it->second);
  }
  return fn_.ops[copy].results;
}

std::vector<Type> LoopPipeliner::ResultTypes() const {
  std::vector<Type> types;
  for (ValueId r : loop_.results) types.push_back(fn_.type(r));
  return types;
}

void LoopPipeliner::Rewrite() {
  const BlockId home = loop_.block;
  std::vector<OpId> before = fn_.blocks[home].ops;
  const auto at = std::find(before.begin(), before.end(), loop_id_);
  const std::vector<OpId> after(at + 1, before.end());
  before.erase(at, before.end());
  fn_.blocks[home].ops = before;
  Builder b(fn_, home);
  b.SetSpan(loop_.at);
  std::vector<ValueId> results;
  // Where the loop is left out, tokens around it are: nothing would hold back who passes them.
  if (stages_ == 0 && signal_before_.empty() && await_after_.empty()) {
    results = Pipelined(b);
  } else {
    const ValueId need =
        stages_ <= 1 ? loop_.operands[0]
                     : b.Binary(OpKind::kAdd, loop_.operands[0], b.Int((stages_ - 1) * step_));
    const ValueId enough = b.Cmp("lt", need, loop_.operands[1]);
    const OpId branch = b.Add(OpKind::kIf, {enough}, ResultTypes());
    for (int arm = 0; arm < 2; ++arm) {
      const BlockId block = fn_.AddBlock(branch);
      fn_.ops[branch].regions.push_back(block);
      b.SetBlock(block);
      if (arm == 0)
        b.Yield(Pipelined(b));
      else if (stages_ > 1)
        b.Yield(AsItWas(b));
      else
        b.Yield(std::vector<ValueId>(loop_.operands.begin() + 2, loop_.operands.end()));
    }
    results = fn_.ops[branch].results;
  }
  ValueMap outer;
  for (size_t i = 0; i < results.size(); ++i) {
    outer[loop_.results[i]] = results[i];
    if (fn_.values[results[i]].name.empty())
      fn_.values[results[i]].name = fn_.values[loop_.results[i]].name;
  }
  for (OpId id : after) {
    fn_.blocks[home].ops.push_back(id);
    ReplaceOperands(fn_, id, outer);
  }
}

}  // namespace tilec::ir
