// The instances of a cluster: they run one behind the other up to where they meet, and combine
// their parts there.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/interpret_run.h"

#include <algorithm>

#include "ir/diagnostics.h"

namespace tilec::ir::interpret_internal {

// One instance after the other up to each op that they make together.
bool Worker::RunCluster(const Op& parallel, int64_t first,
                        const std::vector<std::vector<int64_t>>& starts) {
  const size_t ctas = starts.size();
  if (together_.size() != ctas) together_.assign(ctas, {env_, {}});
  const auto enter = [&](size_t rank) {
    std::swap(env_, together_[rank].env);
    std::swap(context_, together_[rank].context);
    instance_ = first + static_cast<int64_t>(rank);
  };
  const auto leave = [&](size_t rank) {
    std::swap(env_, together_[rank].env);
    std::swap(context_, together_[rank].context);
  };
  for (size_t rank = 0; rank < ctas; ++rank) {
    enter(rank);
    Begin(parallel, instance_, starts[rank]);
    leave(rank);
  }
  const std::vector<OpId>& ops = k_.fn.blocks[parallel.regions[0]].ops;
  for (size_t from = 0, to = 0; from < ops.size(); from = to + 1) {
    const auto joins = [&](OpId id) { return k_.fn.ops[id].kind == OpKind::kClusterReduce; };
    to = static_cast<size_t>(
        std::find_if(ops.begin() + static_cast<ptrdiff_t>(from), ops.end(), joins) - ops.begin());
    for (size_t rank = 0; rank < ctas; ++rank) {
      enter(rank);
      bool ok = true;
      for (size_t i = from; i < to && ok; ++i) ok = RunOp(k_.fn.ops[ops[i]]);
      leave(rank);
      if (!ok) return false;
    }
    if (to < ops.size()) Combine(k_.fn.ops[ops[to]]);
  }
  return true;
}

namespace {

// `out` has columns [first, first + its width) of `from`, both of two dims.
void TakeColumns(const Tile& from, int64_t columns, int64_t first, int64_t width, Tile* out) {
  for (size_t i = 0, size = out->size(); i < size; ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto j = static_cast<size_t>(at / width * columns + first + at % width);
    if (first + at % width >= columns) continue;  // the last slice is shorter
    if (from.is_float())
      out->v[i] = from.v[j];
    else
      out->n[i] = from.n[j];
    if (!from.e.empty()) {
      out->e.resize(size);
      out->e[i] = from.e[j];
    }
    out->Mark(i, from.flags(j));
  }
}

}  // namespace

// In the order of the ranks; the first has the result, or all, or each its columns.
void Worker::Combine(const Op& op) {
  Op step = op;
  step.kind = op.s("kind") == "add"   ? OpKind::kAdd
              : op.s("kind") == "max" ? OpKind::kMax
                                      : OpKind::kMin;
  const auto at = [&](size_t rank, ValueId v) -> Tile& { return together_[rank].env[v.index]; };
  const ValueId from = op.operands[0], to = op.results[0];
  const Type& type = k_.fn.type(from);
  Tile sum = at(0, from);
  for (size_t rank = 1; rank < together_.size(); ++rank) {
    Tile next;
    next.Reset(type);
    next.dice = together_[0].context.dice;
    const std::vector<const Tile*> in = {&sum, &at(rank, from)};
    EvalElementwise(step, in, next);
    sum = std::move(next);
  }
  for (size_t rank = 0; rank < together_.size(); ++rank) {
    Tile& out = at(rank, to);
    out.Reset(k_.fn.type(to));
    std::fill(out.v.begin(), out.v.end(), 0.0);
    std::fill(out.n.begin(), out.n.end(), int64_t{0});
  }
  if (op.attr("slices")) {
    const int64_t columns = type.shape[1], width = k_.fn.type(to).shape[1];
    for (size_t rank = 0; rank < static_cast<size_t>(op.i("slices")); ++rank)
      TakeColumns(sum, columns, static_cast<int64_t>(rank) * width, width, &at(rank, to));
    return;
  }
  if (op.i("all", 0) != 0)
    for (size_t rank = 1; rank < together_.size(); ++rank) at(rank, to) = sum;
  at(0, to) = std::move(sum);
}

}  // namespace tilec::ir::interpret_internal
