// Names for what a loop carries, so that roles which steer by it agree. Such a scalar cannot stay
// the number or the term that it is: it would grow, and no state would be met again. Two names do
// not grow:
//
//   - `c + k` in every iteration of a loop with a frame: the number, with as much of the frame's
//     zero added as it grows per position. It moves with the position from then on.
//   - any other recurrence that is made of what all roles can compute: the recurrence, as text, and
//     the position. Roles with the same text and the same position have the same value, by
//     induction over the iterations: the text holds what the first iteration receives, where it
//     starts, and how each follows from the one before.
//
// What is neither is a value of its own, which nobody else knows.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {
namespace {

// The text of a recurrence.
class Recurrence {
 public:
  // `outside`: the scalar of a value from outside the loop as text, "" if it is not common
  // knowledge.
  template <typename F>
  Recurrence(const Program& p, const Frame& frame, const F& outside)
      : fn_(p.fn), frame_(frame), outside_(outside) {}

  std::string Of(ValueId arg) {
    Value(arg);
    for (size_t i = 0; i < carried_.size() && good_; ++i) {  // grows on the way
      const ValueId yielded = Yield(frame_.block, carried_[i] - 1);
      out_ += fmt::format(";{}<", Scalar(frame_.init[carried_[i]]));
      Value(yielded);
    }
    return good_ ? out_ : "";
  }

 private:
  std::string Scalar(const warp_check::Scalar& s) const {
    return fmt::format("{}+{}", s.form, s.add);
  }

  ValueId Yield(BlockId block, size_t i) const {
    return fn_.ops[fn_.blocks[block].ops.back()].operands[i];
  }

  bool Inside(BlockId block) const {
    while (block != frame_.block) {
      const OpId parent = fn_.blocks[block].parent;
      if (!parent.valid()) return false;
      block = fn_.ops[parent].block;
    }
    return true;
  }

  void Value(ValueId v) {
    if (!good_) return;
    const ir::Value& value = fn_.values[v];
    if (value.block == frame_.block && value.block.valid()) {
      Argument(v);
      return;
    }
    const bool inside = value.block.valid() ? Inside(value.block)
                        : value.def.valid() ? Inside(fn_.ops[value.def].block)
                                            : false;
    if (!inside) {
      const std::string text = outside_(v);
      good_ = good_ && !text.empty();
      out_ += "o" + text;
      return;
    }
    if (value.block.valid()) {  // carried by a loop inside
      good_ = false;
      return;
    }
    const auto [it, fresh] = number_.try_emplace(v, number_.size());
    out_ += fmt::format("v{}", it->second);
    if (fresh) Made(fn_.ops[value.def], v);
  }

  void Argument(ValueId v) {
    const std::vector<ValueId>& args = fn_.blocks[frame_.block].args;
    const auto i = static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
    if (i == 0) {
      out_ += "p";
      return;
    }
    auto at = std::find(carried_.begin(), carried_.end(), i);
    if (at == carried_.end()) {
      carried_.push_back(i);
      at = carried_.end() - 1;
    }
    out_ += fmt::format("c{}", at - carried_.begin());
  }

  void Made(const Op& op, ValueId v) {
    out_ += fmt::format("({}.{}", Info(op.kind).mnemonic, Spelling(fn_.type(v).dtype));
    if (op.kind == OpKind::kIf) {
      const auto i = static_cast<size_t>(std::find(op.results.begin(), op.results.end(), v) -
                                         op.results.begin());
      Value(op.operands[0]);
      for (BlockId region : op.regions) out_ += ",", Value(Yield(region, i));
      out_ += ")";
      return;
    }
    if (op.kind == OpKind::kConstant)
      out_ += fmt::format("{:x}", std::bit_cast<uint64_t>(op.number("value")));
    if (op.kind == OpKind::kCmp) out_ += op.s("pred");
    if (op.kind == OpKind::kGLoadScalar) {
      const Param* tensor = fn_.param(op.operands[0]);
      good_ = good_ && tensor && tensor->direction == Direction::kIn;
      out_ += fmt::format("t{}.{}", op.operands[0].index, op.i("has_fill"));
      for (size_t i = 1; i < op.operands.size(); ++i) out_ += ",", Value(op.operands[i]);
    } else {
      good_ = good_ && (Info(op.kind).elementwise() || op.kind == OpKind::kConstant ||
                        op.kind == OpKind::kPin || op.kind == OpKind::kProgramId);
      for (ValueId operand : op.operands) out_ += ",", Value(operand);
    }
    out_ += ")";
  }

