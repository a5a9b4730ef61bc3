// Loops of few turns that load tiles are written out:
//
//     for k in 0..4 { y += load X[t + k] * … }   →   y += load X[t] * …;  y += load X[t + 1] * …; …
//
// Why. Threads load where they read. In a loop each turn waits for its load, and what an SM has in
// flight is one turn of its CTAs; window after window of a pooling or a small convolution was nine
// latencies of memory in a row. Written out, the assembler puts the loads together, as many as find
// registers, and what a position is made of becomes constant.
//
// Where it must not act:
//   - in programs with products, whose loops have rings;
//   - where the number of turns is not known, or many ops would come of it;
//   - where it walks over chunks of a row, which are many bytes in flight each and not a window;
//   - where a turn does something else than compute, load and store, or somebody says how it is to
//     be pipelined.
// Loops in a loop are written out first.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/row_threads.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

constexpr int64_t kMostTurns = 32;
constexpr int64_t kMostOps = 512;  // that come of a loop, constants aside

class TurnWriter {
 public:
  TurnWriter(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), forward_(fn) {
    int64_t largest = 0;
    for (OpId id : OpsInOrder(fn))
      for (ValueId r : fn.ops[id].results)
        if (fn.type(r).is_tile()) largest = std::max(largest, fn.type(r).elements());
    threads_ = ThreadsFor(largest, cx.target.lowering);
  }

  void Walk(BlockId block) {
    RebuildBlock(fn_, block, [&](OpId id, std::vector<OpId>& out) {
      ReplaceOperands(fn_, id, forward_);
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Walk(region);
      if (const int64_t turns = TurnsOf(fn_.ops[id]))
        WriteOut(block, id, turns, out);
      else
        out.push_back(id);
    });
  }

 private:
  // 0: it stays a loop.
  int64_t TurnsOf(const Op& loop) const {
    if (loop.kind != OpKind::kFor || loop.i("narrow", 0) != 0) return 0;
    const int64_t* lo = IntConstantOf(fn_, loop.operands[0]);
    const int64_t* hi = IntConstantOf(fn_, loop.operands[1]);
    int64_t length = 0;
    if (!lo || !hi || __builtin_sub_overflow(*hi, *lo, &length) || length <= 0) return 0;
    if (loop.i("step") != 1 || length > kMostTurns) return 0;
    int64_t ops = 0, bytes = 0, same = 0;  // bytes that all threads load
    const std::set<ValueId> moving = Moving(loop.regions[0]);
    for (OpId id : fn_.blocks[loop.regions[0]].ops) {
      const Op& op = fn_.ops[id];
      const bool memory = op.kind == OpKind::kLoad || op.kind == OpKind::kStore;
      if (op.kind == OpKind::kYield || op.kind == OpKind::kConstant) continue;
      if (!op.regions.empty() || (Info(op.kind).effect != OpEffect::kPure && !memory) ||
          op.attr("pin_depth") || op.attr("pin_stage") || op.attr("pin_role") ||
          op.attr("pin_cycle"))
        return 0;
      // Where threads meet in each turn, nothing is in flight over several.
      if (op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce || op.kind == OpKind::kScan ||
          op.kind == OpKind::kRearrange)
        return 0;
      if (const Type* type = op.kind == OpKind::kLoad ? &fn_.type(op.results[0]) : nullptr;
          type && type->is_tile()) {
        const bool again = IsReadOnlyLoad(fn_, op) && !moving.contains(op.results[0]);
        (again ? same : bytes) += type->elements() * ByteSize(type->dtype);
      }
      ++ops;
    }
    const int64_t most = cx_.target.lowering.written_turns_bytes * threads_;
    const bool few = ops * length <= kMostOps && bytes * length + same <= most;
    return bytes + same > 0 && few ? length : 0;
  }

  // What differs from turn to turn. Loads that do not become one where the loop is written out.
  std::set<ValueId> Moving(BlockId body) const {
    std::set<ValueId> moving(fn_.blocks[body].args.begin(), fn_.blocks[body].args.end());
    for (OpId id : fn_.blocks[body].ops) {
      const Op& op = fn_.ops[id];
      if (std::any_of(op.operands.begin(), op.operands.end(),
                      [&](ValueId v) { return moving.contains(v); }))
        moving.insert(op.results.begin(), op.results.end());
    }
    return moving;
  }

  void WriteOut(BlockId block, OpId id, int64_t turns, std::vector<OpId>& out) {
    const Op loop = fn_.ops[id];  // a copy: adding moves the ops
    const BlockId body = loop.regions[0];
    const std::vector<ValueId> args = fn_.blocks[body].args;
    const std::vector<OpId> ops = fn_.blocks[body].ops;
    const int64_t lo = *IntConstantOf(fn_, loop.operands[0]);
    std::vector<ValueId> carried(loop.operands.begin() + 2, loop.operands.end());
    Builder b(fn_, block);
    for (int64_t turn = 0; turn < turns; ++turn) {
      ValueMap map;
      b.SetSpan(loop.at);
      map[args[0]] = b.Int(lo + turn);
      for (size_t i = 0; i < carried.size(); ++i) map[args[1 + i]] = carried[i];
      for (OpId op : ops)
        if (op != ops.back()) CloneOp(b, fn_, op, map);
      for (size_t i = 0; i < carried.size(); ++i)
        carried[i] = At(map, fn_.ops[ops.back()].operands[i]);
    }
    std::vector<OpId>& made = fn_.blocks[block].ops;
    out.insert(out.end(), made.begin(), made.end());
    made.clear();
    for (size_t i = 0; i < carried.size(); ++i) forward_.Replace(loop.results[i], carried[i]);
    ++cx_.changes;
  }

  Function& fn_;
  PassContext& cx_;
  Forwarding forward_;
  int64_t threads_ = 128;
};

}  // namespace

Result<> FewTurns(Function& fn, PassContext& cx) {
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kDot) return Done();
  TurnWriter(fn, cx).Walk(fn.body);
  return Done();
}

}  // namespace tilec::ir
