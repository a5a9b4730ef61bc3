// Masks that are needed in few turns of a loop cost nothing in the others.
//
// A `select` whose condition compares positions (iotas, loop positions, dims) is decided for a whole
// tile by the smallest and largest position in it. Where every element is seen, the select is its
// second operand:
//
//     r = select(c, a, b)   →   r = if all(c) { a } else { c′ = …; select(c′, a, b) }
//
// all(c) is scalar arithmetic on the ends of the ranges; what computes c moves into the arm that
// needs it. One loop, one schedule; only the masked op has two versions. Ranges are computed in 64
// bits and hold only if no 32-bit position wraps, which is part of the condition.
//
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

constexpr int64_t kWorthwhile = 2048;  // elements: smaller selects are cheaper than a branch

class Guard {
 public:
  Guard(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Run(BlockId block, bool in_loop) {
    const std::vector<OpId> old = fn_.blocks[block].ops;
    for (OpId id : old) {
      const bool loop = fn_.ops[id].kind == OpKind::kFor;
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Run(region, in_loop || loop);
    }
    if (!in_loop) return;
    fn_.blocks[block].ops.clear();
    for (OpId id : old)
      if (!Guarded(id, block)) fn_.blocks[block].ops.push_back(id);
  }

 private:
  struct Range {
    ValueId lo, hi;  // i64
  };

  bool Guarded(OpId id, BlockId block) {
    const Op op = fn_.ops[id];  // a copy: adding moves the ops
    if (op.kind != OpKind::kSelect || fn_.type(op.results[0]).elements() < kWorthwhile)
      return false;
    const size_t before = fn_.blocks[block].ops.size();
    Builder b(fn_, block);
    b.SetSpan(op.at);
    ranges_.clear();
    fits_ = ValueId();
    std::optional<ValueId> all = AllTrue(b, op.operands[0], true);
    if (!all) {
      fn_.blocks[block].ops.resize(before);
      return false;
    }
    if (fits_.valid()) all = b.Binary(OpKind::kAnd, *all, fits_);
    const ValueId result = op.results[0];
    const OpId branch = b.Add(OpKind::kIf, {*all}, {fn_.type(result)});
    for (int arm = 0; arm < 2; ++arm) {
      const BlockId body = fn_.AddBlock(branch);
      fn_.ops[branch].regions.push_back(body);
      Builder inner(fn_, body);
      inner.SetSpan(op.at);
      if (arm == 0) {
        inner.Yield({op.operands[1]});
        continue;
      }
      std::map<ValueId, ValueId> copies;
      const ValueId mask = Copy(inner, op.operands[0], block, copies);
      const OpId select = inner.Add(OpKind::kSelect, {mask, op.operands[1], op.operands[2]},
                                    {fn_.type(result)}, op.attrs);
      inner.Yield({fn_.ops[select].results[0]});
    }
    // The branch gives the value its name: users stay as they are.
    const ValueId fresh = fn_.ops[branch].results[0];
    fn_.values[fresh].def = OpId();
    fn_.values[result].def = branch;
    fn_.ops[branch].results[0] = result;
    fn_.ops[id].results.clear();
    ++cx_.changes;
    return true;
  }

  // What computes the mask, as far as it is cheap and stands in this block.
  ValueId Copy(Builder& b, ValueId v, BlockId block, std::map<ValueId, ValueId>& copies) {
    if (auto it = copies.find(v); it != copies.end()) return it->second;
    const OpId def = fn_.values[v].def;
    if (!def.valid() || fn_.ops[def].block != block) return v;
    const Op op = fn_.ops[def];
    const bool cheap = Info(op.kind).elementwise() || op.kind == OpKind::kBroadcast ||
                       op.kind == OpKind::kReshape || op.kind == OpKind::kTranspose ||
                       op.kind == OpKind::kIota || op.kind == OpKind::kConstant;
    if (!cheap || op.results.size() != 1 || fn_.type(v).is_scalar()) return v;
    std::vector<ValueId> operands;
    for (ValueId operand : op.operands) operands.push_back(Copy(b, operand, block, copies));
    return copies[v] = b.Value(op.kind, std::move(operands), fn_.type(v), op.attrs);
  }

  // A bool scalar that is true only if every element of the condition is `wanted`.
  std::optional<ValueId> AllTrue(Builder& b, ValueId c, bool wanted) {
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
    return b.Cmp(pred, below ? x->hi : x->lo, below ? y->lo : y->hi);
  }

  // Smallest and largest element of an integer tile or scalar.
  std::optional<Range> RangeOf(Builder& b, ValueId v) {
    if (auto it = ranges_.find(v); it != ranges_.end()) return it->second;
    const Type& type = fn_.type(v);
    if (!IsInteger(type.dtype)) return std::nullopt;
    if (type.is_scalar()) {
      const ValueId wide = b.Cast(v, DType::kI64);
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
          const ValueId constant = b.Int(*value);
          range = Range{constant, constant};
        }
        break;
      case OpKind::kIota: {
        const ValueId start = op.operands[0];
        range = Range{start, b.Binary(OpKind::kAdd, start, b.Int(type.shape[0] - 1))};
        Fit(b, *range, type.dtype);
        break;
      }
      case OpKind::kAdd:
      case OpKind::kSub: {
        const std::optional<Range> x = RangeOf(b, op.operands[0]);
        const std::optional<Range> y = x ? RangeOf(b, op.operands[1]) : std::nullopt;
        if (!y) break;
        const bool add = op.kind == OpKind::kAdd;
        range = Range{b.Binary(op.kind, x->lo, add ? y->lo : y->hi),
                      b.Binary(op.kind, x->hi, add ? y->hi : y->lo)};
        Fit(b, *range, type.dtype);
        break;
      }
      case OpKind::kMin:
      case OpKind::kMax: {
        const std::optional<Range> x = RangeOf(b, op.operands[0]);
        const std::optional<Range> y = x ? RangeOf(b, op.operands[1]) : std::nullopt;
        if (y)
          range = Range{b.Binary(op.kind, x->lo, y->lo), b.Binary(op.kind, x->hi, y->hi)};
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
    const ValueId fits = b.Binary(OpKind::kAnd, b.Cmp("ge", range.lo, b.Int(least)),
                                  b.Cmp("le", range.hi, b.Int(most)));
    fits_ = fits_.valid() ? b.Binary(OpKind::kAnd, fits_, fits) : fits;
  }

  Function& fn_;
  PassContext& cx_;
  std::map<ValueId, Range> ranges_;
  ValueId fits_;
};

}  // namespace

Result<> GuardMasks(Function& fn, PassContext& cx) {
  Guard(fn, cx).Run(fn.body, false);
  return Done();
}

}  // namespace tilec::ir
