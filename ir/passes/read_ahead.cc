// Loops that read little in a turn make their loads some turns before they use them:
//
//     for t { x = load X[t]; … x … }   →
//     x0 = load X[lo];  x1 = load X[lo + step]
//     for t (a = x0, b = x1) { n = load X[t + 2 step]; … a …; yield b, n }
//
// Why. Without products nothing runs ahead of a loop: its threads load where they read, and wait
// for memory in every turn. What an SM has in flight then is what its threads load in one turn. A
// recurrence over positions loads 8 bytes a thread: with 500 threads 4 KB of the 30 that cover the
// latency of memory (docs/lowering.md). So loads are made as many turns ahead as bring a thread's
// bytes in flight to kInFlight. They wait in registers, one for each element.
//
// Where it must not act:
//   - in programs with products, whose loops have rings;
//   - where a turn reads that much already;
//   - on tensors that the kernel writes: what is read must not depend on when;
//   - where a position comes from memory, or from what the loop carries;
//   - in loops of few turns: what is read behind the last turn is read in vain. (It is clipped to
//     the tensor like every load.)
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/row_threads.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

constexpr int64_t kInFlight = 64;       // bytes of a thread
constexpr int64_t kMostAhead = 8;       // turns
constexpr int64_t kMostRegisters = 16;  // of a thread, for what waits
constexpr int64_t kTurnsForOne = 4;     // a loop has so many for each that is read ahead

