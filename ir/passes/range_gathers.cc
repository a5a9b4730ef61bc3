// Gathers of consecutive positions become ranges, which the copy engine can bring.
//
//     %p = iota %t; %at = add %p, broadcast(%s); load X[%at, …] {modes = "g…"}   →
//     load X[%t + %s, …] {modes = "r…"}
//
// An index tile is followed through what computes modulo 2³²: iotas, scalars that are broadcast,
// sums, differences and conversions between integers of 32 and 64 bits. Where one iota is left, the
// positions are p[i] = wrap(S + i) for a scalar S, where wrap(x) is what an i32 holds of x.
//
// Why a range reads and writes the same. Extents are 2³¹−1 at most (the launcher refuses larger
// ones), so that positions outside 0…2³¹−1 are outside of every tensor; those give the fill, or are
// not written, in both forms. Whether `t` ends before X does is no question: neither an index tile
// nor a range of a load is clipped to the range it comes from. Let n be the length, at most 2³¹.
//   1. The range starts at b = wrap(S). Where b + i < 2³¹, p[i] is b + i. Elsewhere p[i] is
//      b + i − 2³², negative, and b + i is 2³¹ or more: both are outside.
//   2. If S is known to lie in −2³¹…2³²−n, the range starts at S. Below 2³¹, b is S. From there on
//      p[i] = S + i − 2³² is negative, and S + i is 2³¹ or more: both are outside.
// A store's range ends where the tensor does, since a scatter is clipped to the tensor alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

constexpr int64_t kWrap = int64_t{1} << 32;
constexpr int64_t kLargestDim = kWrap / 2 - 1;
constexpr int kDeep = 64;  // nobody writes longer sums

// i ↦ steps · i + constant + Σ factor · scalar, modulo 2³².
struct Line {
  int64_t steps = 0, constant = 0;
  std::map<ValueId, int64_t> terms;
};

struct Interval {
  int64_t least, most;
};

class Ranges {
 public:
  Ranges(Function& fn, PassContext& cx) : fn_(fn), cx_(cx) {}

  void Run(BlockId block) {
    const std::vector<OpId> ops = std::move(fn_.blocks[block].ops);
    fn_.blocks[block].ops.clear();
    for (OpId id : ops) {
      const OpKind kind = fn_.ops[id].kind;
      if (kind == OpKind::kLoad || kind == OpKind::kStore || kind == OpKind::kAtomic)
        Access(block, id);
      fn_.blocks[block].ops.push_back(id);
      const std::vector<BlockId> regions = fn_.ops[id].regions;
      for (BlockId region : regions) Run(region);
    }
  }

 private:
  // Scalars are computed right in front of the access; what is invariant leaves its loops later.
  void Access(BlockId block, OpId id) {
    const Op op = fn_.ops[id];  // a copy: adding moves the ops
    const bool store = op.kind != OpKind::kLoad;
    Builder b(fn_, block);
    b.SetSpan(op.at);
    std::string modes = op.s("modes");
    size_t next = store ? 2 : 1;
    std::vector<ValueId> operands(op.operands.begin(),
                                  op.operands.begin() + static_cast<ptrdiff_t>(next));
    for (size_t d = 0; d < modes.size(); ++d) {
      const size_t taken = modes[d] == 'r' && store ? 2 : 1;
      const std::optional<ValueId> start =
          modes[d] == 'g' ? Start(b, op.operands[next]) : std::nullopt;
      if (start) {
        modes[d] = 'r';
        operands.push_back(*start);
        if (store) operands.push_back(b.FromExpr(fn_.param(op.operands[0])->dims[d]));
        ++cx_.changes;
      } else {
        for (size_t i = 0; i < taken; ++i) operands.push_back(op.operands[next + i]);
      }
      next += taken;
    }
    operands.insert(operands.end(), op.operands.begin() + static_cast<ptrdiff_t>(next),
                    op.operands.end());  // the fill
    fn_.ops[id].operands = std::move(operands);
    fn_.ops[id].set("modes", modes);
  }

