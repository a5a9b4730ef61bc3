// What is looked for is an identity of real numbers, so it is looked for in the arithmetic: an
// exponent is taken apart into multiples of m and m' and the rest (constant factors are known by
// their values, which have to stand outside of the loop); a term is followed to its one power. The
// dim along which m runs is followed too: a tile whose rows are scaled is no tile whose columns
// are.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/passes/rescaled_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/passes/rewrite.h"
#include "ir/uses.h"

namespace tilec::ir {
namespace {

// A scalar: a value, or a constant of whatever shape.
using Factor = std::pair<ValueId, double>;
using Factors = std::vector<Factor>;  // in order
// A multiple of m (of m').
struct Multiple {
  bool next = false, minus = false;
  Factors factors;
  friend bool operator==(const Multiple&, const Multiple&) = default;
};
struct Exponent {
  std::vector<Multiple> of;  // nothing: it does not depend on them
  int64_t axis = -1;         // the dim of the tile along which m runs
};
// A power, or a sum of what it is multiplied by: base^(… − factors · m').
struct Power {
  OpKind base = OpKind::kExp2;
  Factors factors;
  int64_t axis = -1;
};

// Where m is one number, all that it scales is scaled alike, whatever the dim.
constexpr int64_t kOnlyOne = 1 << 20;

class RescaledSumFinder {
 public:
  RescaledSumFinder(const Function& fn, OpId loop)
      : fn_(fn),
        loop_(fn.ops[loop]),
        body_(loop_.regions[0]),
        args_(fn.blocks[body_].args),
        yield_(fn.ops[fn.blocks[body_].ops.back()]),
        uses_(fn) {
    for (size_t i = 1; i < args_.size(); ++i) depends_.insert(args_[i]);
    for (OpId id : fn.blocks[body_].ops) {
      const Op& op = fn.ops[id];
      plain_ = plain_ && op.regions.empty();
      if (std::any_of(op.operands.begin(), op.operands.end(),
                      [&](ValueId v) { return depends_.count(v) > 0; }))
        depends_.insert(op.results.begin(), op.results.end());
    }
  }

  std::optional<RescaledSums> Run() {
    for (size_t i = 0; plain_ && i < loop_.results.size(); ++i) {
      const Type& type = fn_.type(loop_.results[i]);
      if (type.dtype != DType::kF32 || type.rank() != 1 || uses_.count(args_[1 + i]) < 2 ||
          !IsLargest(yield_.operands[i], args_[1 + i]))
        continue;
      found_ = {};
      axis_ = type.elements() == 1 ? kOnlyOne : 0;
      found_.reference = i, found_.old = args_[1 + i], found_.next = yield_.operands[i];
      base_.reset();
      for (size_t k = 0; k < loop_.results.size(); ++k)
        if (ValueId factor; k != i && IsSum(yield_.operands[k], args_[1 + k], &factor))
          found_.sums[k] = factor;
      if (!found_.sums.empty() && NothingElseHangsOnIt()) return found_;
    }
    return std::nullopt;
  }

 private:
  bool Depends(ValueId v) const { return depends_.count(v) > 0; }
  const Op* Def(ValueId v) const {
    const Op* def = fn_.def(v);
    return def && def->block == body_ ? def : nullptr;
  }
  // m, and what does not depend on anything carried, by `max`.
  bool IsLargest(ValueId v, ValueId m) const {
    if (v == m) return true;
    const Op* def = Def(v);
    if (!def || def->kind != OpKind::kMax) return false;
    return (IsLargest(def->operands[0], m) && !Depends(def->operands[1])) ||
           (IsLargest(def->operands[1], m) && !Depends(def->operands[0]));
  }
  bool IsMinusInfinity(ValueId v) const {
    const AttrValue* value = ConstantOf(fn_, Without(fn_, OpKind::kBroadcast, v).value);
    const double* d = value ? std::get_if<double>(value) : nullptr;
    return d && std::isinf(*d) && *d < 0;
  }

