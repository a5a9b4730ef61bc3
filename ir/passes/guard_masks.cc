// Masks that few iterations of a loop need cost nothing in the others.
//
// A `select` whose condition compares positions (iotas, loop positions, dims) is decided for a
// whole tile by the smallest and largest position in it. Where every element is seen, the select is
// its second operand. So the body of an innermost loop gets two versions:
//
//     for { body }   →   for { if all(c₁) and all(c₂) … { body without masks } else { body } }
//
// all(c) is scalar arithmetic on the ends of ranges, which hold unless a 32-bit position wraps;
// that is part of the condition. It stays one loop with one schedule: both versions do the same, in
// the same order, but for the masks. (Which is why CTAs of a cluster, whose neighbours count on
// their copies in the order of their own, get versions only where all of them take the same. Those
// that share a loop's iterations copy for themselves.) The
// whole iteration is versioned, not the select alone, because a value that meets again behind a
// branch shares its registers with a product in flight, and ptxas then serializes the products
// (C7514, seen).
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/known_order.h"
#include "ir/passes/cluster_values.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

class Guard {
 public:
  Guard(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), order_(fn) {
    const bool exchanges = std::any_of(fn.ops.begin(), fn.ops.end(), [](const Op& op) {
      return op.kind == OpKind::kClusterReduce;
    });
    for (OpId id : fn.blocks[fn.body].ops)
      if (fn.ops[id].kind == OpKind::kParallel && fn.ops[id].i("cluster", 1) > 1 && !exchanges)
        cluster_.emplace(fn, id);
  }

  void Run() { Run(fn_.body, false); }

 private:
  // An i64 value and a constant added to it; no value: the constant alone.
  struct End {
    ValueId base;
    int64_t offset = 0;
  };
  struct Range {
    End lo, hi;
  };
  ValueId Make(Builder& b, const End& e) const {
    if (!e.base.valid()) return b.Int(e.offset);
    return e.offset == 0 ? e.base : b.Binary(OpKind::kAdd, e.base, b.Int(e.offset));
  }
  // x ± y
  End Sum(Builder& b, OpKind kind, const End& x, const End& y) const {
    const bool add = kind == OpKind::kAdd;
    const int64_t offset = add ? x.offset + y.offset : x.offset - y.offset;
    if (!y.base.valid()) return {x.base, offset};
    if (!x.base.valid() && add) return {y.base, offset};
    return {b.Binary(kind, Make(b, {x.base, 0}), y.base), offset};
  }

