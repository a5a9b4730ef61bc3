// Factors that a loop of products reads one by one are loaded an iteration before they are used:
//
//     for k { … x · load S[%j, %k] … }   →
//     s = load S[%j, lo]
//     for k (s) { next = load S[%j, k + step];  … x · s …;  yield next }
//
// Why. The scale of a block of 128 × 128 numbers is one number. No copy brings it; threads load it
// where they multiply, and wait for the L2 in every iteration: 10 % of the samples of a product in
// fp8 with such scales (H200, docs/perf_log.md). An iteration later it is there.
//
// Where it must not act:
//   - outside of loops with products: others have read_ahead.cc;
//   - on what the kernel writes, and on integers, which may be positions: the load role computes
//     them for itself, and runs ahead anyway;
//   - where the position comes from memory or from what the loop carries.
// What is read behind the last iteration is not used. It may lie outside of the tensor, where a
// load gives zero.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/scalars_ahead.h"

#include <algorithm>

#include "ir/passes/clone_chain.h"

namespace tilec::ir {
namespace {

class FactorsAhead {
 public:
  explicit FactorsAhead(Function& fn) : fn_(fn) {}

  int Run() {
    for (OpId id : OpsInOrder(fn_))
      if (fn_.ops[id].kind == OpKind::kFor) Loop(id);
    return moved_;
  }

 private:
  std::vector<OpId> LoadsOf(BlockId body) const {
    std::vector<OpId> loads;
    bool products = false;
    for (OpId id : fn_.blocks[body].ops) {
      const Op& op = fn_.ops[id];
      products = products || op.kind == OpKind::kDot;
      if (!IsReadOnlyLoad(fn_, op) || !fn_.type(op.results[0]).is_scalar()) continue;
      if (!IsFloat(fn_.type(op.results[0]).dtype) || op.attr("pin_stage") || op.attr("pin_role"))
        continue;
      bool moves = false;
      const bool follows =
          std::all_of(op.operands.begin() + 1, op.operands.end(),
                      [&](ValueId operand) { return CanFollow(fn_, operand, body, &moves); });
      if (follows && moves) loads.push_back(id);
    }
    return products ? loads : std::vector<OpId>();
  }

  // Ops that `make` appends to the block, moved to its beginning or in front of `before`.
  template <typename F>
  void Insert(BlockId block, OpId before, Span at, F&& make) {
    const std::vector<OpId> made = OpsMadeBy(fn_, block, at, make);
    std::vector<OpId>& ops = fn_.blocks[block].ops;
    const auto place = before.valid() ? std::find(ops.begin(), ops.end(), before) : ops.begin();
    ops.insert(place, made.begin(), made.end());
  }

  void Loop(OpId loop) {
    const BlockId body = fn_.ops[loop].regions[0], outside = fn_.ops[loop].block;
    for (OpId load : LoadsOf(body)) {
      const ValueId loaded = fn_.ops[load].results[0], position = fn_.blocks[body].args[0];
      const Type type = fn_.type(loaded);
      const Span at = fn_.ops[load].at;
      ValueId first, next;
      Insert(outside, loop, at, [&](Builder& b) {
        ValueMap map = {{position, fn_.ops[loop].operands[0]}};
        first = CloneChain(b, fn_, loaded, body, map);
      });
      Insert(body, {}, at, [&](Builder& b) {
        const ValueId step = b.Int(fn_.ops[loop].i("step"));
        ValueMap map = {{position, b.Binary(OpKind::kAdd, position, step)}};
        next = CloneChain(b, fn_, loaded, body, map);
      });
      const ValueId now = fn_.AddArg(body, type, fn_.values[loaded].name);
      for (OpId op : OpsInOrder(fn_))
        for (ValueId& operand : fn_.ops[op].operands)
          if (operand == loaded) operand = now;
      std::erase(fn_.blocks[body].ops, load);
      fn_.ops[fn_.blocks[body].ops.back()].operands.push_back(next);
      fn_.ops[loop].operands.push_back(first);
      const ValueId last = fn_.values.Add({type, loop, {}, fn_.values[loaded].name});
      fn_.ops[loop].results.push_back(last);
      ++moved_;
    }
  }

  Function& fn_;
  int moved_ = 0;
};

}  // namespace

int LoadScalarsAhead(Function& fn) { return FactorsAhead(fn).Run(); }

}  // namespace tilec::ir
