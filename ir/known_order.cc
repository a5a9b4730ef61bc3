// SPDX-License-Identifier: Apache-2.0
#include "ir/known_order.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ir/queries.h"

namespace tilec::ir {

namespace {

constexpr int kSteps = 8;  // of a chain; a lowered mask needs four
// Numbers that are added are at most so large: chains of them stay far from the ends of 64 bits.
constexpr int64_t kMostAdded = int64_t{1} << 48;

bool IsSmall(const int64_t* number) {
  return number != nullptr && *number >= -kMostAdded && *number <= kMostAdded;
}

// x < y or x ≤ y as its sides, smaller first, and what is added to the smaller one.
struct Comparison {
  ValueId low, high;
  int64_t more = 0;
};

std::optional<Comparison> ComparisonOf(const Function& fn, const Op& op, bool holds) {
  if (op.kind != OpKind::kCmp || !fn.type(op.operands[0]).is_scalar() ||
      fn.type(op.operands[0]).dtype != DType::kI64)
    return std::nullopt;
  const std::string& pred = op.s("pred");
  if (pred != "lt" && pred != "le" && pred != "gt" && pred != "ge") return std::nullopt;
  ValueId low = op.operands[0], high = op.operands[1];
  bool apart = pred == "lt" || pred == "gt";
  if (pred == "gt" || pred == "ge") std::swap(low, high);
  if (!holds) std::swap(low, high), apart = !apart;
  return Comparison{low, high, apart ? 1 : 0};
}

// The loop whose position it is.
const Op* LoopOf(const Function& fn, ValueId v) {
  const BlockId block = fn.values[v].block;
  if (!block.valid() || !fn.blocks[block].parent.valid() || fn.blocks[block].args[0] != v)
    return nullptr;
  const Op& loop = fn.ops[fn.blocks[block].parent];
  return loop.kind == OpKind::kFor ? &loop : nullptr;
}

}  // namespace

bool KnownOrder::IsFar(ValueId v, bool above) {
  const auto [at, news] = far_.insert({{v, above}, false});
  if (!news) return at->second;
  const bool far = FindFar(v, above);
  return far_[{v, above}] = far;
}

bool KnownOrder::FindFar(ValueId v, bool above) {
  if (const Param* p = fn_.param(v)) return p->kind == ParamKind::kDim;
  if (const int64_t* number = IntConstantOf(fn_, v)) return IsSmall(number);
  const Op* op = fn_.def(v);
  if (!op) {
    const OpId around = fn_.blocks[fn_.values[v].block].parent;
    if (around.valid() && fn_.ops[around].kind == OpKind::kParallel) return true;
    const Op* loop = LoopOf(fn_, v);
    return loop && IsFar(loop->operands[above ? 1 : 0], above);
  }
  const auto far = [&](size_t i, bool up) { return IsFar(op->operands[i], up); };
  const auto both = [&](size_t i) { return far(i, true) && far(i, false); };
  switch (op->kind) {
    case OpKind::kCast: {
      const DType from = fn_.type(op->operands[0]).dtype;
      return IsInteger(from) && ByteSize(from) < 8;
    }
    case OpKind::kMin:
      return above ? far(0, above) || far(1, above) : far(0, above) && far(1, above);
    case OpKind::kMax:
      return above ? far(0, above) && far(1, above) : far(0, above) || far(1, above);
    case OpKind::kAdd: return far(0, above) && far(1, above);
    case OpKind::kSub: return far(0, above) && far(1, !above);
    case OpKind::kSelect: return far(1, above) && far(2, above);
    case OpKind::kDiv: return both(0);
    case OpKind::kMul:
    case OpKind::kMod: return both(0) && both(1);
    default: return false;
  }
}

// Constants that are added come off, where the sum cannot wrap.
KnownOrder::Term KnownOrder::Of(ValueId v) {
  Term t{v, 0};
  for (int taken = 0; taken < kSteps; ++taken) {
    if (const int64_t* number = IntConstantOf(fn_, t.base)) {
      if (!IsSmall(number)) return t;
      return {ValueId(), t.offset + *number};
    }
    const Op* op = fn_.def(t.base);
    if (!op || fn_.type(t.base).dtype != DType::kI64) return t;
    if (op->kind != OpKind::kAdd && op->kind != OpKind::kSub) return t;
    const bool adds = op->kind == OpKind::kAdd;
    const int64_t* left = IntConstantOf(fn_, op->operands[0]);
    const int64_t* right = IntConstantOf(fn_, op->operands[1]);
    const int64_t* number = right ? right : adds ? left : nullptr;
    const ValueId base = op->operands[right ? 0 : 1];
    const int64_t more = !IsSmall(number) ? 0 : adds ? *number : -*number;
    if (!IsSmall(number) || !IsFar(base, more > 0)) return t;
    t = {base, t.offset + more};
  }
  return t;
}

bool KnownOrder::Holds(ValueId condition, BlockId block) {
  const Op* op = fn_.def(condition);
  if (!op) return false;
  if (op->kind == OpKind::kAnd || op->kind == OpKind::kOr) {
    const ValueId a = op->operands[0], b = op->operands[1];
    const bool first = Holds(a, block);
    if (first != (op->kind == OpKind::kAnd)) return first;
    return Holds(b, block);
  }
  const std::optional<Comparison> c = ComparisonOf(fn_, *op, true);
  if (!c) return false;
  Term low = Of(c->low);
  low.offset += c->more;
  return AtMost(low, Of(c->high), FactsOf(block), kSteps);
}

bool KnownOrder::TurnsOnce(OpId id) {
  const Op& loop = fn_.ops[id];
  if (loop.kind != OpKind::kFor || fn_.type(loop.operands[0]).dtype != DType::kI64) return false;
  Term second = Of(loop.operands[0]);
  second.offset += loop.i("step");
  return AtMost(Of(loop.operands[1]), second, FactsOf(loop.block), kSteps);
}

bool KnownOrder::AtMost(Term x, Term y, const std::vector<Fact>& facts, int steps) {
  if (x.base == y.base) return x.offset <= y.offset;
  if (ByNumbers(x, y)) return true;
  if (steps == 0) return false;
  if (ByOperands(x, y, facts, steps - 1)) return true;
  return std::any_of(facts.begin(), facts.end(), [&](const Fact& fact) {
    if (fact.low.base != x.base) return false;
    return AtMost({fact.high.base, fact.high.offset + x.offset - fact.low.offset}, y, facts,
                  steps - 1);
  });
}

bool KnownOrder::ByNumbers(const Term& x, const Term& y) {
  const KnownRange a = x.base.valid() ? ranges_.Of(x.base) : IntegerRange{0, 0};
  const KnownRange b = y.base.valid() ? ranges_.Of(y.base) : IntegerRange{0, 0};
  const KnownRange most = Plus(a, IntegerRange{x.offset, x.offset});
  const KnownRange least = Plus(b, IntegerRange{y.offset, y.offset});
  return most && least && most->most <= least->least;
}

// Smaller and larger ones of two, and where a loop begins and ends.
bool KnownOrder::ByOperands(const Term& x, const Term& y, const std::vector<Fact>& facts,
                            int steps) {
  const auto from = [&](ValueId v, int64_t more) {
    const Term t = Of(v);
    return AtMost({t.base, t.offset + x.offset + more}, y, facts, steps);
  };
  const auto to = [&](ValueId v) {
    const Term t = Of(v);
    return AtMost(x, {t.base, t.offset + y.offset}, facts, steps);
  };
  if (const Op* op = x.base.valid() ? fn_.def(x.base) : nullptr) {
    const bool smaller = op->kind == OpKind::kMin, larger = op->kind == OpKind::kMax;
    if (smaller && (from(op->operands[0], 0) || from(op->operands[1], 0))) return true;
    if (larger && from(op->operands[0], 0) && from(op->operands[1], 0)) return true;
  }
  if (const Op* op = y.base.valid() ? fn_.def(y.base) : nullptr) {
    const bool smaller = op->kind == OpKind::kMin, larger = op->kind == OpKind::kMax;
    if (larger && (to(op->operands[0]) || to(op->operands[1]))) return true;
    if (smaller && to(op->operands[0]) && to(op->operands[1])) return true;
  }
  if (const Op* loop = x.base.valid() ? LoopOf(fn_, x.base) : nullptr)
    if (from(loop->operands[1], -1)) return true;
  const Op* loop = y.base.valid() ? LoopOf(fn_, y.base) : nullptr;
  return loop && to(loop->operands[0]);
}

const std::vector<KnownOrder::Fact>& KnownOrder::FactsOf(BlockId block) {
  if (const auto it = facts_.find(block); it != facts_.end()) return it->second;
  std::vector<Fact> facts;
  for (BlockId at = block; fn_.blocks[at].parent.valid();) {
    const Op& op = fn_.ops[fn_.blocks[at].parent];
    if (op.kind == OpKind::kIf) Collect(op.operands[0], op.regions[0] == at, facts);
    at = op.block;
  }
  return facts_[block] = std::move(facts);
}

void KnownOrder::Collect(ValueId condition, bool holds, std::vector<Fact>& facts) {
  const Op* op = fn_.def(condition);
  if (!op) return;
  if (op->kind == (holds ? OpKind::kAnd : OpKind::kOr)) {
    Collect(op->operands[0], holds, facts);
    Collect(op->operands[1], holds, facts);
    return;
  }
  const std::optional<Comparison> c = ComparisonOf(fn_, *op, holds);
  if (!c) return;
  Term low = Of(c->low);
  low.offset += c->more;
  facts.push_back({low, Of(c->high)});
}

}  // namespace tilec::ir