  // Where the positions start that the tile holds, if they are consecutive.
  std::optional<ValueId> Start(Builder& b, ValueId positions) {
    const int64_t length = fn_.type(positions).elements();
    const std::optional<Line> line = LineOf(positions);
    if (!line || (line->steps != 1 && length != 1)) return std::nullopt;
    ValueId sum;
    std::optional<Interval> all = Interval{line->constant, line->constant};
    for (const auto& [v, factor] : line->terms) {
      if (factor == 0) continue;
      ValueId term = b.Cast(v, DType::kI64);
      const bool less = factor == -1 && sum.valid();
      if (factor != 1 && !less) term = b.Binary(OpKind::kMul, term, b.Int(factor));
      sum = sum.valid() ? b.Binary(less ? OpKind::kSub : OpKind::kAdd, sum, term) : term;
      all = Plus(all, Times(IntervalOf(v), Interval{factor, factor}));
    }
    if (!sum.valid())
      sum = b.Int(line->constant);
    else if (line->constant != 0)
      sum = b.Binary(OpKind::kAdd, sum, b.Int(line->constant));
    if (all && all->least >= -kWrap / 2 && all->most <= kWrap - length) return sum;
    return b.Cast(b.Cast(sum, DType::kI32), DType::kI64);
  }

  // ---- index tiles -----------------------------------------------------------------------------

  // Arithmetic on these is arithmetic modulo 2³², seen from their low 32 bits.
  static bool Wide(DType d) { return IsInteger(d) && ByteSize(d) >= 4; }

  std::optional<Line> LineOf(ValueId v, int depth = 0) {
    if (const auto it = lines_.find(v); it != lines_.end()) return it->second;
    std::optional<Line> line;
    if (Wide(fn_.type(v).dtype) && depth < kDeep)
      line = fn_.type(v).is_scalar() ? OfScalar(v) : OfTile(v, depth);
    return lines_[v] = line;
  }

  std::optional<Line> OfTile(ValueId v, int depth) {
    const Op* op = fn_.def(v);
    if (!op) return std::nullopt;
    const auto of = [&](size_t i) { return LineOf(op->operands[i], depth + 1); };
    switch (op->kind) {
      case OpKind::kConstant: return Constant(v);
      case OpKind::kIota:
      case OpKind::kBroadcast: {
        const bool iota = op->kind == OpKind::kIota;
        if (!iota && fn_.type(op->operands[0]).elements() != 1) return std::nullopt;  // repeats
        std::optional<Line> line = of(0);
        if (line) line->steps = iota ? 1 : 0;
        return line;
      }
      case OpKind::kReshape:  // dims of extent 1 come and go; the order of elements stays
      case OpKind::kCast: return of(0);
      case OpKind::kAdd: return Sum(of(0), of(1), 1);
      case OpKind::kSub: return Sum(of(0), of(1), -1);
      case OpKind::kNeg: return Sum(Line{}, of(0), -1);
      default: return std::nullopt;
    }
  }

  std::optional<Line> OfScalar(ValueId v) const {
    if (const std::optional<Line> constant = Constant(v)) return constant;
    Line line;
    // What was only narrowed for the sake of the tile is taken as it was.
    for (const Op* op = fn_.def(v);
         op && op->kind == OpKind::kCast && Wide(fn_.type(op->operands[0]).dtype); op = fn_.def(v))
      v = op->operands[0];
    line.terms[v] = 1;
    return line;
  }

  std::optional<Line> Constant(ValueId v) const {
    const int64_t* value = IntConstantOf(fn_, v);
    if (!value) return std::nullopt;
    Line line;
    line.constant = Small(*value);
    return line;
  }

