// SPDX-License-Identifier: Apache-2.0
#include "ir/pipeline_loop.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/arms.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

class Rewriter {
 public:
  Rewriter(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token)
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

  bool Run() {
    if (!Survey()) return false;
    Tokens();
    Rewrite();
    return true;
  }

 private:
  // A value that lives on into later iterations: through which carried values it is read, and how
  // many iterations back at most.
  struct Crossing {
    BodyRef ref;
    int age = 0;
    std::vector<ValueId> now;    // steady state: instance a + 1 iterations ago
    std::vector<ValueId> last;   // of the loop: the same, seen from the iteration after the last
    std::vector<size_t> places;  // among the carried values, by age
  };
  enum class Kind { kPrologue, kSteady, kEpilogue };
  struct Turn {
    Kind kind = Kind::kSteady;
    int index = 0;     // prologue: turn; epilogue: iterations after the last, 1…
    ValueId position;  // of the iteration of stage 0 (which an epilogue iteration no longer has)
    std::map<ValueId, ValueId> made;                        // by placed ops
    std::map<std::pair<ValueId, int>, ValueId> replicated;  // (value, stage)
    std::map<int, ValueId> positions;                       // by stage
  };

  int StageOf(ValueId v) const { return stage_of_.at(fn_.values[v].def); }
  bool Placed(ValueId v) const {
    const OpId def = fn_.values[v].def;
    return def.valid() && stage_of_.count(def) > 0;
  }
  static std::pair<ValueId, std::vector<size_t>> Key(const BodyRef& ref) {
    return {ref.value, ref.args};
  }