  void Run(BlockId block, bool seldom) {
    TakeOut(block);
    const std::vector<OpId> ops = fn_.blocks[block].ops;
    for (OpId id : ops) {
      bool inner = false;
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) {
        const bool unlikely = region == regions[0] && fn_.ops[id].i("unlikely") != 0;
        Run(region, seldom || unlikely);
        for (OpId in : fn_.blocks[region].ops) inner = inner || !fn_.ops[in].regions.empty();
      }
      const bool loop = fn_.ops[id].kind == OpKind::kFor && !inner;
      if (loop && !seldom && !order_.TurnsOnce(id)) Version(regions[0]);
    }
  }

  bool IsMask(const Op& op) const {
    return op.kind == OpKind::kSelect &&
           fn_.type(op.results[0]).elements() >= cx_.target.lowering.guard_elements;
  }

  // Masks that are known to do nothing.
  void TakeOut(BlockId block) {
    const std::vector<OpId> old = fn_.blocks[block].ops;
    std::set<OpId> idle;
    Forwarding forward(fn_);
    Builder b(fn_, block);
    for (OpId id : old) {
      const Op op = fn_.ops[id];
      if (!IsMask(op)) continue;
      ranges_.clear();
      fits_ = ValueId();
      const std::optional<ValueId> seen = AllTrue(b, op.operands[0], true);
      if (!seen || !order_.Holds(*seen, block)) continue;
      if (fits_.valid() && !order_.Holds(fits_, block)) continue;
      idle.insert(id);
      forward.Replace(op.results[0], op.operands[1]);
    }
    fn_.blocks[block].ops = old;  // what was asked for is no part of the program
    if (idle.empty()) return;
    std::erase_if(fn_.blocks[block].ops, [&](OpId id) { return idle.count(id) > 0; });
    for (OpId id : fn_.blocks[fn_.body].ops) ReplaceOperands(fn_, id, forward);
    cx_.changes += static_cast<int>(idle.size());
  }

  bool Differs(ValueId v) const { return cluster_ && cluster_->Differs(v); }

  bool IsScalarArithmetic(const Op& op) const {
    return Info(op.kind).effect == OpEffect::kPure && op.regions.empty() &&
           op.results.size() == 1 && fn_.type(op.results[0]).is_scalar() &&
           std::all_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId v) { return fn_.type(v).is_scalar(); });
  }

  void Version(BlockId body) {
    const std::vector<OpId> old = fn_.blocks[body].ops;
    const OpId yield = old.back();
    std::set<ValueId> scalars(fn_.blocks[body].args.begin(), fn_.blocks[body].args.end());
    std::vector<OpId> first, rest;
    for (OpId id : old) {
      const Op& op = fn_.ops[id];
      // Scalars that depend on nothing but scalars stand in front of both versions.
      const bool early = IsScalarArithmetic(op) &&
                         std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId v) {
                           return scalars.count(v) || BlockOf(fn_, v) != body;
                         });
      (early ? first : rest).push_back(id);
      if (early) scalars.insert(op.results[0]);
    }
    fn_.blocks[body].ops = first;
    Builder b(fn_, body);
    b.SetSpan(fn_.ops[yield].at);
    ranges_.clear();
    fits_ = ValueId();
    std::optional<ValueId> all;
    std::set<OpId> masks;
    for (OpId id : rest) {
      const Op op = fn_.ops[id];
      if (!IsMask(op)) continue;
      const std::optional<ValueId> seen = AllTrue(b, op.operands[0], true);
      if (!seen || !Early(*seen, body) || Differs(*seen)) continue;
      masks.insert(id);
      all = all ? b.Binary(OpKind::kAnd, *all, *seen) : *seen;
    }
    if (masks.empty() || (fits_.valid() && (!Early(fits_, body) || Differs(fits_)))) {
      fn_.blocks[body].ops = old;
      return;
    }
    if (fits_.valid()) all = b.Binary(OpKind::kAnd, *all, fits_);
    const std::vector<ValueId> yields = fn_.ops[yield].operands;
    std::vector<Type> types;
    for (ValueId v : yields) types.push_back(fn_.type(v));
    const OpId branch = b.Add(OpKind::kIf, {*all}, std::move(types));
    for (int arm = 0; arm < 2; ++arm) {
      const BlockId block = fn_.AddBlock(branch);
      fn_.ops[branch].regions.push_back(block);
      if (arm == 0)
        Copy(rest, block, masks);
      else
        for (OpId id : rest) {
          fn_.ops[id].block = block;
          fn_.blocks[block].ops.push_back(id);
        }
    }
    b.Yield(fn_.ops[branch].results);
    ++cx_.changes;
  }

  // Is the value there before the versions begin?
  bool Early(ValueId v, BlockId body) const {
    const OpId def = fn_.values[v].def;
    if (!def.valid() || fn_.ops[def].block != body) return true;
    const std::vector<OpId>& ops = fn_.blocks[body].ops;
    if (std::find(ops.begin(), ops.end(), def) == ops.end()) return false;
    return std::all_of(fn_.ops[def].operands.begin(), fn_.ops[def].operands.end(),
                       [&](ValueId operand) { return Early(operand, body); });
  }

  void Copy(const std::vector<OpId>& ops, BlockId block, const std::set<OpId>& masks) {
    ValueMap map;
    Builder b(fn_, block);
    for (OpId id : ops) {
      const Op& op = fn_.ops[id];
      if (masks.count(id))
        map[op.results[0]] = At(map, op.operands[1]);
      else
        CloneOp(b, fn_, id, map);
    }
  }

  // A bool scalar that is true only if every element of the condition is `wanted`. A scalar is its
  // own answer: `window == 0 or …` asks nothing of positions where it holds.
  std::optional<ValueId> AllTrue(Builder& b, ValueId c, bool wanted) {
    const std::optional<ValueId> by_ends = ByEnds(b, c, wanted);
    if (by_ends || !fn_.type(c).is_scalar()) return by_ends;
    return wanted ? c : b.Value(OpKind::kNot, {c}, fn_.type(c));
  }

  std::optional<ValueId> ByEnds(Builder& b, ValueId c, bool wanted) {
    const OpId def = fn_.values[c].def;
    if (!def.valid()) return std::nullopt;
    const Op op = fn_.ops[def];
    switch (op.kind) {
      case OpKind::kBroadcast:
      case OpKind::kReshape:
      case OpKind::kTranspose: return AllTrue(b, op.operands[0], wanted);
      case OpKind::kNot: return AllTrue(b, op.operands[0], !wanted);
      case OpKind::kAnd:
      case OpKind::kOr: {
        const std::optional<ValueId> x = AllTrue(b, op.operands[0], wanted);
        const std::optional<ValueId> y = AllTrue(b, op.operands[1], wanted);
        const bool both = (op.kind == OpKind::kAnd) == wanted;
        if (both) return x && y ? std::optional(b.Binary(OpKind::kAnd, *x, *y)) : std::nullopt;
        if (x && y) return b.Binary(OpKind::kOr, *x, *y);
        return x ? x : y;
      }
      case OpKind::kCmp: return AllCompare(b, op, wanted);
      default: return std::nullopt;
    }
  }

  std::optional<ValueId> AllCompare(Builder& b, const Op& op, bool wanted) {
    if (!IsInteger(fn_.type(op.operands[0]).dtype)) return std::nullopt;
    static const std::map<std::string, std::string> opposite = {
        {"lt", "ge"}, {"ge", "lt"}, {"gt", "le"}, {"le", "gt"}, {"eq", "ne"}, {"ne", "eq"}};
    const std::string pred = wanted ? op.s("pred") : opposite.at(op.s("pred"));
    if (pred == "eq" || pred == "ne") return std::nullopt;
    const std::optional<Range> x = RangeOf(b, op.operands[0]);
    const std::optional<Range> y = x ? RangeOf(b, op.operands[1]) : std::nullopt;
    if (!y) return std::nullopt;
    const bool below = pred == "lt" || pred == "le";
    const End &u = below ? x->hi : x->lo, &v = below ? y->lo : y->hi;
    // Never true whatever the base: there is no iteration that this would serve.
    if (u.base == v.base) {
      const int64_t d = u.offset - v.offset;
      const bool holds = pred == "lt"   ? d < 0
                         : pred == "le" ? d <= 0
                         : pred == "gt" ? d > 0
                                        : d >= 0;
      if (!holds) return std::nullopt;
    }
    return b.Cmp(pred, Make(b, u), Make(b, v));
  }

  // Smallest and largest element of an integer tile or scalar.
  std::optional<Range> RangeOf(Builder& b, ValueId v) {
    if (auto it = ranges_.find(v); it != ranges_.end()) return it->second;
    const Type& type = fn_.type(v);
    if (!IsInteger(type.dtype)) return std::nullopt;
    if (type.is_scalar()) {
      // Dims fit into 32 bits: one that was narrowed is the dim itself.
      const Op* cast = fn_.def(v);
      const bool dim = cast && cast->kind == OpKind::kCast && fn_.param(cast->operands[0]) &&
                       fn_.param(cast->operands[0])->kind == ParamKind::kDim &&
                       ByteSize(type.dtype) >= 4;
      const End wide{dim ? cast->operands[0] : b.Cast(v, DType::kI64), 0};
      return ranges_[v] = Range{wide, wide};
    }
    const OpId def = fn_.values[v].def;
    if (!def.valid()) return std::nullopt;
    const Op op = fn_.ops[def];
    std::optional<Range> range;
    switch (op.kind) {
      case OpKind::kBroadcast:
      case OpKind::kReshape:
      case OpKind::kTranspose: range = RangeOf(b, op.operands[0]); break;
      case OpKind::kConstant:
        if (const int64_t* value = IntConstantOf(fn_, v)) {
          range = Range{{ValueId(), *value}, {ValueId(), *value}};
        }
        break;
      case OpKind::kIota: {
        range = Range{{op.operands[0], 0}, {op.operands[0], type.shape[0] - 1}};
        Fit(b, *range, type.dtype);
        break;
      }
      case OpKind::kAdd:
      case OpKind::kSub: {
        const std::optional<Range> x = RangeOf(b, op.operands[0]);
        const std::optional<Range> y = x ? RangeOf(b, op.operands[1]) : std::nullopt;
        if (!y) break;
        const bool add = op.kind == OpKind::kAdd;
        range = Range{Sum(b, op.kind, x->lo, add ? y->lo : y->hi),
                      Sum(b, op.kind, x->hi, add ? y->hi : y->lo)};
        Fit(b, *range, type.dtype);
        break;
      }
      case OpKind::kMin:
      case OpKind::kMax: {
        const std::optional<Range> x = RangeOf(b, op.operands[0]);
        const std::optional<Range> y = x ? RangeOf(b, op.operands[1]) : std::nullopt;
        if (y)
          range = Range{{b.Binary(op.kind, Make(b, x->lo), Make(b, y->lo)), 0},
                        {b.Binary(op.kind, Make(b, x->hi), Make(b, y->hi)), 0}};
        break;
      }
      default: break;
    }
    if (range) ranges_[v] = *range;
    return range;
  }

  // Positions of 32 bits must not wrap for the range to hold.
  void Fit(Builder& b, const Range& range, DType dtype) {
    if (ByteSize(dtype) >= 8) return;
    const int bits = Info(dtype).bits;
    const int64_t least = IsSigned(dtype) ? -(int64_t{1} << (bits - 1)) : 0;
    const int64_t most = (int64_t{1} << (IsSigned(dtype) ? bits - 1 : bits)) - 1;
    const ValueId fits = b.Binary(OpKind::kAnd, b.Cmp("ge", Make(b, range.lo), b.Int(least)),
                                  b.Cmp("le", Make(b, range.hi), b.Int(most)));
    fits_ = fits_.valid() ? b.Binary(OpKind::kAnd, fits_, fits) : fits;
  }

  Function& fn_;
  PassContext& cx_;
  std::optional<ClusterValues> cluster_;  // where neighbours copy for each other
  KnownOrder order_;
  std::map<ValueId, Range> ranges_;
  ValueId fits_;
};

}  // namespace

Result<> GuardMasks(Function& fn, PassContext& cx) {
  Guard(fn, cx).Run();
  return Done();
}

}  // namespace tilec::ir
