// SPDX-License-Identifier: Apache-2.0
#include "scheduler/most_turns.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/queries.h"
#include "support/expr.h"

namespace tilec::scheduler {
namespace {

using ir::Op;
using ir::OpKind;
using ir::ValueId;

constexpr int kDeep = 16;  // sums and minima looked through

// A value as a number behind another: of a constant there is no other.
struct Behind {
  ValueId base;
  int64_t by = 0;
};

Behind Peel(const ir::Function& fn, ValueId v) {
  Behind at{v, 0};
  for (int i = 0; i < kDeep; ++i) {
    int64_t by = 0;
    if (const int64_t* constant = ir::IntConstantOf(fn, at.base))
      return __builtin_add_overflow(at.by, *constant, &by) ? at : Behind{ValueId(), by};
    const Op* def = fn.def(at.base);
    if (!def || def->kind != OpKind::kAdd) break;
    const int64_t *left = ir::IntConstantOf(fn, def->operands[0]),
                  *right = ir::IntConstantOf(fn, def->operands[1]);
    if ((!left && !right) || __builtin_add_overflow(at.by, left ? *left : *right, &by)) break;
    at = {def->operands[left ? 1 : 0], by};
  }
  return at;
}

// How far `to` is behind `from`, at most.
std::optional<int64_t> MostBetween(const ir::Function& fn, ValueId from, ValueId to, int depth) {
  const Behind a = Peel(fn, from), b = Peel(fn, to);
  int64_t between = 0;
  if (a.base == b.base)
    return __builtin_sub_overflow(b.by, a.by, &between) ? std::nullopt : std::optional(between);
  const Op* def = b.base.valid() ? fn.def(b.base) : nullptr;
  if (!def || depth > kDeep) return std::nullopt;
  const bool smaller = def->kind == OpKind::kMin;
  if (!smaller && def->kind != OpKind::kMax) return std::nullopt;
  const auto x = MostBetween(fn, from, def->operands[0], depth + 1),
             y = MostBetween(fn, from, def->operands[1], depth + 1);
  if (!smaller && (!x || !y)) return std::nullopt;
  if (!x && !y) return std::nullopt;
  const int64_t most = !x ? *y : !y ? *x : smaller ? std::min(*x, *y) : std::max(*x, *y);
  return __builtin_add_overflow(most, b.by, &between) ? std::nullopt : std::optional(between);
}

}  // namespace

std::optional<int64_t> MostTurns(const ir::Function& fn, ir::OpId id) {
  const Op& loop = fn.ops[id];
  const int64_t step = loop.i("step", 1);
  if (loop.kind != OpKind::kFor || step < 1) return std::nullopt;
  const auto length = MostBetween(fn, loop.operands[0], loop.operands[1], 0);
  if (!length) return std::nullopt;
  return std::max<int64_t>(0, CeilDiv(*length, step));
}

std::string TooFewTurns(const ir::Function& fn, ir::OpId loop, int stages) {
  const std::optional<int64_t> most = MostTurns(fn, loop);
  if (stages < 1 || !most || *most > stages + 1) return "";
  const char* as = *most < stages    ? "in program order"
                   : *most == stages ? "as what fills it and what empties it"
                                     : "once between what fills it and what empties it";
  return fmt::format("it has {} turns at most, too few for {} stages: it runs {}", *most,
                     stages + 1, as);
}

}  // namespace tilec::scheduler
