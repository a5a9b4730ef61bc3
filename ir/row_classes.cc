// SPDX-License-Identifier: Apache-2.0
#include "ir/row_classes.h"

#include <algorithm>

#include "ir/queries.h"

namespace tilec::ir {

namespace {
constexpr int64_t kProductRows = 64;  // of a product's instruction
}

RowClasses::RowClasses(const Function& fn) : fn_(fn) {
  Visit(fn.body);
  Choose();
}

RowClasses::RowClasses(const Function& fn, OpId loop) : fn_(fn) {
  Visit(fn.ops[loop].regions[0]);
  VisitStructure(fn.ops[loop]);
  Choose();
}

RowClasses::RowClasses(const Function& fn, ValueId position) : fn_(fn) {
  Visit(fn.body);
  JoinAt(position);
}

RowClasses::RowClasses(const Function& fn, ValueId tile, int64_t dim) : fn_(fn) {
  Visit(fn.body);
  const int chosen = Find(Node(tile, dim));
  if (WholeClasses().count(chosen) > 0) return;
  chosen_ = chosen;
  extent_ = fn.type(tile).shape[static_cast<size_t>(dim)];
}

int RowClasses::Node(ValueId v, int64_t dim) {
  auto [it, fresh] = nodes_.try_emplace({v, dim}, static_cast<int>(parent_.size()));
  if (fresh) parent_.push_back(it->second);
  return it->second;
}

int RowClasses::Find(int node) const {
  while (parent_[static_cast<size_t>(node)] != node) node = parent_[static_cast<size_t>(node)];
  return node;
}

void RowClasses::Join(ValueId a, int64_t da, ValueId b, int64_t db) {
  const int x = Find(Node(a, da)), y = Find(Node(b, db));
  parent_[static_cast<size_t>(std::max(x, y))] = std::min(x, y);
}

void RowClasses::JoinAll(ValueId a, ValueId b) {
  for (int64_t d = 0; d < std::min(fn_.type(a).rank(), fn_.type(b).rank()); ++d) Join(a, d, b, d);
}

void RowClasses::Whole(ValueId v, int64_t dim) { whole_.push_back(Node(v, dim)); }

void RowClasses::Visit(BlockId block) {
  for (OpId id : fn_.blocks[block].ops) {
    const Op& op = fn_.ops[id];
    for (BlockId region : op.regions) Visit(region);
    if (op.regions.empty())
      VisitOp(op);
    else
      VisitStructure(op);
  }
}

// A carried value, its start, its next and its last are one tile.
void RowClasses::VisitStructure(const Op& op) {
  const auto yields = [&](size_t region) -> const std::vector<ValueId>& {
    return fn_.ops[fn_.blocks[op.regions[region]].ops.back()].operands;
  };
  const auto args = [&](size_t region) -> const std::vector<ValueId>& {
    return fn_.blocks[op.regions[region]].args;
  };
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ValueId r = op.results[i];
    if (op.kind == OpKind::kFor) {
      JoinAll(r, op.operands[2 + i]);
      JoinAll(r, args(0)[1 + i]);
      JoinAll(r, yields(0)[i]);
    } else if (op.kind == OpKind::kWhile) {
      JoinAll(r, op.operands[i]);
      JoinAll(r, args(0)[i]);
      JoinAll(r, args(1)[i]);
      JoinAll(r, yields(0)[1 + i]);
      JoinAll(r, yields(1)[i]);
    } else if (op.kind == OpKind::kIf) {
      JoinAll(r, yields(0)[i]);
      JoinAll(r, yields(1)[i]);
    }
  }
}

