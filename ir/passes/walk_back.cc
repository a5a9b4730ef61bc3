// A loop over pieces of a row that reads again what the loop in front of it read begins at the end:
//
//     for c in 0..C step s { … X[r, c] … }   for c in 0..C step s { Y[r, c] = f(X[r, c]) }   →
//     for c in 0..C step s { … X[r, c] … }   for c in 0..C step s { Y[r, last − c] = … }
//
// Why. What was read last is nearest: of rows that do not find room in the L1, or all together in
// the L2, a second walk from the front finds nothing any more where one from the end finds what
// there is room for.
//
// Softmax of 2894x53048 f32 took 379 us for 480. Where rows slide (ir/lower/slides.h) only a loop
// that reads two tensors more than the one in front of it: layernorm in two walks of 2761x66455
// took 412 for 484, of 1297x120743 364 for 413; but softmax of 3830x51933 bf16 266 for 256, and
// rmsnorm of 4431x81607 648 for 595 (of 146x66097 27.6 for 29.7).
//
// Loops of which nobody can say in which order their turns were: nothing is carried but what each
// turn adds or compares (ir/passes/loop_parts.h), and no turn stores where another one does. Of
// known bounds, so that all that is known of a position's place is known of `last − c` too. In
// programs with several loops and without products; whoever is pinned stays.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "ir/lower/operands.h"
#include "ir/lower/slides.h"
#include "ir/lower/stored_over.h"
#include "ir/passes/loop_parts.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"
#include "ir/passes/split_loops.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

class BackWalker {
 public:
  BackWalker(Function& fn, PassContext& cx)
      : fn_(fn), cx_(cx), over_(StoredOver(fn)), slides_(SlideOf(fn)) {}

  void Block(BlockId block) {
    std::optional<Walk> before;
    const std::vector<OpId> ops = fn_.blocks[block].ops;
    for (OpId id : ops) {
      if (fn_.ops[id].kind != OpKind::kFor) continue;
      std::optional<Walk> walk = WalkOf(id);
      if (walk && before && !before->back && walk->turns == before->turns &&
          Shares(*walk, *before) && (!slides_ || ReadsMore(*walk, *before)) && MayTurn(id)) {
        Turn(id, *walk);
        walk->back = true;
      }
      before = walk;
    }
  }

 private:
  struct Walk {
    std::tuple<int64_t, int64_t, int64_t> turns;  // from, to, step
    std::set<ValueId> tensors;                    // pieces of which it reads
    bool back = false;
  };

  // Nothing: it is no walk over pieces, in several turns that are known.
  std::optional<Walk> WalkOf(OpId id) const {
    const Op& loop = fn_.ops[id];
    const int64_t* low = IntConstantOf(fn_, loop.operands[0]);
    const int64_t* high = IntConstantOf(fn_, loop.operands[1]);
    const int64_t step = loop.i("step");
    if (!low || !high || *low < 0 || step < 1 || *high - *low <= step) return std::nullopt;
    Walk walk{{*low, *high, step}, {}, false};
    for (OpId inner : fn_.blocks[loop.regions[0]].ops) {
      const Op& op = fn_.ops[inner];
      if (!op.regions.empty() || op.attr("pin_depth") || op.attr("pin_stage") ||
          op.attr("pin_role") || op.attr("pin_cycle"))
        return std::nullopt;
      if (op.kind == OpKind::kLoad && fn_.type(op.results[0]).is_tile())
        walk.tensors.insert(op.operands[0]);
    }
    return walk;
  }
  static bool Shares(const Walk& a, const Walk& b) {
    return std::any_of(a.tensors.begin(), a.tensors.end(),
                       [&](ValueId t) { return b.tensors.count(t) > 0; });
  }
  static bool ReadsMore(const Walk& a, const Walk& b) {
    return std::count_if(a.tensors.begin(), a.tensors.end(),
                         [&](ValueId t) { return b.tensors.count(t) == 0; }) > 1;
  }

  bool MayTurn(OpId id) const {
    for (OpId inner : fn_.blocks[fn_.ops[id].regions[0]].ops) {
      const Op& op = fn_.ops[inner];
      if (op.kind == OpKind::kStore ? over_.count(inner) > 0
                                    : Info(op.kind).effect == OpEffect::kWrite)
        return false;
      if (op.kind == OpKind::kLoad && !IsReadOnlyLoad(fn_, op)) return false;
    }
    if (fn_.ops[id].results.empty()) return true;
    LoopParts parts;
    return !FindLoopParts(fn_, Uses(fn_), id, &parts) && parts.places.empty();
  }

  void Turn(OpId id, const Walk& walk) {
    const auto [low, high, step] = walk.turns;
    const BlockId body = fn_.ops[id].regions[0];
    const std::vector<OpId> old = std::move(fn_.blocks[body].ops);
    fn_.blocks[body].ops.clear();
    Builder b(fn_, body);
    b.SetSpan(fn_.ops[id].at);
    const ValueId at = fn_.blocks[body].args[0];
    const ValueId ends = b.Int(2 * low + (high - 1 - low) / step * step);
    const ValueMap map = {{at, b.Binary(OpKind::kSub, ends, at)}};
    for (OpId op : old) {
      ReplaceOperands(fn_, op, map);
      fn_.blocks[body].ops.push_back(op);
    }
    ++cx_.changes;
  }

  Function& fn_;
  PassContext& cx_;
  const StoresOver over_;
  const bool slides_;
};

}  // namespace

Result<> WalkBack(Function& fn, PassContext& cx) {
  if (!HasSeveralLoops(fn)) return Done();
  for (const Op& op : fn.ops)
    if (op.kind == OpKind::kDot) return Done();
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == OpKind::kParallel) {
      BackWalker(fn, cx).Block(fn.ops[id].regions[0]);
      return Done();
    }
  return Done();
}

}  // namespace tilec::ir
