// Largest values that seldom matter are seldom agreed on.
//
//     top = reduce max s                        top = reduce max s, g
//     m'  = select(top > g, top, m)      →      m'  = select(top > g, top, m)
//     f   = … m, m' …                           f   = … m, m' …
//     a   = acc * f[:, None]                    a   = acc * f[:, None]   {seldom}
//
// A softmax need not subtract the largest logit: any number that keeps its exponentials in range
// gives the same. An author who lets the reference of a row stand until a logit is far above it
// writes the program on the left, in which most turns of a loop change no reference. The lanes of
// a row need not agree on its largest logit then: each compares its own with g, and where no lane
// of a warp has one above it, what lane and row have in common does not matter, for whoever reads
// `top` finds it not above g and takes m. All factors f are 1 then, so the warp need not multiply
// the sums that it carries. A vote in place of shuffles on the way from one product to the next,
// and of as many multiplications as a thread has sums.
//
// Only in loops of products (elsewhere warps hide each other's shuffles), only where `top` is read
// by the comparison and its select alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ir/passes/passes.h"
#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

constexpr int kStepsToFactor = 8;  // from a factor to the reference that it is made of

class GuardedMaxima {
 public:
  GuardedMaxima(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), uses_(fn) {}

  void Run(BlockId block) {
    const std::vector<OpId> ops = fn_.blocks[block].ops;
    for (OpId id : ops)
      for (BlockId region : std::vector<BlockId>(fn_.ops[id].regions)) Run(region);
    if (std::none_of(ops.begin(), ops.end(),
                     [&](OpId id) { return fn_.ops[id].kind == OpKind::kDot; }))
      return;
    for (OpId id : ops)
      if (const std::optional<Choice> choice = ChoiceOf(id)) {
        fn_.ops[id].operands.push_back(choice->guard);
        references_.insert(choice->taken);
        ++cx_.changes;
      }
    if (references_.empty()) return;
    for (OpId id : ops) MarkFactor(fn_.ops[id]);
  }

 private:
  struct Choice {
    ValueId guard, taken;
  };

  // Of a largest value that is read by a comparison with a guard and by the select behind it.
  std::optional<Choice> ChoiceOf(OpId id) const {
    const Op& op = fn_.ops[id];
    if (op.kind != OpKind::kReduce || op.s("kind") != "max" || GuardOf(op).valid() ||
        !IsFloat(fn_.type(op.results[0]).dtype))
      return std::nullopt;
    const ValueId top = op.results[0];
    if (uses_.count(top) != 2) return std::nullopt;
    const Op* compared = nullptr;
    const Op* chosen = nullptr;
    for (const Uses::Use& use : uses_.of(top)) {
      const Op& reader = fn_.ops[use.reader];
      if (reader.kind == OpKind::kCmp && Above(reader, top).valid()) compared = &reader;
      if (reader.kind == OpKind::kSelect && use.operand == 1) chosen = &reader;
    }
    if (!compared || !chosen || chosen->operands[0] != compared->results[0]) return std::nullopt;
    const ValueId guard = Above(*compared, top);
    if (!StandsBefore(guard, id)) return std::nullopt;
    return Choice{guard, chosen->results[0]};
  }

  // What `top` is compared with, if the comparison asks whether it is above.
  static ValueId Above(const Op& cmp, ValueId top) {
    if (cmp.s("pred") == "gt" && cmp.operands[0] == top) return cmp.operands[1];
    if (cmp.s("pred") == "lt" && cmp.operands[1] == top) return cmp.operands[0];
    return {};
  }

  bool StandsBefore(ValueId v, OpId id) const {
    const OpId def = fn_.values[v].def;
    if (!def.valid() || fn_.ops[def].block != fn_.ops[id].block) return true;
    for (OpId op : fn_.blocks[fn_.ops[id].block].ops) {
      if (op == def) return true;
      if (op == id) return false;
    }
    return false;
  }

  // acc * f, f of a row: the second operand, however it was written.
  void MarkFactor(Op& op) {
    if (op.kind != OpKind::kMul || op.i("seldom", 0) != 0 ||
        fn_.type(op.results[0]).dtype != DType::kF32)
      return;
    const auto is_factor = [&](ValueId v) {
      const Op* def = fn_.def(v);
      return def && def->kind == OpKind::kBroadcast &&
             fn_.type(def->operands[0]).elements() < fn_.type(v).elements() &&
             MadeOfReference(def->operands[0], kStepsToFactor);
    };
    if (is_factor(op.operands[0]))
      std::swap(op.operands[0], op.operands[1]);
    else if (!is_factor(op.operands[1]))
      return;
    op.attrs.push_back({"seldom", int64_t{1}});
    ++cx_.changes;
  }

  bool MadeOfReference(ValueId v, int steps) const {
    if (references_.count(v) > 0) return true;
    const Op* def = fn_.def(v);
    if (!def || steps == 0 || !fn_.type(v).is_tile()) return false;
    if (!Info(def->kind).elementwise() && def->kind != OpKind::kBroadcast &&
        def->kind != OpKind::kReshape)
      return false;
    return std::any_of(def->operands.begin(), def->operands.end(),
                       [&](ValueId operand) { return MadeOfReference(operand, steps - 1); });
  }

  Function& fn_;
  PassContext& cx_;
  const Uses uses_;
  std::set<ValueId> references_;  // what the selects give
};

}  // namespace

Result<> GuardReductions(Function& fn, PassContext& cx) {
  GuardedMaxima(fn, cx).Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