// Index tiles of a gather run along the tile's dim.
void RowClasses::VisitGather(const Op& op) {
  const bool store = op.kind != OpKind::kLoad;
  const ValueId tile = store ? op.operands[1] : op.results[0];
  size_t operand = store ? 2 : 1;
  int64_t dim = 0, gathered = 0;
  for (char mode : op.s("modes")) {
    if (mode == 'g') Join(op.operands[operand], 0, tile, dim);
    if (mode == 'p') Join(op.operands[operand], 0, tile, gathered);
    operand += OperandsOf(mode, store);
    if (mode == 'g') gathered = dim;
    if (TakesDim(mode)) ++dim;
  }
}

void RowClasses::VisitOp(const Op& op) {
  const auto value = [&](size_t i) { return op.operands[i]; };
  if (Info(op.kind).elementwise()) {
    for (ValueId v : op.operands) JoinAll(op.results[0], v);
    return;
  }
  switch (op.kind) {
    case OpKind::kDot:
      if (fn_.type(op.results[0]).rank() == 3) {  // over batches
        for (size_t i = 0; i < op.operands.size(); ++i) Join(value(i), 0, op.results[0], 0);
        for (int64_t d : {1, 2}) Whole(value(0), d), Whole(value(1), d), Whole(op.results[0], d);
        break;
      }
      Join(value(0), 0, value(2), 0);
      Join(value(1), 1, value(2), 1);
      Join(value(0), 1, value(1), 0);
      JoinAll(value(2), op.results[0]);
      if (op.operands.size() > 3) {  // scales: of rows, and of columns
        Join(value(0), 0, value(3), 0);
        Join(value(1), 1, value(4), 1);
        Whole(value(3), 1);
        Whole(value(4), 0);
      }
      Whole(value(0), 1);
      rows_.emplace_back(Node(value(2), 0), fn_.type(value(2)).shape[0]);
      break;
    case OpKind::kBroadcast: {
      const std::vector<int64_t>& axes = op.ints("axes");
      for (size_t i = 0; i < axes.size(); ++i)
        if (fn_.type(value(0)).shape[i] ==
            fn_.type(op.results[0]).shape[static_cast<size_t>(axes[i])])
          Join(value(0), static_cast<int64_t>(i), op.results[0], axes[i]);
      break;
    }
    case OpKind::kTranspose: {
      const std::vector<int64_t>& perm = op.ints("perm");
      for (size_t i = 0; i < perm.size(); ++i)
        Join(op.results[0], static_cast<int64_t>(i), value(0), perm[i]);
      break;
    }
    case OpKind::kReshape: {  // dims of extent 1 come and go; the others stay in order
      const auto wide = [&](ValueId v) {
        std::vector<int64_t> dims;
        for (int64_t d = 0; d < fn_.type(v).rank(); ++d)
          if (fn_.type(v).shape[static_cast<size_t>(d)] != 1) dims.push_back(d);
        return dims;
      };
      const std::vector<int64_t> a = wide(value(0)), b = wide(op.results[0]);
      for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        Join(value(0), a[i], op.results[0], b[i]);
      break;
    }
    case OpKind::kReduce:
    case OpKind::kArgReduce: {
      const int64_t axis = op.i("axis");
      Whole(value(0), axis);
      for (int64_t d = 0, r = 0; d < fn_.type(value(0)).rank(); ++d)
        if (d != axis) Join(value(0), d, op.results[0], r++);
      if (GuardOf(op).valid()) JoinAll(GuardOf(op), op.results[0]);
      break;
    }
    case OpKind::kClusterReduce:
      if (op.attr("slices")) {
        Join(value(0), 0, op.results[0], 0);
        Whole(value(0), 1), Whole(op.results[0], 1);
      } else {
        JoinAll(value(0), op.results[0]);
      }
      break;
    case OpKind::kRearrange:  // any element may become any other
      for (int64_t d = 0; d < fn_.type(value(0)).rank(); ++d) Whole(value(0), d);
      for (int64_t d = 0; d < fn_.type(op.results[0]).rank(); ++d) Whole(op.results[0], d);
      break;
    case OpKind::kScan:
      Whole(value(0), op.i("axis"));
      JoinAll(value(0), op.results[0]);
      break;
    case OpKind::kLoad:
    case OpKind::kStore:
    case OpKind::kAtomic:
      VisitGather(op);
      if (Fetches(op)) JoinAll(value(1), op.results[0]);
      break;
    case OpKind::kPrint:
    case OpKind::kAssert:
      for (ValueId v : op.operands)
        for (int64_t d = 0; d < fn_.type(v).rank(); ++d) Whole(v, d);
      break;
    default: break;
  }
}

