// Loops that read little in a turn make their loads some turns before they use them:
//
//     for t in lo..hi { x = load X[t]; … x … }   →
//     a = load X[lo];  b = load X[lo + step]
//     for t in lo..mid step 2 step (a, b) {
//       … a …;  a' = load X[t + 2 step]
//       … b …;  b' = load X[t + 3 step];  yield a', b'
//     }
//     for t in mid..hi { x = load X[t]; … x … }
//
// The turns that are ahead are written out one behind the other, so that each has its registers: if
// values moved up from turn to turn, a thread would wait for each load to move what it brings.
//
// Why. Without products nothing runs ahead of a loop: its threads load where they read, and wait
// for memory in every turn. What an SM has in flight then is what its threads load in one turn. A
// recurrence over positions loads 8 bytes a thread: with 500 threads 4 KB of the 30 that cover the
// latency of memory (docs/lowering.md). So loads are made as many turns ahead as bring a thread's
// bytes in flight to `ahead_bytes` of the machine. They wait in registers, one for each element.
//
// Short vectors that every thread reads beside them (what a turn has of B and C in a selective
// scan) go along: a turn waits for the last of its loads. Each thread holds all of such a vector,
// so they are fewer turns ahead, as many as kMostOfVectors registers hold.
//
// Where it must not act:
//   - in programs with products, whose loops have rings;
//   - where a turn reads that much already;
//   - on tensors that the kernel writes: what is read must not depend on when;
//   - where a turn moves elements between threads: it holds addresses enough (a transpose of f64
//     spilled);
//   - where a position comes from memory, or from what the loop carries;
//   - in loops of few turns: what is read behind the last turn is read in vain. (It is clipped to
//     the tensor like every load.)
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "ir/passes/clone_chain.h"
#include "ir/passes/passes.h"
#include "ir/passes/row_threads.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

constexpr int64_t kMostAhead = 8;         // turns
constexpr int64_t kMostRegisters = 16;    // of a thread, for what waits
constexpr int64_t kMostOfVectors = 48;    // and for short vectors
constexpr int64_t kShort = 64;            // fewer elements: a thread may hold them all
constexpr int64_t kTurnsForOne = 4;       // a loop has so many for each that is read ahead
constexpr int64_t kMostWrittenOps = 256;  // of the turns that are written out