  // The dim of a reshape's or broadcast's result that is dim `axis` of its operand; −1: none.
  int64_t Moved(const Op& op, int64_t axis) const {
    const Type &from = fn_.type(op.operands[0]), &to = fn_.type(op.results[0]);
    if (axis == kOnlyOne) return axis;
    if (axis < 0 || from.shape[static_cast<size_t>(axis)] == 1) return -1;
    if (op.kind == OpKind::kBroadcast) return op.ints("axes")[static_cast<size_t>(axis)];
    int64_t before = 0;  // dims of more than one element in front of it
    for (int64_t d = 0; d < axis; ++d) before += from.shape[static_cast<size_t>(d)] != 1;
    for (int64_t d = 0; d < to.rank(); ++d)
      if (to.shape[static_cast<size_t>(d)] != 1 && before-- == 0) return d;
    return -1;
  }

  // A factor: the same in every iteration and for every element.
  std::optional<Factor> AsFactor(ValueId v) const {
    const ValueId scalar = Without(fn_, OpKind::kBroadcast, v).value;
    if (const AttrValue* value = ConstantOf(fn_, scalar)) {
      const double* d = std::get_if<double>(value);
      return d ? std::optional(Factor{ValueId(), *d}) : std::nullopt;
    }
    if (!fn_.type(scalar).is_scalar() || BlockOf(fn_, scalar) == body_) return std::nullopt;
    return Factor{scalar, 0};
  }

  std::optional<Exponent> Both(const Op& op, size_t a, size_t b, bool minus) {
    auto x = ExponentOf(op.operands[a]), y = ExponentOf(op.operands[b]);
    if (!x || !y || (x->axis >= 0 && y->axis >= 0 && x->axis != y->axis)) return std::nullopt;
    for (Multiple& m : y->of) m.minus ^= minus, x->of.push_back(m);
    x->axis = std::max(x->axis, y->axis);
    return x;
  }
  std::optional<Exponent> Times(ValueId v, ValueId by) {
    auto x = ExponentOf(v);
    const auto factor = AsFactor(by);
    if (!x || !factor) return std::nullopt;
    for (Multiple& m : x->of) {
      m.factors.push_back(*factor);
      std::sort(m.factors.begin(), m.factors.end());
    }
    return x;
  }
  std::optional<Exponent> Product(const Op& op) {
    if (Depends(op.operands[0]) == Depends(op.operands[1])) return std::nullopt;
    return Depends(op.operands[0]) ? Times(op.operands[0], op.operands[1])
                                   : Times(op.operands[1], op.operands[0]);
  }

  std::optional<Exponent> ExponentOf(ValueId v) {
    if (!Depends(v)) return Exponent();
    if (v == found_.old) return Exponent{{{false, false, {}}}, axis_};
    if (v == found_.next) {
      found_.guarded = found_.guarded && behind_guard_;
      return Exponent{{{true, false, {}}}, axis_};
    }
    const Op* def = Def(v);
    if (!def) return std::nullopt;
    switch (def->kind) {
      case OpKind::kAdd: return Both(*def, 0, 1, false);
      case OpKind::kSub: return Both(*def, 0, 1, true);
      case OpKind::kNeg: {
        auto x = ExponentOf(def->operands[0]);
        if (x)
          for (Multiple& m : x->of) m.minus = !m.minus;
        return x;
      }
      case OpKind::kMul: return Product(*def);
      case OpKind::kFma: {
        auto x = Depends(def->operands[0]) || Depends(def->operands[1]) ? Product(*def)
                                                                        : std::optional(Exponent());
        const auto y = ExponentOf(def->operands[2]);
        if (!x || !y || (x->axis >= 0 && y->axis >= 0 && x->axis != y->axis)) return std::nullopt;
        x->of.insert(x->of.end(), y->of.begin(), y->of.end());
        x->axis = std::max(x->axis, y->axis);
        return x;
      }
      case OpKind::kReshape:
      case OpKind::kBroadcast: {
        auto x = ExponentOf(def->operands[0]);
        if (x && (x->axis = Moved(*def, x->axis)) < 0) return std::nullopt;
        return x;
      }
      case OpKind::kSelect: {  // where there is no largest value yet, another one in its place
        const Op* cmp = Def(def->operands[0]);
        if (!cmp || cmp->kind != OpKind::kCmp || cmp->operands[0] != found_.next ||
            !IsMinusInfinity(cmp->operands[1]))
          return std::nullopt;
        const bool equal = cmp->s("pred") == "eq";
        if (!equal && cmp->s("pred") != "ne") return std::nullopt;
        if (Depends(def->operands[equal ? 1 : 2])) return std::nullopt;
        const bool outer = std::exchange(behind_guard_, true);
        auto x = ExponentOf(def->operands[equal ? 2 : 1]);
        behind_guard_ = outer;
        return x;
      }
      default: return std::nullopt;
    }
  }

