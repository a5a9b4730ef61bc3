// SPDX-License-Identifier: Apache-2.0
#include "scheduler/slicing.h"

#include <algorithm>

namespace tilec::scheduler {

using ir::Op;
using ir::OpKind;
using ir::ValueId;

DimClasses::DimClasses(const ir::Function& fn, ir::OpId loop) : fn_(fn) {
  const Op& op = fn.ops[loop];
  const ir::Block& body = fn.blocks[op.regions[0]];
  for (ir::OpId id : body.ops) Visit(fn.ops[id]);
  // Carried values: initial value, block argument, next value and result are one tile.
  const Op& yield = fn.ops[body.ops.back()];
  for (size_t i = 0; i + 1 < body.args.size(); ++i) {
    JoinAll(body.args[i + 1], op.operands[i + 2]);
    JoinAll(body.args[i + 1], yield.operands[i]);
    JoinAll(body.args[i + 1], op.results[i]);
  }
  Choose();
}

int DimClasses::Node(ValueId v, int64_t dim) {
  auto [it, fresh] = nodes_.try_emplace({v, dim}, static_cast<int>(parent_.size()));
  if (fresh) parent_.push_back(it->second);
  return it->second;
}

int DimClasses::Find(int node) const {
  while (parent_[node] != node) node = parent_[node];
  return node;
}

void DimClasses::Join(ValueId a, int64_t da, ValueId b, int64_t db) {
  const int x = Find(Node(a, da)), y = Find(Node(b, db));
  parent_[std::max(x, y)] = std::min(x, y);
}

void DimClasses::JoinAll(ValueId a, ValueId b) {
  for (int64_t d = 0; d < std::min(fn_.type(a).rank(), fn_.type(b).rank()); ++d) Join(a, d, b, d);
}

void DimClasses::Whole(ValueId v, int64_t dim) { whole_.push_back(Node(v, dim)); }

void DimClasses::Visit(const Op& op) {
  const auto value = [&](size_t i) { return op.operands[i]; };
  if (ir::Info(op.kind).elementwise()) {
    for (ValueId v : op.operands) JoinAll(op.results[0], v);
    return;
  }
  if (op.kind == OpKind::kDot) {
    Join(value(0), 0, value(2), 0);
    Join(value(1), 1, value(2), 1);
    Join(value(0), 1, value(1), 0);
    JoinAll(value(2), op.results[0]);
    Whole(value(0), 1);
    rows_.emplace_back(Node(value(2), 0), fn_.type(value(2)).shape[0]);
  } else if (op.kind == OpKind::kBroadcast) {
    const std::vector<int64_t>& axes = op.ints("axes");
    for (size_t i = 0; i < axes.size(); ++i)
      if (fn_.type(value(0)).shape[i] == fn_.type(op.results[0]).shape[axes[i]])
        Join(value(0), static_cast<int64_t>(i), op.results[0], axes[i]);
  } else if (op.kind == OpKind::kTranspose) {
    const std::vector<int64_t>& perm = op.ints("perm");
    for (size_t i = 0; i < perm.size(); ++i)
      Join(op.results[0], static_cast<int64_t>(i), value(0), perm[i]);
  } else if (op.kind == OpKind::kReshape) {
    // Dims of extent 1 come and go; the others stay in order.
    const auto wide = [&](ValueId v) {
      std::vector<int64_t> dims;
      for (int64_t d = 0; d < fn_.type(v).rank(); ++d)
        if (fn_.type(v).shape[d] != 1) dims.push_back(d);
      return dims;
    };
    const std::vector<int64_t> a = wide(value(0)), b = wide(op.results[0]);
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      Join(value(0), a[i], op.results[0], b[i]);
  } else if (op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce) {
    const int64_t axis = op.i("axis");
    Whole(value(0), axis);
    for (int64_t d = 0, r = 0; d < fn_.type(value(0)).rank(); ++d)
      if (d != axis) Join(value(0), d, op.results[0], r++);
  } else if (op.kind == OpKind::kScan) {
    Whole(value(0), op.i("axis"));
    JoinAll(value(0), op.results[0]);
  }
}

// The class that most products have as their rows.
void DimClasses::Choose() {
  std::set<int> whole;
  for (int node : whole_) whole.insert(Find(node));
  std::map<int, std::pair<int, int64_t>> votes;
  for (const auto& [node, extent] : rows_)
    if (whole.count(Find(node)) == 0) {
      ++votes[Find(node)].first;
      votes[Find(node)].second = extent;
    }
  int most = 0;
  for (const auto& [node, vote] : votes)
    if (vote.first > most) {
      most = vote.first;
      slice_ = node;
      extent_ = vote.second;
    }
}

bool DimClasses::Sliced(ValueId v) const {
  if (slice_ < 0) return false;
  for (int64_t d = 0; d < fn_.type(v).rank(); ++d)
    if (auto it = nodes_.find({v, d}); it != nodes_.end() && Find(it->second) == slice_)
      return true;
  return false;
}

}  // namespace tilec::scheduler
