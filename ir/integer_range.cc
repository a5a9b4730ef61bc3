// SPDX-License-Identifier: Apache-2.0
#include "ir/integer_range.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ir/queries.h"

namespace tilec::ir {

namespace {

constexpr int64_t kLargestDim = (int64_t{1} << 31) - 1;  // the launcher refuses larger ones
constexpr int kDeep = 64;                                // ops looked through: nobody writes more

KnownRange AllOf(DType d) {
  if (d == DType::kBool) return IntegerRange{0, 1};
  const int bits = Info(d).bits;
  if (!IsInteger(d) || bits > 32) return std::nullopt;
  const int64_t half = int64_t{1} << (bits - 1);
  return IsSigned(d) ? IntegerRange{-half, half - 1} : IntegerRange{0, 2 * half - 1};
}

KnownRange Quotient(const IntegerRange& a, const IntegerRange& by) {  // rounds down
  if (by.least < 1) return std::nullopt;
  const auto at = [](int64_t x, int64_t y) { return x / y - (x % y < 0); };
  return IntegerRange{at(a.least, a.least < 0 ? by.least : by.most),
                      at(a.most, a.most < 0 ? by.most : by.least)};
}

KnownRange Hull(const IntegerRange& a, const IntegerRange& b) {
  return IntegerRange{std::min(a.least, b.least), std::max(a.most, b.most)};
}
KnownRange Smaller(const IntegerRange& a, const IntegerRange& b) {
  return IntegerRange{std::min(a.least, b.least), std::min(a.most, b.most)};
}
KnownRange Larger(const IntegerRange& a, const IntegerRange& b) {
  return IntegerRange{std::max(a.least, b.least), std::max(a.most, b.most)};
}

// Bits that both have; of what is not negative: no more than the smaller.
KnownRange Common(const IntegerRange& a, const IntegerRange& b) {
  for (const auto& [x, y] : {std::pair(a, b), std::pair(b, a)})
    if (x.least >= 0) return IntegerRange{0, y.least >= 0 ? std::min(x.most, y.most) : x.most};
  return std::nullopt;
}

// By a known number of bits.
KnownRange Shifted(const IntegerRange& a, const IntegerRange& by, int bits) {
  if (by.least != by.most || by.least < 0 || by.least >= bits) return std::nullopt;
  return IntegerRange{a.least >> by.least, a.most >> by.least};
}

}  // namespace

KnownRange Plus(const KnownRange& a, const KnownRange& b) {
  IntegerRange r;
  const bool lost = !a || !b || __builtin_add_overflow(a->least, b->least, &r.least) ||
                    __builtin_add_overflow(a->most, b->most, &r.most);
  return lost ? KnownRange() : KnownRange(r);
}

KnownRange Times(const KnownRange& a, const KnownRange& b) {
  if (!a || !b) return std::nullopt;
  int64_t corners[4];
  if (__builtin_mul_overflow(a->least, b->least, &corners[0]) ||
      __builtin_mul_overflow(a->least, b->most, &corners[1]) ||
      __builtin_mul_overflow(a->most, b->least, &corners[2]) ||
      __builtin_mul_overflow(a->most, b->most, &corners[3]))
    return std::nullopt;
  const auto [least, most] = std::minmax_element(std::begin(corners), std::end(corners));
  return IntegerRange{*least, *most};
}

KnownRange IntegerRanges::Of(ValueId v, int depth) {
  if (const auto it = known_.find(v); it != known_.end()) return it->second;
  const DType d = fn_.type(v).dtype;
  if (IsFloat(d)) return std::nullopt;
  KnownRange found = depth < kDeep ? Found(v, depth) : std::nullopt;
  const KnownRange all = AllOf(d);
  // What does not fit has wrapped. An i64 does not: overflow was seen above.
  if (all && (!found || found->least < all->least || found->most > all->most)) found = all;
  if (d == DType::kU64 && found && found->least < 0) found.reset();
  return known_[v] = found;
}

KnownRange IntegerRanges::Found(ValueId v, int depth) {
  if (const Param* p = fn_.param(v))
    return p->kind == ParamKind::kDim ? KnownRange(IntegerRange{0, kLargestDim}) : std::nullopt;
  if (fn_.values[v].block.valid()) return Position(v, depth);
  const Op* op = fn_.def(v);
  if (!op) return std::nullopt;
  const auto of = [&](size_t i) { return Of(op->operands[i], depth + 1); };
  const auto both = [&](size_t i, auto&& make) {  // where both operands are known
    const KnownRange a = of(i), b = a ? of(i + 1) : std::nullopt;
    return b ? make(*a, *b) : KnownRange();
  };
  switch (op->kind) {
    case OpKind::kConstant:
      if (const int64_t* value = IntConstantOf(fn_, v)) return IntegerRange{*value, *value};
      return std::nullopt;
    case OpKind::kIota:
    case OpKind::kWarpIota:
      return Plus(of(0), IntegerRange{0, std::max<int64_t>(fn_.type(v).elements(), 1) - 1});
    case OpKind::kBroadcast:
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kConvert:  // the same numbers, elsewhere
    case OpKind::kWarpBroadcast:
    case OpKind::kWarpReshape:
    case OpKind::kWarpTranspose:
    case OpKind::kCast: return of(0);
    case OpKind::kFor: {  // what it carries
      const auto at = std::find(op->results.begin(), op->results.end(), v) - op->results.begin();
      return Of(fn_.blocks[op->regions[0]].args[1 + static_cast<size_t>(at)], depth + 1);
    }
    case OpKind::kNeg: return Times(of(0), IntegerRange{-1, -1});
    case OpKind::kAdd: return Plus(of(0), of(1));
    case OpKind::kSub: return Plus(of(0), Times(of(1), IntegerRange{-1, -1}));
    case OpKind::kMul: return Times(of(0), of(1));
    case OpKind::kDiv: return both(0, Quotient);
    case OpKind::kMod: {
      const KnownRange by = of(1);
      return by && by->least >= 1 ? KnownRange(IntegerRange{0, by->most - 1}) : std::nullopt;
    }
    case OpKind::kMin: return both(0, Smaller);
    case OpKind::kMax: return both(0, Larger);
    case OpKind::kSelect: return both(1, Hull);
    case OpKind::kAnd: return both(0, Common);
    case OpKind::kShr:
      return both(0, [&](const IntegerRange& a, const IntegerRange& by) {
        return Shifted(a, by, Info(fn_.type(v).dtype).bits);
      });
    default: return std::nullopt;
  }
}

// What a loop begins with, or what an iteration left. What depends on itself may be anything.
KnownRange IntegerRanges::Carried(ValueId v, const Op& loop, size_t index, int depth) {
  known_[v] = AllOf(fn_.type(v).dtype);
  // A pass that asks while it writes the body anew finds it without an end: nothing is known then.
  const std::vector<OpId>& body = fn_.blocks[loop.regions[0]].ops;
  if (body.empty() || fn_.ops[body.back()].kind != OpKind::kYield) return std::nullopt;
  const Op& yield = fn_.ops[body.back()];
  if (2 + index >= loop.operands.size() || index >= yield.operands.size()) return std::nullopt;
  const KnownRange first = Of(loop.operands[2 + index], depth + 1);
  const KnownRange later = first ? Of(yield.operands[index], depth + 1) : std::nullopt;
  return later ? KnownRange(Hull(*first, *later)) : std::nullopt;
}

// Positions of loops and of the grid: from lo up to but without hi.
KnownRange IntegerRanges::Position(ValueId v, int depth) {
  const Block& block = fn_.blocks[fn_.values[v].block];
  if (!block.parent.valid()) return std::nullopt;
  const Op& loop = fn_.ops[block.parent];
  size_t bound = 0;
  if (loop.kind == OpKind::kParallel)
    bound = 2 * static_cast<size_t>(std::find(block.args.begin(), block.args.end(), v) -
                                    block.args.begin());
  else if (loop.kind != OpKind::kFor)
    return std::nullopt;
  else if (block.args[0] != v)
    return Carried(v, loop,
                   static_cast<size_t>(std::find(block.args.begin(), block.args.end(), v) -
                                       block.args.begin()) -
                       1,
                   depth);
  const KnownRange lo = Of(loop.operands[bound], depth + 1);
  const KnownRange hi = Of(loop.operands[bound + 1], depth + 1);
  if (!lo || !hi || hi->most <= lo->least) return std::nullopt;
  return IntegerRange{lo->least, hi->most - 1};
}

}  // namespace tilec::ir
