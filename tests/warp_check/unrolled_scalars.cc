// The scalars of a program that is unrolled: what each is where it can be known, and what steers
// the roles where nothing else of them is followed.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/warp_check/unroller.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tests/warp_check/core_tiles.h"

namespace tilec::ir {

namespace {

constexpr int64_t kFarOff = int64_t{1} << 30;

}  // namespace

void Unroller::Pass(const std::vector<ValueId>& from, size_t first_from,
                    const std::vector<ValueId>& to, size_t first_to) {
  std::vector<Number> values;
  for (size_t i = first_to; i < to.size(); ++i)
    values.push_back(Get(from[i - first_to + first_from]));
  for (size_t i = first_to; i < to.size(); ++i) Env(to[i]) = values[i - first_to];
  if (steering_ == nullptr) core_.Pass(from, first_from, to, first_to);
}

void Unroller::Steer(const Op& op) {
  switch (op.kind) {
    case OpKind::kYield: return;
    case OpKind::kCounter: counters_[op.results[0]] = op.i("init"); return;
    case OpKind::kCounterAdd: counters_[op.operands[0]] += op.i("by"); return;
    case OpKind::kCounterRead: Env(op.results[0]) = counters_[op.operands[0]]; return;
    case OpKind::kTmemAlloc: Env(op.results[0]) = 0; return;
    default: return Compute(op);
  }
}

void Unroller::Compute(const Op& op) {
  const std::optional<Number> handed = MadeUp(op.results[0]);
  Env(op.results[0]) = handed ? *handed : Evaluate(op);
}

Unroller::Number Unroller::Evaluate(const Op& op) {
  if (op.kind == OpKind::kProgramId) return Cta();
  if (op.kind == OpKind::kClusterRank) return Cta() % fn_.launch.cluster;
  std::vector<int64_t>& v = numbers_;
  v.clear();
  for (ValueId o : op.operands) {
    if (op.kind == OpKind::kGLoadScalar && o == op.operands[0]) continue;
    const Number n = Get(o);
    if (!n) return std::nullopt;
    v.push_back(*n);
  }
  const DType dtype = fn_.type(op.results[0]).dtype;
  if (IsFloat(dtype) && made_up_.empty()) return std::nullopt;
  auto floor_div = [](int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  };
  switch (op.kind) {
    case OpKind::kConstant:  // a float as a whole number near it: roles only have to agree
      return static_cast<int64_t>(IsFloat(dtype) ? std::clamp(op.number("value"), -1e6, 1e6)
                                                 : op.number("value"));
    case OpKind::kGLoadScalar: {  // some number, always the same one
      const Param* tensor = fn_.param(op.operands[0]);
      if (!tensor || tensor->direction != Direction::kIn) return std::nullopt;
      uint64_t h = seed_ + static_cast<uint64_t>(op.operands[0].index);
      for (int64_t x : v) h = (h ^ static_cast<uint64_t>(x)) * 0x9E3779B97F4A7C15u + (h >> 29);
      return static_cast<int64_t>((h >> 40) % (dtype == DType::kBool ? 2 : 400));
    }
    case OpKind::kCast: return dtype == DType::kBool ? v[0] != 0 : v[0];
    case OpKind::kNeg: return -v[0];
    case OpKind::kAbs: return std::abs(v[0]);
    case OpKind::kNot: return dtype == DType::kBool ? !v[0] : ~v[0];
    case OpKind::kSelect: return v[0] ? v[1] : v[2];
    case OpKind::kAdd: return v[0] + v[1];
    case OpKind::kSub: return v[0] - v[1];
    case OpKind::kMul: return v[0] * v[1];
    case OpKind::kDiv: return v[1] == 0 ? std::nullopt : Number(floor_div(v[0], v[1]));
    case OpKind::kMod:
      return v[1] == 0 ? std::nullopt : Number(v[0] - floor_div(v[0], v[1]) * v[1]);
    case OpKind::kMin: return std::min(v[0], v[1]);
    case OpKind::kMax: return std::max(v[0], v[1]);
    case OpKind::kAnd: return v[0] & v[1];
    case OpKind::kOr: return v[0] | v[1];
    case OpKind::kXor: return v[0] ^ v[1];
    case OpKind::kCmp: {
      const std::string& p = op.s("pred");
      // Whether positions fit 32 bits: all of them do, or, as if sizes were huge, none does.
      if (std::abs(v[0] - v[1]) >= kFarOff && seed_ % 4 == 0) return false;
      return p == "eq"   ? v[0] == v[1]
             : p == "ne" ? v[0] != v[1]
             : p == "lt" ? v[0] < v[1]
             : p == "le" ? v[0] <= v[1]
             : p == "gt" ? v[0] > v[1]
                         : v[0] >= v[1];
    }
    default: return std::nullopt;
  }
}

}  // namespace tilec::ir
