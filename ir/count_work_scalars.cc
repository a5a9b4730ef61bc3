// The scalars that steer a tile function, as numbers of the call: which trips its loops make, where
// its tiles lie.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/work_counter.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>

#include "ir/queries.h"
#include "support/expr.h"

namespace tilec::ir {

namespace {

using Counted = WorkCounter::Scalar;

// Integer arithmetic of sizes and positions; what has no row has no value here.
struct ScalarRow {
  OpKind kind;
  const char* pred;
  Counted (*value)(int64_t a, int64_t b);
};
constexpr ScalarRow kScalarRows[] = {
    {OpKind::kAdd, nullptr, [](int64_t a, int64_t b) { return Counted(a + b); }},
    {OpKind::kSub, nullptr, [](int64_t a, int64_t b) { return Counted(a - b); }},
    {OpKind::kMul, nullptr, [](int64_t a, int64_t b) { return Counted(a * b); }},
    {OpKind::kDiv, nullptr,
     [](int64_t a, int64_t b) { return b == 0 ? Counted() : Counted(FloorDiv(a, b)); }},
    {OpKind::kMod, nullptr,
     [](int64_t a, int64_t b) { return b == 0 ? Counted() : Counted(a - FloorDiv(a, b) * b); }},
    {OpKind::kMin, nullptr, [](int64_t a, int64_t b) { return Counted(std::min(a, b)); }},
    {OpKind::kMax, nullptr, [](int64_t a, int64_t b) { return Counted(std::max(a, b)); }},
    {OpKind::kNeg, nullptr, [](int64_t a, int64_t) { return Counted(-a); }},
    {OpKind::kAbs, nullptr, [](int64_t a, int64_t) { return Counted(a < 0 ? -a : a); }},
    {OpKind::kCast, nullptr, [](int64_t a, int64_t) { return Counted(a); }},
    {OpKind::kNot, nullptr, [](int64_t a, int64_t) { return Counted(~a); }},
    {OpKind::kAnd, nullptr, [](int64_t a, int64_t b) { return Counted(a & b); }},
    {OpKind::kOr, nullptr, [](int64_t a, int64_t b) { return Counted(a | b); }},
    {OpKind::kXor, nullptr, [](int64_t a, int64_t b) { return Counted(a ^ b); }},
    {OpKind::kCmp, "eq", [](int64_t a, int64_t b) { return Counted(a == b); }},
    {OpKind::kCmp, "ne", [](int64_t a, int64_t b) { return Counted(a != b); }},
    {OpKind::kCmp, "lt", [](int64_t a, int64_t b) { return Counted(a < b); }},
    {OpKind::kCmp, "le", [](int64_t a, int64_t b) { return Counted(a <= b); }},
    {OpKind::kCmp, "gt", [](int64_t a, int64_t b) { return Counted(a > b); }},
    {OpKind::kCmp, "ge", [](int64_t a, int64_t b) { return Counted(a >= b); }},
};

// Where the rows of each kind begin: they stand together, and loops of tiles ask often.
struct RowsByKind {
  std::array<size_t, std::numeric_limits<uint8_t>::max() + 1> first;  // OpKind is a byte
  RowsByKind() {
    first.fill(std::size(kScalarRows));
    for (size_t r = std::size(kScalarRows); r-- > 0;)
      first[static_cast<size_t>(kScalarRows[r].kind)] = r;
  }
};
const RowsByKind kRowsByKind;

}  // namespace

// Values that decide how much is done: bounds of loops, conditions, starts of ranges. What a loop
// carries decides if what it becomes does.
void WorkCounter::FindSteering() {
  std::vector<ValueId> work;
  const auto need = [&](ValueId v) {
    if (Steer(v) || Tile(v)) return;
    steering_[static_cast<size_t>(v.index)] = true;
    work.push_back(v);
  };
  for (const Op& op : fn_.ops) {
    if (op.kind == OpKind::kFor) need(op.operands[0]), need(op.operands[1]);
    if (op.kind == OpKind::kParallel || op.kind == OpKind::kIf)
      for (ValueId v : op.operands) need(v);
    if (op.kind == OpKind::kWhile) {
      for (ValueId v : op.operands) need(v);
      for (BlockId region : op.regions)
        for (ValueId v : Yielded(region)) need(v);
    }
    const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
    if (!edges_ || (op.kind != OpKind::kLoad && !store)) continue;
    size_t at = store ? 2 : 1;
    for (char mode : op.s("modes")) {
      const size_t takes = OperandsOf(mode, store);
      for (size_t i = 0; i < takes && IsRange(mode); ++i) need(op.operands[at + i]);
      at += takes;
    }
  }
  const std::map<int32_t, std::vector<ValueId>> carried = Carried();
  while (!work.empty()) {
    const ValueId v = work.back();
    work.pop_back();
    if (const auto from = carried.find(v.index); from != carried.end())
      for (ValueId o : from->second) need(o);
    const Op* op = fn_.def(v);
    if (op && op->kind != OpKind::kFor)
      for (ValueId o : op->operands) need(o);
  }
}

std::vector<ValueId> WorkCounter::Yielded(BlockId region) const {
  const std::vector<OpId>& ops = fn_.blocks[region].ops;
  return ops.empty() ? std::vector<ValueId>() : fn_.ops[ops.back()].operands;
}

// By what a loop carries or a branch gives: what it is made of.
std::map<int32_t, std::vector<ValueId>> WorkCounter::Carried() const {
  std::map<int32_t, std::vector<ValueId>> from;
  for (const Op& op : fn_.ops) {
    if (op.kind != OpKind::kFor && op.kind != OpKind::kIf) continue;
    for (BlockId region : op.regions) {
      const std::vector<ValueId> yielded = Yielded(region);
      for (size_t i = 0; i < std::min(yielded.size(), op.results.size()); ++i) {
        std::vector<ValueId>& result = from[op.results[i].index];
        result.push_back(yielded[i]);
        if (op.kind == OpKind::kIf) continue;
        result.push_back(op.operands[2 + i]);
        from[fn_.blocks[region].args[1 + i].index] = {yielded[i], op.operands[2 + i]};
      }
    }
  }
  return from;
}

void WorkCounter::TakeYield(BlockId region, size_t leading, const std::vector<ValueId>& targets) {
  if (fn_.blocks[region].ops.empty()) return;
  const Op& yield = fn_.ops[fn_.blocks[region].ops.back()];
  std::vector<std::pair<Scalar, Extents>> next;
  for (size_t i = 0; i < targets.size(); ++i)
    next.emplace_back(At(yield.operands[leading + i]), Of(yield.operands[leading + i]));
  for (size_t i = 0; i < targets.size(); ++i) {
    Set(targets[i], next[i].first);
    SetOf(targets[i], next[i].second);
  }
}

// Does the loop decide how much is done, inside or behind it?
bool WorkCounter::Steers(const Op& loop) const {
  for (ValueId v : fn_.blocks[loop.regions[0]].args)
    if (!Tile(v) && Steer(v)) return true;
  for (ValueId v : loop.results)
    if (!Tile(v) && Steer(v)) return true;
  return false;
}

WorkCounter::Scalar WorkCounter::EvalScalar(const Op& op) const {
  if (op.kind == OpKind::kConstant) {
    const AttrValue* v = op.attr("value");
    if (const auto* i = v ? std::get_if<int64_t>(v) : nullptr) return *i;
    return std::nullopt;
  }
  if (op.operands.empty() || !IsInteger(fn_.type(op.results[0]).dtype)) {
    if (op.kind != OpKind::kCmp && fn_.type(op.results[0]).dtype != DType::kBool)
      return std::nullopt;
  }
  for (ValueId o : op.operands)
    if (Tile(o) || !At(o) || IsFloat(fn_.type(o).dtype)) return std::nullopt;
  const int64_t a = *At(op.operands[0]);
  const int64_t b = op.operands.size() > 1 ? *At(op.operands[1]) : 0;
  if (op.kind == OpKind::kSelect) return a ? b : *At(op.operands[2]);
  if (op.kind == OpKind::kNot && fn_.type(op.results[0]).dtype == DType::kBool) return !a;
  const size_t first = kRowsByKind.first[static_cast<size_t>(op.kind)];
  for (size_t r = first; r < std::size(kScalarRows); ++r) {
    const ScalarRow& row = kScalarRows[r];
    if (row.kind != op.kind) break;
    if (row.pred == nullptr || op.s("pred") == row.pred) return row.value(a, b);
  }
  return std::nullopt;
}

void WorkCounter::LookUp(const Op& op, std::map<int32_t, double>& moved, DType dtype,
                         Known* known) {
  known->dims = &dims_.at(op.operands[0].index);
  known->sizes = &op.ints("sizes");
  known->modes = &op.s("modes");
  known->bytes = ByteSize(dtype);
  if (op.i("kept") <= 0) known->moved = &moved[op.operands[0].index];
}

}  // namespace tilec::ir
