// Software pipelining of loops in which one product feeds another.
//
// In
//     for i { s = a · b(i);  p = f(s);  acc = g(acc) + p · v(i) }
// the second product waits for f of the first and the tensor core for both. Moved one stage later,
// iteration i of the loop does
//     s = a · b(i)            issued first: depends on nothing of this iteration
//     acc = acc' + p' · v(i-1)   issued right after, from the previous iteration's values
//     p = f(s)                 runs under the second product
//     acc' = g(acc)            last, once the second product is done
// so that f overlaps a product. The pass rewrites tile IR into tile IR: a guarded prologue (stage 0
// of the first iteration), the steady loop, an epilogue (stage 1 of the last). Values cross from
// stage 0 to stage 1 as carried values. The meaning is the same bit for bit: no floating-point
// operation is reordered, only moved in time.
//
// What it asks of a loop: no inner structure; a product D2 accumulating into a carried value whose
// operands depend on another product D1 of the same iteration, while D1 does not depend on what D2
// makes; tiles few enough that both stages' values fit the registers.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ir/isa.h"
#include "ir/lower/operands.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

constexpr int64_t kNotFilled = 20;  // 1/20 of a quota stays free

class Pipeliner {
 public:
  Pipeliner(Function& fn, OpId loop, const Target& target)
      : fn_(fn), loop_(loop), body_(fn.ops[loop].regions[0]), target_(target) {}

  bool Run() {
    if (!Plan()) return false;
    Rewrite();
    return true;
  }

