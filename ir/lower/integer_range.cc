// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/integer_range.h"

#include <algorithm>
#include <array>

namespace tilec::ir {

namespace {

constexpr int kDeep = 16;  // ops that are looked through

std::optional<IntegerRange> OfType(DType d) {
  const int bits = Info(d).bits;
  if (d == DType::kBool) return IntegerRange{0, 1};
  if (IsFloat(d) || bits > 32) return std::nullopt;
  if (IsSigned(d)) return IntegerRange{-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return IntegerRange{0, (int64_t{1} << bits) - 1};
}

std::optional<IntegerRange> Range(const Function& fn, ValueId v, int deep) {
  const std::optional<IntegerRange> all = OfType(fn.type(v).dtype);
  const Op* op = fn.def(v);
  if (!all || !op || deep > kDeep) return all;
  const auto of = [&](size_t i) { return Range(fn, op->operands[i], deep + 1); };
  const auto within = [&](int64_t least, int64_t most) {
    return least >= all->least && most <= all->most ? IntegerRange{least, most} : *all;
  };
  switch (op->kind) {
    case OpKind::kConstant: {
      if (!op->attr("value")) return all;
      const auto value = static_cast<int64_t>(op->number("value"));
      return within(value, value);
    }
    case OpKind::kBroadcast:
    case OpKind::kReshape:
    case OpKind::kTranspose: return of(0);
    case OpKind::kCast: {
      const std::optional<IntegerRange> a = of(0);
      return a ? within(a->least, a->most) : all;
    }
    default: break;
  }
  if (op->operands.size() != 2) return all;
  const std::optional<IntegerRange> a = of(0), b = of(1);
  if (!a || !b) return all;
  switch (op->kind) {
    case OpKind::kAdd: return within(a->least + b->least, a->most + b->most);
    case OpKind::kSub: return within(a->least - b->most, a->most - b->least);
    case OpKind::kMul: {
      const std::array<int64_t, 4> ends = {a->least * b->least, a->least * b->most,
                                           a->most * b->least, a->most * b->most};
      return within(*std::min_element(ends.begin(), ends.end()),
                    *std::max_element(ends.begin(), ends.end()));
    }
    case OpKind::kMin: return within(std::min(a->least, b->least), std::min(a->most, b->most));
    case OpKind::kMax: return within(std::max(a->least, b->least), std::max(a->most, b->most));
    case OpKind::kAnd:  // of what is not negative: no more than the smaller
      for (const auto& [x, y] : {std::pair(*a, *b), std::pair(*b, *a)})
        if (x.least >= 0) return within(0, y.least >= 0 ? std::min(x.most, y.most) : x.most);
      return all;
    case OpKind::kShr:
      if (b->least == b->most && b->least >= 0 && b->least < Info(fn.type(v).dtype).bits)
        return within(a->least >> b->least, a->most >> b->least);
      return all;
    default: return all;
  }
}

}  // namespace

std::optional<IntegerRange> RangeOf(const Function& fn, ValueId v) { return Range(fn, v, 0); }

}  // namespace tilec::ir
