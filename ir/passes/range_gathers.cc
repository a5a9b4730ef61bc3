// Gathers of consecutive positions become ranges, which TMA can bring.
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

#include "ir/integer_range.h"
#include "ir/passes/passes.h"
#include "ir/passes/rewrite.h"

namespace tilec::ir {
namespace {

constexpr int64_t kWrap = int64_t{1} << 32;
constexpr int kLongestSum = 64;  // nobody writes longer sums

// i ↦ steps · i + constant + Σ factor · scalar, modulo 2³².
struct Line {
  int64_t steps = 0, constant = 0;
  std::map<ValueId, int64_t> terms;
};

class Ranges {
 public:
  Ranges(Function& fn, PassContext& cx) : fn_(fn), cx_(cx), known_(fn) {}

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
    std::string modes = op.s("modes");
    if (modes.find('p') != std::string::npos) return;  // both move together
    Builder b(fn_, block);
    b.SetSpan(op.at);
    size_t next = store ? 2 : 1;
    std::vector<ValueId> operands(op.operands.begin(),
                                  op.operands.begin() + static_cast<ptrdiff_t>(next));
    for (size_t d = 0; d < modes.size(); ++d) {
      const size_t taken = OperandsOf(modes[d], store);
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
    KnownRange all = IntegerRange{line->constant, line->constant};
    for (const auto& [v, factor] : line->terms) {
      if (factor == 0) continue;
      ValueId term = b.Cast(v, DType::kI64);
      const bool less = factor == -1 && sum.valid();
      if (factor != 1 && !less) term = b.Binary(OpKind::kMul, term, b.Int(factor));
      sum = sum.valid() ? b.Binary(less ? OpKind::kSub : OpKind::kAdd, sum, term) : term;
      all = Plus(all, Times(known_.Of(v), IntegerRange{factor, factor}));
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
    if (Wide(fn_.type(v).dtype) && depth < kLongestSum)
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

  Function& fn_;
  PassContext& cx_;
  std::map<ValueId, std::optional<Line>> lines_;
  IntegerRanges known_;  // what scalars can be
};

}  // namespace

Result<> RangeGathers(Function& fn, PassContext& cx) {
  Ranges(fn, cx).Run(fn.body);
  return Done();
}

}  // namespace tilec::ir