  // Of all numbers that are equal modulo 2³² the one nearest to 0.
  static int64_t Small(int64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v)); }

  static std::optional<Line> Sum(std::optional<Line> x, const std::optional<Line>& y, int sign) {
    if (!x || !y) return std::nullopt;
    x->steps = Small(x->steps + sign * y->steps);
    x->constant = Small(x->constant + sign * y->constant);
    for (const auto& [v, factor] : y->terms) x->terms[v] = Small(x->terms[v] + sign * factor);
    return x;
  }

  // ---- what scalars can be ---------------------------------------------------------------------

  using Known = std::optional<Interval>;

  static Known Plus(const Known& a, const Known& b) {
    Interval r{};
    const bool lost = !a || !b || __builtin_add_overflow(a->least, b->least, &r.least) ||
                      __builtin_add_overflow(a->most, b->most, &r.most);
    return lost ? Known() : Known(r);
  }
  static Known Times(const Known& a, const Known& b) {
    if (!a || !b) return std::nullopt;
    int64_t corners[4];
    if (__builtin_mul_overflow(a->least, b->least, &corners[0]) ||
        __builtin_mul_overflow(a->least, b->most, &corners[1]) ||
        __builtin_mul_overflow(a->most, b->least, &corners[2]) ||
        __builtin_mul_overflow(a->most, b->most, &corners[3]))
      return std::nullopt;
    const auto [least, most] = std::minmax_element(std::begin(corners), std::end(corners));
    return Interval{*least, *most};
  }

  // All values of the type; nothing is said of 64 bits.
  static Known AllOf(DType d) {
    const int bits = Info(d).bits;
    if (!IsInteger(d) || bits > 32) return std::nullopt;
    const int64_t half = int64_t{1} << (bits - 1);
    return IsSigned(d) ? Interval{-half, half - 1} : Interval{0, 2 * half - 1};
  }

  Known IntervalOf(ValueId v, int depth = 0) {
    if (const auto it = intervals_.find(v); it != intervals_.end()) return it->second;
    Known found = depth < kDeep ? Found(v, depth) : std::nullopt;
    const DType d = fn_.type(v).dtype;
    const Known all = AllOf(d);
    // What does not fit has wrapped. An i64 does not: overflow was seen above.
    if (all && (!found || found->least < all->least || found->most > all->most)) found = all;
    if (d == DType::kU64 && found && found->least < 0) found.reset();
    return intervals_[v] = found;
  }

  Known Found(ValueId v, int depth) {
    if (!fn_.type(v).is_scalar() || !IsInteger(fn_.type(v).dtype)) return std::nullopt;
    if (const Param* p = fn_.param(v))
      return p->kind == ParamKind::kDim ? Known(Interval{0, kLargestDim}) : std::nullopt;
    if (const BlockId block = fn_.values[v].block; block.valid()) return Position(block, v, depth);
    const Op* op = fn_.def(v);
    if (!op) return std::nullopt;
    const auto of = [&](size_t i) { return IntervalOf(op->operands[i], depth + 1); };
    switch (op->kind) {
      case OpKind::kConstant:
        if (const int64_t* value = IntConstantOf(fn_, v)) return Interval{*value, *value};
        return std::nullopt;
      case OpKind::kAdd: return Plus(of(0), of(1));
      case OpKind::kSub: return Plus(of(0), Times(of(1), Interval{-1, -1}));
      case OpKind::kNeg: return Times(of(0), Interval{-1, -1});
      case OpKind::kMul: return Times(of(0), of(1));
      case OpKind::kCast: return of(0);
      case OpKind::kDiv: {  // rounds down
        const Known a = of(0), by = of(1);
        if (!a || !by || by->least < 1) return std::nullopt;
        const auto at = [](int64_t x, int64_t y) { return x / y - (x % y < 0); };
        return Interval{at(a->least, a->least < 0 ? by->least : by->most),
                        at(a->most, a->most < 0 ? by->most : by->least)};
      }
      case OpKind::kMod: {
        const Known by = of(1);
        return by && by->least >= 1 ? Known(Interval{0, by->most - 1}) : std::nullopt;
      }
      case OpKind::kMin:
      case OpKind::kMax:
      case OpKind::kSelect: {
        const size_t first = op->kind == OpKind::kSelect ? 1 : 0;
        const Known a = of(first), b = of(first + 1);
        if (!a || !b) return std::nullopt;
        if (op->kind == OpKind::kMin)
          return Interval{std::min(a->least, b->least), std::min(a->most, b->most)};
        if (op->kind == OpKind::kMax)
          return Interval{std::max(a->least, b->least), std::max(a->most, b->most)};
        return Interval{std::min(a->least, b->least), std::max(a->most, b->most)};
      }
      default: return std::nullopt;
    }
  }

  // Positions of loops and of the grid: from lo up to but without hi.
  Known Position(BlockId block, ValueId v, int depth) {
    const OpId parent = fn_.blocks[block].parent;
    if (!parent.valid()) return std::nullopt;
    const Op& loop = fn_.ops[parent];
    const std::vector<ValueId>& args = fn_.blocks[block].args;
    size_t bound = 0;
    if (loop.kind == OpKind::kParallel)
      bound = 2 * static_cast<size_t>(std::find(args.begin(), args.end(), v) - args.begin());
    else if (loop.kind != OpKind::kFor || args[0] != v)
      return std::nullopt;  // carried
    const Known lo = IntervalOf(loop.operands[bound], depth + 1);
    const Known hi = IntervalOf(loop.operands[bound + 1], depth + 1);
    if (!lo || !hi || hi->most <= lo->least) return std::nullopt;
    return Interval{lo->least, hi->most - 1};
  }

  Function& fn_;
  PassContext& cx_;
  std::map<ValueId, std::optional<Line>> lines_;
  std::map<ValueId, Known> intervals_;
};

}  // namespace

Result<> RangeGathers(Function& fn, PassContext& cx) {
  Ranges(fn, cx).Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