  const Function& fn_;
  const Frame& frame_;
  std::function<std::string(ValueId)> outside_;
  std::string out_;
  std::vector<size_t> carried_;       // arguments, in the order of their numbers
  std::map<ValueId, size_t> number_;  // of values made in the loop
  bool good_ = true;
};

// What is added to a carried scalar in every iteration; 0: something else becomes of it.
int64_t Increment(const Function& fn, const Frame& f, ValueId arg) {
  const std::vector<ValueId>& args = fn.blocks[f.block].args;
  const auto i = static_cast<size_t>(std::find(args.begin(), args.end(), arg) - args.begin());
  if (i == args.size() || i == 0) return 0;
  const Op* op = fn.def(fn.ops[fn.blocks[f.block].ops.back()].operands[i - 1]);
  if (!op || (op->kind != OpKind::kAdd && op->kind != OpKind::kSub)) return 0;
  const auto constant = [&](ValueId v) {
    const Op* def = fn.def(v);
    return def && def->kind == OpKind::kConstant ? static_cast<int64_t>(def->number("value")) : 0;
  };
  if (op->operands[0] == arg)
    return op->kind == OpKind::kAdd ? constant(op->operands[1]) : -constant(op->operands[1]);
  return op->kind == OpKind::kAdd && op->operands[1] == arg ? constant(op->operands[0]) : 0;
}

}  // namespace

bool Machine::Increments(const Frame& f, int32_t value) const {
  const ValueId arg(value);
  return fn_.ops[f.op].kind == OpKind::kFor && f.frame_atom >= 0 &&
         fn_.values[arg].block == f.block && IsInteger(fn_.type(arg).dtype) &&
         Increment(fn_, f, arg) != 0;
}

Scalar Machine::CarriedAs(const Frame& f, int32_t value, const Scalar& now) {
  const ValueId arg(value);
  const Op& op = fn_.ops[f.op];
  const bool counts = op.kind == OpKind::kFor && fn_.values[arg].block == f.block;
  if (counts && f.frame_atom >= 0 && IsInteger(fn_.type(arg).dtype)) {
    const int64_t by = Increment(fn_, f, arg), step = op.i("step");
    const Form& form = terms_.form(now.form);
    const bool framed = std::any_of(form.begin(), form.end(),
                                    [&](const auto& part) { return part.first == f.frame_atom; });
    if (by != 0 && by % step == 0 && !framed) {
      const Scalar zero = terms_.OfAtom(f.frame_atom);
      const Scalar moved = terms_.Add(now, zero, by / step);
      if (!terms_.Overgrown(moved.form)) return moved;
    }
  }
  const auto common = [&](const Scalar& s) { return PrivatesOf(s.form).empty(); };
  if (counts && std::all_of(f.init.begin(), f.init.end(), common)) {
    Recurrence text(p_, f, [&](ValueId v) {
      const Scalar s = Get(v);
      return common(s) ? fmt::format("{}+{}", s.form, s.add) : std::string();
    });
    std::string all = text.Of(arg);
    if (!all.empty()) {
      const int64_t step = op.i("step");
      all +=
          fmt::format("@{}+{} by {}", f.position.form, f.position.add - (f.turns - 1) * step, step);
      const auto [it, fresh] =
          recurrences_.try_emplace(all, static_cast<int64_t>(recurrences_.size()));
      Scalar at = f.position;
      at.add += step;
      if (f.frame_atom >= 0) at = terms_.Add(at, terms_.OfAtom(f.frame_atom));
      return terms_.Of({Atom::Kind::kCarried, it->second, 0, {at}});
    }
  }
  const int64_t tag = static_cast<int64_t>(role_) << 32 | f.op.index;
  return terms_.Of({Atom::Kind::kPrivate, tag, s_->privates[tag]++, {}});
}

}  // namespace tilec::ir::warp_check