  static bool IsPower(OpKind kind) { return kind == OpKind::kExp2 || kind == OpKind::kExp; }
  // Are all powers of one base, and m multiplied by the same in all?
  bool Agrees(const Power& power) {
    if (!base_) base_ = power;
    return base_->base == power.base && base_->factors == power.factors;
  }

  // f(m, m'): base^(c·m − c·m').
  std::optional<Power> FactorOf(ValueId v) {
    const Op* def = Def(v);
    if (!def) return std::nullopt;
    if (def->kind == OpKind::kReshape || def->kind == OpKind::kBroadcast) {
      auto x = FactorOf(def->operands[0]);
      if (x && (x->axis = Moved(*def, x->axis)) < 0) return std::nullopt;
      return x;
    }
    if (!IsPower(def->kind)) return std::nullopt;
    const auto x = ExponentOf(def->operands[0]);
    if (!x || x->of.size() != 2 || x->of[0].factors != x->of[1].factors) return std::nullopt;
    const Multiple& old = x->of[x->of[0].next ? 1 : 0];
    const Multiple& next = x->of[x->of[0].next ? 0 : 1];
    if (old.next || !next.next || old.minus || !next.minus) return std::nullopt;
    return Power{def->kind, old.factors, x->axis};
  }

  // t(m'): its dim along m; nothing: it is no such term.
  std::optional<Power> Term(ValueId v) {
    const Op* def = Depends(v) ? Def(v) : nullptr;
    if (!def) return std::nullopt;
    const auto moved = [&](auto&& to) -> std::optional<Power> {
      auto x = Term(def->operands[0]);
      if (x && (x->axis = to(x->axis)) < 0) return std::nullopt;
      return x;
    };
    const auto both = [&](size_t a, size_t b) -> std::optional<Power> {
      const auto x = Term(def->operands[a]), y = Term(def->operands[b]);
      return x && y && x->axis == y->axis ? x : std::nullopt;
    };
    const auto times = [&](size_t a, size_t b) -> std::optional<Power> {
      if (Depends(def->operands[a]) && Depends(def->operands[b])) return std::nullopt;
      return Term(def->operands[Depends(def->operands[a]) ? a : b]);
    };
    switch (def->kind) {
      case OpKind::kExp2:
      case OpKind::kExp: {
        const auto x = ExponentOf(def->operands[0]);
        if (!x || x->of.size() != 1 || !x->of[0].next || !x->of[0].minus || x->axis < 0)
          return std::nullopt;
        const Power power = {def->kind, x->of[0].factors, x->axis};
        return Agrees(power) ? std::optional(power) : std::nullopt;
      }
      case OpKind::kCast:
        if (!IsFloat(fn_.type(v).dtype)) return std::nullopt;
        found_.roundings.insert(fn_.values[v].def);
        return Term(def->operands[0]);
      case OpKind::kNeg: return Term(def->operands[0]);
      case OpKind::kAdd:
      case OpKind::kSub: return both(0, 1);
      case OpKind::kMul: return times(0, 1);
      case OpKind::kDiv: return Depends(def->operands[1]) ? std::nullopt : Term(def->operands[0]);
      case OpKind::kSelect:
        if (Depends(def->operands[0])) return std::nullopt;
        if (IsZero(fn_, def->operands[2])) return Term(def->operands[1]);
        if (IsZero(fn_, def->operands[1])) return Term(def->operands[2]);
        return both(1, 2);
      case OpKind::kReshape:
      case OpKind::kBroadcast: return moved([&](int64_t axis) { return Moved(*def, axis); });
      case OpKind::kTranspose:
        return moved([&](int64_t axis) -> int64_t {
          if (axis == kOnlyOne) return axis;
          const std::vector<int64_t>& perm = def->ints("perm");
          return std::find(perm.begin(), perm.end(), axis) - perm.begin();
        });
      case OpKind::kReduce:
        if (def->s("kind") != "sum") return std::nullopt;
        return moved([&](int64_t axis) -> int64_t {
          if (axis == kOnlyOne) return axis;
          const int64_t gone = def->i("axis");
          return axis == gone ? -1 : axis - (axis > gone);
        });
      case OpKind::kDot: return Depends(def->operands[2]) ? std::nullopt : OfProduct(*def);
      default: return std::nullopt;
    }
  }
  // Rows of the left operand, or columns of the right one.
  std::optional<Power> OfProduct(const Op& dot) {
    if (dot.operands.size() > 3 || Depends(dot.operands[0]) == Depends(dot.operands[1]))
      return std::nullopt;
    const int64_t side = Depends(dot.operands[0]) ? 0 : 1;
    auto x = Term(dot.operands[static_cast<size_t>(side)]);
    return x && (x->axis == side || x->axis == kOnlyOne) ? x : std::nullopt;
  }