// Ranges that start at one position are the same rows.
void RowClasses::JoinAt(ValueId position) {
  int first = -1;
  for (OpId id : OpsInOrder(fn_)) {
    const Op& op = fn_.ops[id];
    const bool store = op.kind == OpKind::kStore || op.kind == OpKind::kAtomic;
    if (op.kind != OpKind::kLoad && !store) continue;
    const ValueId tile = store ? op.operands[1] : op.results[0];
    size_t operand = store ? 2 : 1;
    int64_t dim = 0;
    bool folded = false;
    for (char mode : op.s("modes")) {
      folded = folded || mode == 'f';
      if (IsRange(mode) && op.operands[operand] == position) {
        const int node = Node(tile, dim);
        if (folded && dim == 0) whole_.push_back(node);  // every so many rows begin there again
        if (first < 0) first = node;
        const int x = Find(first), y = Find(node);
        parent_[static_cast<size_t>(std::max(x, y))] = std::min(x, y);
        extent_ = fn_.type(tile).shape[static_cast<size_t>(dim)];
      }
      operand += OperandsOf(mode, store);
      if (TakesDim(mode)) ++dim;
    }
  }
  if (first >= 0 && WholeClasses().count(Find(first)) == 0) chosen_ = Find(first);
}

std::set<int> RowClasses::WholeClasses() const {
  std::set<int> whole;
  for (int node : whole_) whole.insert(Find(node));
  // One dim of a value, and one extent all along.
  std::map<std::pair<ValueId, int>, int64_t> dims;
  for (const auto& [key, node] : nodes_)
    if (!dims.try_emplace({key.first, Find(node)}, key.second).second) whole.insert(Find(node));
  std::map<int, int64_t> extents;
  for (const auto& [key, node] : nodes_) {
    const int64_t extent = fn_.type(key.first).shape[static_cast<size_t>(key.second)];
    if (extents.try_emplace(Find(node), extent).first->second != extent) whole.insert(Find(node));
  }
  return whole;
}

void RowClasses::Choose() {
  const std::set<int> whole = WholeClasses();
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
      chosen_ = node;
      extent_ = vote.second;
    }
}

int RowClasses::DimOf(ValueId v) const {
  if (chosen_ < 0) return -1;
  for (int64_t d = 0; d < fn_.type(v).rank(); ++d)
    if (auto it = nodes_.find({v, d}); it != nodes_.end() && Find(it->second) == chosen_)
      return static_cast<int>(d);
  return -1;
}

// Rows that are a box of several dims are cut along its slowest.
bool RowClasses::CutsBoxes(int slices) const {
  return std::all_of(fn_.ops.begin(), fn_.ops.end(), [&](const Op& op) {
    const bool store = op.kind == OpKind::kStore;
    if ((op.kind != OpKind::kLoad && !store) || op.s("modes").find('f') == std::string::npos)
      return true;
    const ValueId tile = store ? op.operands[1] : op.results[0];
    const size_t along = SlowestOf(op, op.s("modes").find('r'));
    return DimOf(tile) != 0 || op.ints("sizes")[along] % slices == 0;
  });
}

std::vector<int> RowClasses::Choices() const {
  std::vector<int> choices = {1};
  for (int s = 2; found() && s * kProductRows <= extent_; ++s)
    if (extent_ % (s * kProductRows) == 0 && CutsBoxes(s)) choices.push_back(s);
  return choices;
}

}  // namespace tilec::ir