class Ahead {
 public:
  Ahead(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Run() {
    std::vector<OpId> loops;
    int64_t largest = 0;
    for (OpId id : OpsInOrder(fn_)) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kDot) return;
      for (ValueId r : op.results)
        if (fn_.type(r).is_tile()) largest = std::max(largest, fn_.type(r).elements());
      if (op.kind == OpKind::kFor && op.i("narrow", 0) == 0) loops.push_back(id);
    }
    threads_ = ThreadsFor(largest, cx_.target.lowering);
    for (OpId id : loops) Loop(id);
  }

 private:
  BlockId Body(OpId loop) const { return fn_.ops[loop].regions[0]; }

  // Can the value be had for another position of the loop? Either it is the same, or scalars make
  // it of the position. `moves`: it is not the same.
  bool Follows(ValueId v, BlockId body, bool* moves) const {
    if (BlockOf(fn_, v) != body) return true;
    if (v == fn_.blocks[body].args[0]) return *moves = true;
    const Op* def = fn_.def(v);
    if (!def || !def->regions.empty() || !fn_.type(v).is_scalar()) return false;
    if (def->kind != OpKind::kConstant && !Info(def->kind).elementwise()) return false;
    return std::all_of(def->operands.begin(), def->operands.end(),
                       [&](ValueId operand) { return Follows(operand, body, moves); });
  }

  std::vector<OpId> LoadsOf(BlockId body) const {
    std::vector<OpId> loads;
    for (OpId id : fn_.blocks[body].ops) {
      const Op& op = fn_.ops[id];
      if (!op.regions.empty()) return {};
      if (!IsReadOnlyLoad(fn_, op) || fn_.type(op.results[0]).elements() < kLeast) continue;
      if (op.attr("pin_depth") || op.attr("pin_stage") || op.attr("pin_role")) return {};
      bool moves = false;
      const bool follows =
          std::all_of(op.operands.begin(), op.operands.end(),
                      [&](ValueId operand) { return Follows(operand, body, &moves); });
      if (follows && moves) loads.push_back(id);
    }
    return loads;
  }

  // Turns ahead; 0: none.
  int64_t TurnsAhead(const Op& loop, const std::vector<OpId>& loads) const {
    int64_t elements = 0, bytes = 0;  // of a turn
    for (OpId id : loads) {
      const Type& type = fn_.type(fn_.ops[id].results[0]);
      elements += type.elements();
      bytes += type.elements() * ByteSize(type.dtype);
    }
    if (elements == 0) return 0;
    const auto of_thread = [&](int64_t n) { return std::max<int64_t>(1, n / threads_); };
    int64_t turns = std::min(
        {kMostAhead, kInFlight / of_thread(bytes), kMostRegisters / of_thread(elements)});
    const int64_t* lo = IntConstantOf(fn_, loop.operands[0]);
    const int64_t* hi = IntConstantOf(fn_, loop.operands[1]);
    int64_t length = 0;
    if (lo && hi && !__builtin_sub_overflow(*hi, *lo, &length))
      turns = std::min(turns, length / loop.i("step") / kTurnsForOne);
    return bytes / threads_ >= kInFlight ? 0 : turns;
  }

  // The load and what makes its position, for the position in `map`.
  ValueId Again(Builder& b, ValueId v, BlockId body, ValueMap& map) {
    if (const auto known = map.find(v); known != map.end()) return known->second;
    if (BlockOf(fn_, v) != body) return v;
    const OpId def = fn_.values[v].def;
    const std::vector<ValueId> operands = fn_.ops[def].operands;
    for (ValueId operand : operands) Again(b, operand, body, map);
    CloneOp(b, fn_, def, map);
    return map.at(v);
  }

  // Ops that `make` appends to the block, taken off again.
  template <typename F>
  std::vector<OpId> Made(BlockId block, Span at, F&& make) {
    const auto before = static_cast<std::ptrdiff_t>(fn_.blocks[block].ops.size());
    Builder b(fn_, block);
    b.SetSpan(at);
    make(b);
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    std::vector<OpId> made(ops.begin() + before, ops.end());
    ops.erase(ops.begin() + before, ops.end());
    return made;
  }

  void Loop(OpId id) {
    const BlockId body = Body(id), block = fn_.ops[id].block;
    const std::vector<OpId> loads = LoadsOf(body);
    const int64_t ahead = TurnsAhead(fn_.ops[id], loads);
    if (ahead < 1) return;
    const Op loop = fn_.ops[id];  // a copy: adding moves the ops
    const ValueId position = fn_.blocks[body].args[0];
    const int64_t step = loop.i("step");
    const auto at = [&](Builder& b, ValueId from, int64_t turns, BlockId of) {
      const ValueId there = turns ? b.Binary(OpKind::kAdd, from, b.Int(turns * step)) : from;
      ValueMap map = {{position, there}};
      std::vector<ValueId> values;
      for (OpId load : loads) values.push_back(Again(b, fn_.ops[load].results[0], of, map));
      return values;
    };
    // By load, what it gives for the turns to come.
    std::vector<std::vector<ValueId>> first(loads.size());
    ValueMap now;
    std::vector<ValueId> next;
    const std::vector<OpId> turn = Made(body, loop.at, [&](Builder& b) {
      next = at(b, position, ahead, body);
    });
    OpId made;
    const std::vector<OpId> front = Made(block, loop.at, [&](Builder& b) {
      for (int64_t t = 0; t < ahead; ++t) {
        const std::vector<ValueId> values = at(b, loop.operands[0], t, body);
        for (size_t l = 0; l < loads.size(); ++l) first[l].push_back(values[l]);
      }
      std::vector<ValueId> operands = loop.operands;
      std::vector<Type> types;
      for (ValueId r : loop.results) types.push_back(fn_.type(r));
      for (const std::vector<ValueId>& values : first)
        for (ValueId v : values) operands.push_back(v), types.push_back(fn_.type(v));
      made = b.Add(OpKind::kFor, std::move(operands), std::move(types), loop.attrs);
    });
    fn_.ops[made].regions = {body};
    fn_.blocks[body].parent = made;
    // In the loop: the oldest is used, the others move up, the newest comes last.
    std::vector<ValueId> carried;
    for (size_t l = 0; l < loads.size(); ++l) {
      const ValueId result = fn_.ops[loads[l]].results[0];
      const Type type = fn_.type(result);
      std::vector<ValueId> waiting;
      for (int64_t t = 0; t < ahead; ++t)
        waiting.push_back(fn_.AddArg(body, type, fn_.values[result].name));
      now[result] = waiting[0];
      carried.insert(carried.end(), waiting.begin() + 1, waiting.end());
      carried.push_back(next[l]);
    }
    const std::vector<OpId> old = fn_.blocks[body].ops;
    for (OpId op : old) ReplaceOperands(fn_, op, now);
    std::vector<ValueId>& yields = fn_.ops[old.back()].operands;
    yields.insert(yields.end(), carried.begin(), carried.end());
    RebuildBlock(fn_, body, [&](OpId op, std::vector<OpId>& out) {
      if (op == old.front()) out.insert(out.end(), turn.begin(), turn.end());
      if (std::find(loads.begin(), loads.end(), op) == loads.end()) out.push_back(op);
    });
    ValueMap behind;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ValueId v = fn_.ops[made].results[i];
      fn_.values[v].name = fn_.values[loop.results[i]].name;
      behind[loop.results[i]] = v;
    }
    RebuildBlock(fn_, block, [&](OpId op, std::vector<OpId>& out) {
      if (op == id)
        out.insert(out.end(), front.begin(), front.end());
      else
        out.push_back(op);
    });
    for (OpId op : fn_.blocks[block].ops)
      if (op != made) ReplaceOperands(fn_, op, behind);
    cx_.changes += static_cast<int>(loads.size());
  }

  static constexpr int64_t kLeast = 64;  // elements of a tile that many threads load
  Function& fn_;
  PassContext& cx_;
  int64_t threads_ = 128;
};

}  // namespace

Result<> ReadAhead(Function& fn, PassContext& cx) {
  Ahead(fn, cx).Run();
  return Done();
}

}  // namespace tilec::ir