  // Is v the carried sum times f, and terms, by ops whose results nobody else uses?
  bool IsSum(ValueId v, ValueId carried, ValueId* factor) {
    const Op* def = Def(v);
    if (!def || fn_.type(v).dtype != DType::kF32 || uses_.count(v) != 1) return false;
    const auto along = [&](const std::optional<Power>& term) {
      return term && term->axis == AxisOf(*factor);
    };
    const auto rest = [&](size_t sum, size_t term) {
      return IsSum(def->operands[sum], carried, factor) && along(Term(def->operands[term]));
    };
    const auto scaled = [&](size_t a, size_t b) {
      if (def->operands[a] != carried || uses_.count(carried) != 1) return false;
      const auto f = FactorOf(def->operands[b]);
      if (!f || !Agrees(*f)) return false;
      *factor = def->operands[b];
      return true;
    };
    switch (def->kind) {
      case OpKind::kMul: return scaled(0, 1) || scaled(1, 0);
      case OpKind::kFma: return (scaled(0, 1) || scaled(1, 0)) && along(Term(def->operands[2]));
      case OpKind::kAdd: return rest(0, 1) || rest(1, 0);
      case OpKind::kSub: return rest(0, 1);
      case OpKind::kDot: return IsSum(def->operands[2], carried, factor) && along(OfProduct(*def));
      default: return false;
    }
  }
  int64_t AxisOf(ValueId factor) {
    const auto f = FactorOf(factor);
    return f ? f->axis : -2;
  }

  // Carried values that are no sums of these must not see m or the sums.
  bool NothingElseHangsOnIt() const {
    std::set<ValueId> of = {found_.old, found_.next};
    for (const auto& [k, factor] : found_.sums) of.insert(args_[1 + k]);
    for (OpId id : fn_.blocks[body_].ops) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kYield) continue;
      if (!std::any_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId v) { return of.count(v) > 0; }))
        continue;
      of.insert(op.results.begin(), op.results.end());
    }
    for (size_t k = 0; k < loop_.results.size(); ++k)
      if (!found_.Has(k) && of.count(yield_.operands[k]) > 0) return false;
    return true;
  }

  const Function& fn_;
  const Op& loop_;
  const BlockId body_;
  const std::vector<ValueId>& args_;
  const Op& yield_;
  const Uses uses_;
  std::set<ValueId> depends_;  // on what is carried
  RescaledSums found_;
  std::optional<Power> base_;
  int64_t axis_ = 0;  // of m itself
  bool behind_guard_ = false, plain_ = true;
};

}  // namespace

std::optional<RescaledSums> FindRescaledSums(const Function& fn, OpId loop) {
  return RescaledSumFinder(fn, loop).Run();
}

}  // namespace tilec::ir