// How early loads are made: turns, each written out; and of short vectors, which divides them.
struct Turns {
  int64_t tiles = 0;
  int64_t vectors = 0;
};

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

  std::vector<OpId> LoadsOf(BlockId body) const {
    std::vector<OpId> loads;
    for (OpId id : fn_.blocks[body].ops) {
      const Op& op = fn_.ops[id];
      if (!op.regions.empty() || op.kind == OpKind::kTranspose || op.kind == OpKind::kScan ||
          op.kind == OpKind::kRearrange)
        return {};
      if (!IsReadOnlyLoad(fn_, op) || !fn_.type(op.results[0]).is_tile()) continue;
      if (op.attr("pin_depth") || op.attr("pin_stage") || op.attr("pin_role")) return {};
      bool moves = false;
      const bool follows =
          std::all_of(op.operands.begin(), op.operands.end(),
                      [&](ValueId operand) { return CanFollow(fn_, operand, body, &moves); });
      if (follows && moves) loads.push_back(id);
    }
    return loads;
  }

  bool IsShort(OpId load) const { return fn_.type(fn_.ops[load].results[0]).elements() < kShort; }

  // Turns ahead, two or more; 0: none.
  Turns TurnsAhead(const Op& loop, const std::vector<OpId>& loads) const {
    int64_t elements = 0, bytes = 0, words = 0;  // of a turn; words: registers of short vectors
    for (OpId id : loads) {
      const Type& type = fn_.type(fn_.ops[id].results[0]);
      const int64_t size = type.elements() * ByteSize(type.dtype);
      (IsShort(id) ? words : elements) += IsShort(id) ? (size + 3) / 4 : type.elements();
      if (!IsShort(id)) bytes += size;
    }
    if (elements == 0) return {};
    const auto of_thread = [&](int64_t n) { return std::max<int64_t>(1, n / threads_); };
    const int64_t in_flight = cx_.target.lowering.ahead_bytes;
    int64_t turns =
        std::min({kMostAhead, in_flight / of_thread(bytes), kMostRegisters / of_thread(elements)});
    const int64_t* lo = IntConstantOf(fn_, loop.operands[0]);
    const int64_t* hi = IntConstantOf(fn_, loop.operands[1]);
    int64_t length = 0;
    if (lo && hi && !__builtin_sub_overflow(*hi, *lo, &length))
      turns = std::min(turns, length / loop.i("step") / kTurnsForOne);
    turns = std::min(turns, kMostWrittenOps / std::ssize(fn_.blocks[loop.regions[0]].ops));
    if (bytes / threads_ >= in_flight || turns < 2) return {};
    // One turn fewer where its number has the better divisor.
    int64_t vectors = std::min(turns, words ? kMostOfVectors / words : turns);
    while (vectors > 1 && turns % vectors > 1) --vectors;
    if (vectors > 0) turns -= turns % vectors;
    return {turns, vectors};
  }

  void Loop(OpId id) {
    const BlockId body = Body(id), block = fn_.ops[id].block;
    std::vector<OpId> loads = LoadsOf(body);
    const Turns turns = TurnsAhead(fn_.ops[id], loads);
    const int64_t ahead = turns.tiles;
    if (ahead < 2) return;
    if (turns.vectors == 0) std::erase_if(loads, [&](OpId load) { return IsShort(load); });
    const auto depth = [&](OpId load) { return IsShort(load) ? turns.vectors : ahead; };
    const Op loop = fn_.ops[id];  // a copy: adding moves the ops
    const int64_t step = loop.i("step");
    const auto later = [&](Builder& b, ValueId from, int64_t turns) {
      return turns ? b.Binary(OpKind::kAdd, from, b.Int(turns * step)) : from;
    };
    const auto load_at = [&](Builder& b, OpId load, ValueId position) {
      ValueMap map = {{fn_.blocks[body].args[0], position}};
      return CloneChain(b, fn_, fn_.ops[load].results[0], body, map);
    };
    ValueId middle;
    OpId made;
    const std::vector<OpId> front = OpsMadeBy(fn_, block, loop.at, [&](Builder& b) {
      const ValueId lo = loop.operands[0], together = b.Int(ahead * step);
      const ValueId length =
          b.Binary(OpKind::kMax, b.Binary(OpKind::kSub, loop.operands[1], lo), b.Int(0));
      middle = b.Binary(OpKind::kAdd, lo,
                        b.Binary(OpKind::kMul, b.Binary(OpKind::kDiv, length, together), together));
      std::vector<ValueId> operands = loop.operands;
      operands[1] = middle;
      for (int64_t t = 0; t < ahead; ++t)
        for (OpId load : loads)
          if (t < depth(load)) operands.push_back(load_at(b, load, later(b, lo, t)));
      std::vector<Type> types;
      for (size_t i = 2; i < operands.size(); ++i) types.push_back(fn_.type(operands[i]));
      made = b.Add(OpKind::kFor, std::move(operands), std::move(types), loop.attrs);
      fn_.ops[made].set("step", ahead * step);
      MayBeEmpty(made);
      WriteOut(
          made, id, loads,
          [&](Builder& turn, int64_t t, OpId load, ValueId position) {
            return load_at(turn, load, later(turn, position, t + depth(load)));
          },
          turns);
    });
    // What is left of the loop begins where the other ends.
    Op& rest = fn_.ops[id];
    rest.operands[0] = middle;
    for (size_t i = 0; i < rest.results.size(); ++i)
      rest.operands[2 + i] = fn_.ops[made].results[i];
    MayBeEmpty(id);
    RebuildBlock(fn_, block, [&](OpId op, std::vector<OpId>& out) {
      if (op == id) out.insert(out.end(), front.begin(), front.end());
      out.push_back(op);
    });
    cx_.changes += static_cast<int>(loads.size());
  }

  void MayBeEmpty(OpId loop) {
    std::erase_if(fn_.ops[loop].attrs, [](const auto& attr) { return attr.first == "some"; });
  }

  // The turns of the loop in the body of `made`. Each uses what was loaded for it, and then loads
  // for the turn that will have its place: `load_at(turn, load, position)`.
  template <typename F>
  void WriteOut(OpId made, OpId id, const std::vector<OpId>& loads, F&& load_at, Turns turns) {
    const BlockId from = Body(id), body = fn_.AddBlock(made);
    fn_.ops[made].regions.push_back(body);
    const std::vector<ValueId> args = fn_.blocks[from].args;
    const ValueId position = fn_.AddArg(body, Type::Scalar(DType::kI64), fn_.values[args[0]].name);
    std::vector<ValueId> carried;
    for (size_t i = 1; i < args.size(); ++i)
      carried.push_back(fn_.AddArg(body, fn_.type(args[i]), fn_.values[args[i]].name));
    // What each load has brought: slots of the turns t, t + depth, …
    std::vector<std::vector<ValueId>> slots(loads.size());
    for (int64_t t = 0; t < turns.tiles; ++t)
      for (size_t l = 0; l < loads.size(); ++l) {
        if (IsShort(loads[l]) && t >= turns.vectors) continue;
        const ValueId result = fn_.ops[loads[l]].results[0];
        slots[l].push_back(fn_.AddArg(body, fn_.type(result), fn_.values[result].name));
      }
    const auto slot = [&](size_t l, int64_t t) -> ValueId& {
      return slots[l][static_cast<size_t>(t) % slots[l].size()];
    };
    Builder b(fn_, body);
    b.SetSpan(fn_.ops[id].at);
    const int64_t step = fn_.ops[id].i("step");
    for (int64_t t = 0; t < turns.tiles; ++t) {
      ValueMap map;
      map[args[0]] = t ? b.Binary(OpKind::kAdd, position, b.Int(t * step)) : position;
      for (size_t i = 0; i < carried.size(); ++i) map[args[1 + i]] = carried[i];
      for (size_t l = 0; l < loads.size(); ++l) map[fn_.ops[loads[l]].results[0]] = slot(l, t);
      const std::vector<OpId> ops = fn_.blocks[from].ops;
      for (OpId op : ops) {
        if (std::find(loads.begin(), loads.end(), op) != loads.end()) continue;
        if (op != ops.back()) CloneOp(b, fn_, op, map);
      }
      for (size_t i = 0; i < carried.size(); ++i)
        carried[i] = At(map, fn_.ops[ops.back()].operands[i]);
      for (size_t l = 0; l < loads.size(); ++l) slot(l, t) = load_at(b, t, loads[l], position);
    }
    for (int64_t t = 0; t < turns.tiles; ++t)
      for (size_t l = 0; l < loads.size(); ++l)
        if (t < std::ssize(slots[l])) carried.push_back(slots[l][static_cast<size_t>(t)]);
    b.Yield(std::move(carried));
  }

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