 private:
  bool Plan() {
    // Only a product in flight leaves threads free to compute under it.
    if (target_.unit().completion == Completion::kAtOnce) return false;
    const Op& loop = fn_.ops[loop_];
    const std::vector<OpId>& ops = fn_.blocks[body_].ops;
    if (loop.results.empty() || ops.empty()) return false;
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if (!op.regions.empty() || Info(op.kind).effect == OpEffect::kWrite) return false;
      if (op.kind == OpKind::kLoad && !ReadOnly(op)) return false;
      if (op.kind == OpKind::kDot && !IsOnUnit(fn_, op, target_)) return false;
    }
    // D2: the last product whose operands depend on another product.
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kDot) continue;
      std::set<OpId> before;
      Backward(op.operands[0], before);
      Backward(op.operands[1], before);
      const bool chained = std::any_of(before.begin(), before.end(),
                                       [&](OpId b) { return fn_.ops[b].kind == OpKind::kDot; });
      if (chained) second_ = id;
    }
    if (!second_.valid()) return false;
    // Stage 1: D2, everything after it that uses it, and the loads only it reads.
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      const bool uses = std::any_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
        return fn_.values[v].def.valid() && late_.count(fn_.values[v].def);
      });
      if ((id == second_ || uses) && op.kind != OpKind::kYield) late_.insert(id);
    }
    for (OpId id : late_)
      if (fn_.ops[id].kind == OpKind::kDot && id != second_) return false;
    for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
      const Op& op = fn_.ops[*it];
      const bool movable = op.kind == OpKind::kLoad || op.kind == OpKind::kTranspose ||
                           op.kind == OpKind::kReshape ||
                           (op.results.size() == 1 && fn_.type(op.results[0]).is_scalar());
      if (late_.count(*it) || !movable || op.kind == OpKind::kYield) continue;
      if (OnlyLateUses(op.results[0])) late_.insert(*it);
    }
    // D1 must not wait for what stage 1 makes: its own operands may not come from values carried
    // out of stage 1.
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ValueId next = Yield().operands[i];
      const OpId def = fn_.values[next].def;
      from_late_.push_back(def.valid() && late_.count(def) > 0);
    }
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kDot || late_.count(id)) continue;
      first_.insert(id);
      Backward(op.operands[0], first_);
      Backward(op.operands[1], first_);
      Backward(op.operands[2], first_);
    }
    for (OpId id : first_)
      for (ValueId v : fn_.ops[id].operands)
        if (IsLateArg(v)) return false;
    // Late ops may use a late-carried value only through stage 0 (which runs after stage 1).
    for (OpId id : late_)
      for (ValueId v : fn_.ops[id].operands)
        if (IsLateArg(v)) return false;
    return Fits();
  }

  const Op& Yield() const { return fn_.ops[fn_.blocks[body_].ops.back()]; }
  bool ReadOnly(const Op& op) const {
    const Param* p = fn_.param(op.operands[0]);
    return p && p->direction == Direction::kIn;
  }
  bool InBody(ValueId v) const {
    const Value& value = fn_.values[v];
    return value.block == body_ || (value.def.valid() && fn_.ops[value.def].block == body_);
  }
  bool IsLateArg(ValueId v) const {
    const std::vector<ValueId>& args = fn_.blocks[body_].args;
    for (size_t i = 0; i < from_late_.size(); ++i)
      if (from_late_[i] && args[1 + i] == v) return true;
    return false;
  }
  void Backward(ValueId v, std::set<OpId>& into) const {
    const OpId def = fn_.values[v].def;
    if (!def.valid() || fn_.ops[def].block != body_ || !into.insert(def).second) return;
    for (ValueId operand : fn_.ops[def].operands) Backward(operand, into);
  }
  bool OnlyLateUses(ValueId v) const {
    bool any = false;
    for (OpId id : fn_.blocks[body_].ops)
      for (ValueId operand : fn_.ops[id].operands) {
        if (operand != v) continue;
        any = true;
        if (!late_.count(id)) return false;
      }
    return any;
  }

  // Registers of the widest moment: D1's result, D2's accumulator, and the crossing tiles twice.
  bool Fits() {
    int64_t bytes = 0;
    int64_t rows = 64;
    for (OpId id : fn_.blocks[body_].ops)
      if (fn_.ops[id].kind == OpKind::kDot) {
        const Type& t = fn_.type(fn_.ops[id].results[0]);
        bytes += t.elements() * ByteSize(t.dtype);
        rows = std::max(rows, t.shape[0]);
      }
    for (ValueId v : Crossing())
      if (fn_.type(v).elements() > target_.lowering.ahead_elements &&
          ByteSize(fn_.type(v).dtype) < 4)
        bytes += 2 * fn_.type(v).elements() * ByteSize(fn_.type(v).dtype);
    const int64_t warpgroups = rows % 192 == 0 ? 3 : rows >= 128 ? 2 : 1;
    const int64_t quota = target_.ComputeQuota(warpgroups);
    const int64_t limit = (quota - quota / kNotFilled) / isa::kQuotaStep * isa::kQuotaStep;
    return bytes / (4 * 128 * warpgroups) + target_.registers.beside_by_rule <= limit;
  }

  // Stage-0 values (and the position) that stage 1 reads one iteration later.
  std::vector<ValueId> Crossing() const {
    std::vector<ValueId> out;
    const ValueId position = fn_.blocks[body_].args[0];
    for (OpId id : fn_.blocks[body_].ops) {
      if (!late_.count(id)) continue;
      for (ValueId v : fn_.ops[id].operands) {
        if (v == position || !InBody(v)) continue;
        const OpId def = fn_.values[v].def;
        if (def.valid() && late_.count(def)) continue;
        if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
      }
    }
    return out;
  }

  // Stage-0 ops: those D1 needs, or the others; the ones that read stage 1's results last.
  void Stage0(Builder& b, ValueMap& map, bool head, bool tail) {
    std::set<ValueId> late;
    std::vector<OpId> last;
    for (size_t i = 0; i < from_late_.size(); ++i)
      if (from_late_[i]) late.insert(fn_.blocks[body_].args[1 + i]);
    for (OpId id : ops_) {
      if (late_.count(id) || fn_.ops[id].kind == OpKind::kYield) continue;
      if (first_.count(id)) {
        if (head) CloneOp(b, fn_, id, map);
        continue;
      }
      if (!tail) continue;
      const Op& op = fn_.ops[id];
      const bool waits = std::any_of(op.operands.begin(), op.operands.end(),
                                     [&](ValueId v) { return late.count(v) > 0; });
      if (!waits) {
        CloneOp(b, fn_, id, map);
        continue;
      }
      for (ValueId r : op.results) late.insert(r);
      last.push_back(id);
    }
    for (OpId id : last) CloneOp(b, fn_, id, map);
  }
  void Stage1(Builder& b, ValueMap& map) {
    for (OpId id : ops_)
      if (late_.count(id)) CloneOp(b, fn_, id, map);
  }

  // What one iteration hands to the next: results of the loop that stage 0 makes, and what stage 1
  // reads of it.
  struct Handed {
    std::vector<size_t> early;
    std::vector<ValueId> crossing;
    std::vector<Type> types;
  };
  // Stage 0 of an iteration, and stage 1 of the one before.
  void Steady(const Op& loop, OpId steady, const Handed& handed) {
    const std::vector<ValueId> args = fn_.blocks[body_].args;
    const std::vector<ValueId> yields = Yield().operands;
    const int64_t step = loop.i("step");
    const BlockId turn = fn_.AddBlock(steady);
    fn_.ops[steady].regions.push_back(turn);
    ValueMap now, old;
    const ValueId position = fn_.AddArg(turn, Type::Scalar(DType::kI64), fn_.values[args[0]].name);
    now[args[0]] = position;
    size_t k = 0;
    for (size_t i : handed.early)
      now[args[1 + i]] = fn_.AddArg(turn, handed.types[k++], fn_.values[args[1 + i]].name);
    for (ValueId v : handed.crossing) old[v] = fn_.AddArg(turn, handed.types[k++]);
    Builder t(fn_, turn);
    t.SetSpan(loop.at);
    Stage0(t, now, true, false);
    old[args[0]] = t.Binary(OpKind::kSub, position, t.Int(step));
    Stage1(t, old);
    for (size_t i = 0; i < loop.results.size(); ++i)
      if (from_late_[i]) now[args[1 + i]] = At(old, yields[i]);
    Stage0(t, now, false, true);
    std::vector<ValueId> next;
    for (size_t i : handed.early) next.push_back(At(now, yields[i]));
    for (ValueId v : handed.crossing) next.push_back(At(now, v));
    t.Yield(std::move(next));
  }
  // Stage 1 of the last iteration; returns the loop's results.
  std::vector<ValueId> Epilogue(Builder& b, const Op& loop, OpId steady, const Handed& handed) {
    const std::vector<ValueId> args = fn_.blocks[body_].args;
    const std::vector<ValueId> yields = Yield().operands;
    const ValueId lo = loop.operands[0], hi = loop.operands[1];
    const int64_t step = loop.i("step");
    b.SetSpan(loop.at);
    ValueMap end;
    const ValueId one = b.Int(1), width = b.Int(step);
    const ValueId last =
        b.Binary(OpKind::kDiv, b.Binary(OpKind::kSub, b.Binary(OpKind::kSub, hi, lo), one), width);
    end[args[0]] = b.Binary(OpKind::kAdd, lo, b.Binary(OpKind::kMul, last, width));
    for (size_t i = 0; i < handed.crossing.size(); ++i)
      end[handed.crossing[i]] = fn_.ops[steady].results[handed.early.size() + i];
    Stage1(b, end);
    std::vector<ValueId> results(loop.results.size());
    for (size_t i = 0; i < handed.early.size(); ++i)
      results[handed.early[i]] = fn_.ops[steady].results[i];
    for (size_t i = 0; i < results.size(); ++i)
      if (from_late_[i]) results[i] = At(end, yields[i]);
    return results;
  }

  void Rewrite() {
    const Op loop = fn_.ops[loop_];
    const BlockId home = loop.block;
    ops_ = fn_.blocks[body_].ops;
    const std::vector<ValueId> args = fn_.blocks[body_].args;
    const std::vector<ValueId> yields = Yield().operands;
    Handed handed;
    handed.crossing = Crossing();
    const int64_t step = loop.i("step");

    // The ops of the home block are rebuilt: before the loop, its replacement, after it.
    std::vector<OpId> before = fn_.blocks[home].ops, after;
    const auto at = std::find(before.begin(), before.end(), loop_);
    after.assign(at + 1, before.end());
    before.erase(at, before.end());
    fn_.blocks[home].ops = before;
    Builder b(fn_, home);
    b.SetSpan(loop.at);
    const ValueId lo = loop.operands[0], hi = loop.operands[1];
    const ValueId some = b.Cmp("lt", lo, hi);
    std::vector<Type> types;
    for (ValueId r : loop.results) types.push_back(fn_.type(r));
    const OpId branch = b.Add(OpKind::kIf, {some}, types);
    for (int arm = 0; arm < 2; ++arm) {
      const BlockId block = fn_.AddBlock(branch);
      fn_.ops[branch].regions.push_back(block);
    }
    const BlockId then = fn_.ops[branch].regions[0], otherwise = fn_.ops[branch].regions[1];

    // Prologue: stage 0 of the first iteration.
    b.SetBlock(then);
    ValueMap map;
    map[args[0]] = lo;
    for (size_t i = 0; i < loop.results.size(); ++i) map[args[1 + i]] = loop.operands[2 + i];
    Stage0(b, map, true, true);
    std::vector<ValueId> operands = {b.Binary(OpKind::kAdd, lo, b.Int(step)), hi};
    for (size_t i = 0; i < loop.results.size(); ++i) {
      if (from_late_[i]) continue;
      handed.early.push_back(i);
      operands.push_back(At(map, yields[i]));
      handed.types.push_back(fn_.type(loop.results[i]));
    }
    for (ValueId v : handed.crossing) {
      operands.push_back(At(map, v));
      handed.types.push_back(fn_.type(v));
    }

    const OpId steady = b.Add(OpKind::kFor, std::move(operands), handed.types, {{"step", step}});
    Steady(loop, steady, handed);
    b.Yield(Epilogue(b, loop, steady, handed));
    b.SetBlock(otherwise);
    b.Yield(std::vector<ValueId>(loop.operands.begin() + 2, loop.operands.end()));

    // The loop's results are the branch's now.
    ValueMap outer;
    for (size_t i = 0; i < loop.results.size(); ++i)
      outer[loop.results[i]] = fn_.ops[branch].results[i];
    for (OpId id : after) {
      fn_.blocks[home].ops.push_back(id);
      ReplaceOperands(fn_, id, outer);
    }
  }

  Function& fn_;
  OpId loop_;
  BlockId body_;
  const Target& target_;
  OpId second_;
  std::vector<OpId> ops_;
  std::set<OpId> late_;          // stage 1
  std::set<OpId> first_;         // stage 0, what the other products need
  std::vector<bool> from_late_;  // loop result made by stage 1
};

void CollectLoops(const Function& fn, BlockId block, std::vector<OpId>& loops) {
  for (OpId id : fn.blocks[block].ops) {
    if (fn.ops[id].kind == OpKind::kFor) loops.push_back(id);
    for (BlockId region : fn.ops[id].regions) CollectLoops(fn, region, loops);
  }
}

}  // namespace

Result<> PipelineProducts(Function& fn, PassContext& cx) {
  std::vector<OpId> loops;
  CollectLoops(fn, fn.body, loops);
  for (OpId loop : loops) cx.changes += Pipeliner(fn, loop, cx.target).Run();
  return Done();
}

}  // namespace tilec::ir