  // ---- which values cross iterations
  // -------------------------------------------------------------
  bool Survey() {
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
  bool Survey(ValueId v, int stage) {
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
  void Want(const BodyRef& ref, int age) {
    if (age < 1) return;
    auto [it, fresh] = crossing_.try_emplace(Key(ref));
    if (fresh) {
      it->second.ref = ref;
      crossing_order_.push_back(Key(ref));
    }
    it->second.age = std::max(it->second.age, age);
  }

  // ---- order tokens -------------------------------------------------------------------------
  // Where both ends stand in one turn the token is passed in every iteration that has both. Where
  // the second stands in the next iteration, the steady state finds one token and leaves one: the
  // last prologue iteration or a signal in front of the loop makes it, the first epilogue iteration
  // or a wait behind the loop takes it. That holds for a steady state of no iterations, too.
  struct TokenEnd {
    int64_t id;
    int turns;
    int other_stage;
  };
  void Tokens() {
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
  bool Active(Kind kind, int index, int stage) const {
    if (kind == Kind::kSteady) return true;
    if (kind == Kind::kPrologue) return index >= 0 && stage <= index;
    return index <= stages_ && stage >= index;
  }
  bool Signals(const Turn& turn, const TokenEnd& t) const {
    if (turn.kind == Kind::kSteady) return true;
    if (turn.kind == Kind::kPrologue && t.turns == 1 && turn.index == stages_ - 1) return true;
    return Active(turn.kind, turn.index + t.turns, t.other_stage);
  }
  bool Awaits(const Turn& turn, const TokenEnd& t) const {
    if (turn.kind == Kind::kSteady) return true;
    if (turn.kind == Kind::kEpilogue && t.turns == 1 && turn.index == 1) return true;
    return Active(turn.kind, turn.index - t.turns, t.other_stage);
  }

  // Carried values that start alike and go on alike are one: `a` if a crossing's chain so far is
  // that of an earlier one.
  struct Carried {
    ValueId value, initial;
    int age;
    size_t after;  // index of the one an iteration younger; ages of 1: SIZE_MAX
    auto operator<=>(const Carried&) const = default;
  };
  size_t Carry(const Carried& c, std::vector<ValueId>& operands, std::vector<Type>& types) {
    const auto [it, fresh] = carried_.try_emplace(c, types.size());
    if (fresh) {
      operands.push_back(c.initial);
      types.push_back(fn_.type(c.value));
    }
    return it->second;
  }

  // ---- emission -----------------------------------------------------------------------------
  ValueId Position(Builder& b, Turn& turn, int stage) {
    auto [it, fresh] = turn.positions.try_emplace(stage);
    if (!fresh) return it->second;
    const int back = turn.kind == Kind::kEpilogue ? stage - turn.index : stage;
    const ValueId p =
        back == 0 ? turn.position : b.Binary(OpKind::kSub, turn.position, b.Int(back * step_));
    return turn.positions[stage] = p;
  }
  // The value that a carried chain starts with, `iteration` < 0 of its defining op.
  ValueId Initial(const BodyRef& ref, int iteration) const {
    const int n = static_cast<int>(ref.args.size());
    const int at = std::clamp(iteration + n, 0, std::max(0, n - 1));
    return n == 0 ? ValueId() : loop_.operands[2 + ref.args[static_cast<size_t>(at)]];
  }
  ValueId Instance(const Turn& turn, const BodyRef& ref, int age) {
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
        if (turn.index - age >= 1)
          return made(epilogue_[static_cast<size_t>(turn.index - age - 1)]);
        return crossing_.at(Key(ref)).last[static_cast<size_t>(age - turn.index)];
    }
    return {};
  }
  ValueId Get(Builder& b, Turn& turn, ValueId v, int stage) {
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
  OpId Clone(Builder& b, Turn& turn, OpId id, int stage) {
    ValueMap map;  // what it reads stands in front of it
    for (ValueId v : ReadBy(fn_, id)) map[v] = Get(b, turn, v, stage);
    return CloneWhole(b, fn_, id, map);
  }
  void Emit(Builder& b, Turn& turn) {
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
  void Mark(const Turn& turn, OpId original, OpId copy) {
    std::vector<int64_t> ids;
    for (const TokenEnd& t : signals_[original])
      if (Signals(turn, t)) ids.push_back(t.id);
    if (!ids.empty()) fn_.ops[copy].set("signal", ids);
    ids.clear();
    for (const TokenEnd& t : awaits_[original])
      if (Awaits(turn, t)) ids.push_back(t.id);
    if (!ids.empty()) fn_.ops[copy].set("await", ids);
  }

  // The loop in its new form, at the end of b's block; returns its results.
  std::vector<ValueId> Pipelined(Builder& b) {
    const ValueId lo = loop_.operands[0], hi = loop_.operands[1];
    ValueId start = lo;
    for (int t = 0; t < stages_; ++t) {
      Turn turn;
      turn.kind = Kind::kPrologue;
      turn.index = t;
      turn.position = t == 0 ? lo : b.Binary(OpKind::kAdd, lo, b.Int(t * step_));
      Emit(b, turn);
      prologue_.push_back(std::move(turn));
    }
    if (stages_ > 0) start = b.Binary(OpKind::kAdd, lo, b.Int(stages_ * step_));

    std::vector<ValueId> operands = {start, hi};
    std::vector<Type> types;
    for (const auto& key : crossing_order_) {
      Crossing& c = crossing_.at(key);
      size_t after = SIZE_MAX;
      for (int a = 1; a <= c.age; ++a) {
        const int iteration = stages_ - a - StageOf(c.ref.value);
        ValueId v = iteration < 0
                        ? Initial(c.ref, iteration)
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

    if (stages_ > 0) {
      // The position of the last iteration.
      const ValueId turns =
          b.Binary(OpKind::kDiv, b.Binary(OpKind::kSub, b.Binary(OpKind::kSub, hi, lo), b.Int(1)),
                   b.Int(step_));
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
  std::vector<ValueId> AsItWas(Builder& b) {
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
  std::vector<Type> ResultTypes() const {
    std::vector<Type> types;
    for (ValueId r : loop_.results) types.push_back(fn_.type(r));
    return types;
  }

  void Rewrite() {
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

  Function& fn_;
  OpId loop_id_;
  const Op loop_;  // a copy: the function's ops move
  BlockId body_;
  const LoopPlan& plan_;
  int stages_;
  int64_t step_;
  int64_t* next_token_;
  std::vector<OpId> body_ops_;
  std::vector<ValueId> args_;
  std::map<OpId, int> stage_of_;
  using CrossingKey = std::pair<ValueId, std::vector<size_t>>;
  std::map<CrossingKey, Crossing> crossing_;
  std::vector<CrossingKey> crossing_order_;
  std::map<Carried, size_t> carried_;
  std::map<OpId, std::vector<TokenEnd>> signals_, awaits_;
  std::vector<int64_t> signal_before_, await_after_;
  std::vector<Turn> prologue_, epilogue_;
};

}  // namespace

bool PipelineLoop(Function& fn, OpId loop, const LoopPlan& plan, int64_t* next_token) {
  return Rewriter(fn, loop, plan, next_token).Run();
}

}  // namespace tilec::ir
