// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/layout_classes.h"

#include <algorithm>
#include <numeric>

#include "ir/isa.h"
#include "ir/lower/operands.h"
#include "ir/lower/scalars.h"
#include "ir/queries.h"
#include "ir/reshaped_layout.h"

namespace tilec::ir {

int64_t LayoutFamily::elements() const {
  int64_t elements = 1;
  for (int64_t d : shape) elements *= d;
  return elements;
}

bool LayoutFamily::Apart() const {
  constexpr int64_t kFewestLanes = 4;  // of CrossedLayout, along a row
  return rows.size() > 1 && std::any_of(rows.begin(), rows.end(), [](const Rows& r) {
           return kFewestLanes * r.limit * r.bytes < isa::kSectorBytes;
         });
}

std::pair<int64_t, int64_t> LayoutFamily::Vectors(int64_t threads) const {
  constexpr int64_t kMost = 64, kMostBytes = 128;  // of a thread's block
  int64_t v[2];
  for (size_t i : {0, 1}) {
    v[i] = std::min(rows[i].limit, kAccessBytes / rows[i].bytes);
    while (shape[static_cast<size_t>(rows[i].dim)] % v[i] != 0) v[i] /= 2;
  }
  const int64_t most =
      std::min({kMost, kMostBytes / widest, std::max<int64_t>(1, elements() / threads)});
  while (v[0] * v[1] > most) {
    const bool first = v[1] == 1 || (v[0] > 1 && v[0] * rows[0].bytes >= v[1] * rows[1].bytes);
    v[first ? 0 : 1] /= 2;
  }
  return {v[0], v[1]};
}

Layout LayoutFamily::Decide(int64_t threads) const {
  if (rows.size() > 1) {
    const auto [a, b] = Vectors(threads);
    return CrossedLayout(shape, {rows[0].dim, a, isa::kLineBytes / rows[0].bytes},
                         {rows[1].dim, b, isa::kLineBytes / rows[1].bytes}, threads);
  }
  // As if the dim that lies in rows were the last.
  const int dim = rows[0].dim;
  std::vector<int64_t> moved = shape, perm(shape.size());
  moved.erase(moved.begin() + dim);
  moved.push_back(shape[static_cast<size_t>(dim)]);
  std::iota(perm.begin(), perm.end(), 0);
  for (int64_t& d : perm) d = d == dim ? std::ssize(perm) - 1 : d - (d > dim ? 1 : 0);
  int64_t vector = std::min(rows[0].limit, kAccessBytes / rows[0].bytes);
  while (vector > 1 && (moved.back() % vector != 0 || elements() < vector * threads)) vector /= 2;
  return PermuteLayout(BlockedLayout(moved, vector, threads), perm);
}

LayoutClasses::LayoutClasses(const Function& fn) : fn_(fn) {
  for (int32_t i = 0; i < fn.values.size(); ++i) parent_.Add(ValueId(i));
}

bool LayoutClasses::IsTile(ValueId v) const {
  return fn_.type(v).is_tile() && SqueezedRank(fn_.type(v).shape) > 0;
}

ValueId LayoutClasses::Find(ValueId v) {
  ValueId root = v;
  while (parent_[root] != root) root = parent_[root];
  while (parent_[v] != root) {
    const ValueId next = parent_[v];
    parent_[v] = root;
    v = next;
  }
  return root;
}

void LayoutClasses::Unite(ValueId a, ValueId b) {
  if (!IsTile(a) || !IsTile(b)) return;
  a = Find(a);
  b = Find(b);
  if (a == b) return;
  if (b < a) std::swap(a, b);  // the earliest value names the class: deterministic
  parent_[b] = a;
}

void LayoutClasses::Relate(const Op& op, const std::function<bool(ValueId)>& in_registers) {
  if (Info(op.kind).elementwise()) {
    for (ValueId v : op.operands) Unite(v, op.results[0]);
    return;
  }
  switch (op.kind) {
    case OpKind::kClusterReduce:
      if (!op.attr("slices")) {
        Unite(op.operands[0], op.results[0]);
      } else if (IsTile(op.operands[0])) {
        relations_.push_back(
            {op.results[0], op.operands[0], {0, 1}, fn_.type(op.results[0]).shape[1]});
      }
      break;
    case OpKind::kReshape:
    case OpKind::kScan: Unite(op.operands[0], op.results[0]); break;
    case OpKind::kTranspose: {
      if (!in_registers(op.results[0])) break;
      const Type& from = fn_.type(op.operands[0]);
      Relation r{op.results[0], op.operands[0], {}};
      for (int64_t d : op.ints("perm"))
        if (int s = SqueezedDim(from.shape, d); s >= 0) r.keep.push_back(s);
      AddRelation(std::move(r));
      break;
    }
    case OpKind::kBroadcast: {
      const Type& from = fn_.type(op.operands[0]);
      const Type& to = fn_.type(op.results[0]);
      Relation r{op.operands[0], op.results[0], {}};
      for (size_t i = 0; i < from.shape.size(); ++i)
        if (from.shape[i] != 1) r.keep.push_back(SqueezedDim(to.shape, op.ints("axes")[i]));
      AddRelation(std::move(r));
      break;
    }
    case OpKind::kReduce:
    case OpKind::kArgReduce: {
      const Type& from = fn_.type(op.operands[0]);
      Relation r{op.results[0], op.operands[0], {}};
      for (int64_t d = 0; d < from.rank(); ++d)
        if (d != op.i("axis"))
          if (int s = SqueezedDim(from.shape, d); s >= 0) r.keep.push_back(s);
      AddRelation(std::move(r));
      if (GuardOf(op).valid()) Unite(GuardOf(op), op.results[0]);
      break;
    }
    case OpKind::kDot: Unite(op.operands[2], op.results[0]); break;
    case OpKind::kFor:
      for (size_t i = 0; i < op.results.size(); ++i) {
        Unite(op.operands[2 + i], op.results[i]);
        Unite(fn_.blocks[op.regions[0]].args[1 + i], op.results[i]);
        Unite(YieldOf(op.regions[0]).operands[i], op.results[i]);
      }
      break;
    case OpKind::kWhile:
      for (size_t i = 0; i < op.results.size(); ++i) {
        Unite(op.operands[i], op.results[i]);
        Unite(fn_.blocks[op.regions[0]].args[i], op.results[i]);
        Unite(fn_.blocks[op.regions[1]].args[i], op.results[i]);
        Unite(YieldOf(op.regions[0]).operands[1 + i], op.results[i]);
        Unite(YieldOf(op.regions[1]).operands[i], op.results[i]);
      }
      break;
    case OpKind::kIf:
      for (size_t i = 0; i < op.results.size(); ++i)
        for (BlockId region : op.regions) Unite(YieldOf(region).operands[i], op.results[i]);
      break;
    case OpKind::kLoad: RelateGather(op, op.results[0], 1); break;
    case OpKind::kStore:
    case OpKind::kAtomic:
      RelateGather(op, op.operands[1], 2);
      if (Fetches(op)) Unite(op.operands[1], op.results[0]);
      break;
    default: break;
  }
}

// Index tiles hang on the tile they gather.
void LayoutClasses::RelateGather(const Op& op, ValueId tile, size_t first) {
  const bool store = op.kind != OpKind::kLoad;
  const std::vector<int64_t>& shape = fn_.type(tile).shape;
  size_t operand = first;
  int64_t dim = 0, gathered = 0;
  for (char mode : op.s("modes")) {
    if (mode == 'g') gathered = dim;
    if (IsGathered(mode)) {
      if (int s = SqueezedDim(shape, gathered); s >= 0)
        AddRelation({op.operands[operand], tile, {s}});
    }
    operand += OperandsOf(mode, store);
    if (TakesDim(mode)) ++dim;
  }
}

void LayoutClasses::AddRelation(Relation r) {
  if (!IsTile(r.child) || !IsTile(r.parent)) return;
  bool identity = r.keep.size() == SqueezedRank(fn_.type(r.parent).shape);
  for (size_t i = 0; i < r.keep.size(); ++i)
    identity = identity && r.keep[i] == static_cast<int>(i);
  if (identity)
    Unite(r.child, r.parent);
  else
    relations_.push_back(std::move(r));
}

void LayoutClasses::FollowReshapes(const std::vector<OpId>& order,
                                   std::map<ValueId, Layout>* decided,
                                   std::set<ValueId>* operands) {
  std::set<ValueId> stored;  // memory says how these lie
  for (OpId id : order) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kStore || op.kind == OpKind::kAtomic)
      stored.insert(Find(op.operands[1]));
  }
  std::set<ValueId> followed;
  const auto follow = [&](ValueId v, const Layout& layout) {
    if (stored.count(Find(v)) || !decided->try_emplace(Find(v), layout).second) return false;
    followed.insert(Find(v));
    operands->insert(Find(v));
    return true;
  };
  // Vectors that are broadcast to an operand are made of others, too.
  const auto lies = [&](ValueId v) {
    if (operands->count(Find(v))) return true;
    for (const Relation& r : relations_)
      if (Find(r.child) == Find(v) && operands->count(Find(r.parent)))
        return follow(v, KeepDims(decided->at(Find(r.parent)), r.keep));
    return false;
  };
  for (bool grown = true; grown;) {
    grown = false;
    for (OpId id : order) {
      const Op& op = fn_.ops[id];
      if (op.kind != OpKind::kRearrange || !IsTile(op.operands[0]) || !IsTile(op.results[0]) ||
          !KeepsNumbers(fn_, op) || !lies(op.results[0]))
        continue;
      if (const std::optional<Layout> cut =
              CutLayout(decided->at(Find(op.results[0])), Squeezed(fn_.type(op.results[0]).shape),
                        Squeezed(fn_.type(op.operands[0]).shape)))
        grown = follow(op.operands[0], *cut) || grown;
    }
    // What they are broadcast from, and what that is the transpose of.
    for (const Relation& r : relations_) {
      if (followed.count(Find(r.parent)))
        grown = follow(r.child, KeepDims(decided->at(Find(r.parent)), r.keep)) || grown;
      if (!followed.count(Find(r.child)) || r.keep.size() != SqueezedRank(fn_.type(r.parent).shape))
        continue;
      std::vector<int> back(r.keep.size());
      for (size_t i = 0; i < back.size(); ++i)
        back[static_cast<size_t>(r.keep[i])] = static_cast<int>(i);
      grown = follow(r.parent, KeepDims(decided->at(Find(r.child)), back)) || grown;
    }
  }
}

LayoutFamily LayoutClasses::FamilyOf(ValueId root, const std::vector<OpId>& order) {
  LayoutFamily family;
  family.shape = Squeezed(fn_.type(root).shape);
  std::vector<int> same(family.shape.size());
  std::iota(same.begin(), same.end(), 0);
  family.classes[Find(root)] = same;
  for (bool grown = true; grown;) {
    grown = false;
    for (const Relation& r : relations_) {
      const ValueId child = Find(r.child), parent = Find(r.parent);
      if (r.width > 0 || r.keep.size() != SqueezedRank(fn_.type(r.parent).shape)) continue;
      const auto up = family.classes.find(parent), down = family.classes.find(child);
      if ((up == family.classes.end()) == (down == family.classes.end())) continue;
      std::vector<int> dims(r.keep.size());
      for (size_t i = 0; i < dims.size(); ++i) {
        const auto k = static_cast<size_t>(r.keep[i]);
        if (down == family.classes.end())
          dims[i] = up->second[k];
        else
          dims[k] = down->second[i];
      }
      family.classes[down == family.classes.end() ? child : parent] = std::move(dims);
      grown = true;
    }
  }
  if (family.classes.size() > 1)
    for (bool stores : {false, true})
      for (OpId id : order) NoteRows(fn_.ops[id], stores, family);
  for (const LayoutFamily::Rows& rows : family.rows)
    family.turned = family.turned || rows.dim != static_cast<int>(family.shape.size()) - 1;
  return family;
}

void LayoutClasses::NoteRows(const Op& op, bool store, LayoutFamily& family) {
  if (op.kind != (store ? OpKind::kStore : OpKind::kLoad)) return;
  const ValueId tile = store ? op.operands[1] : op.results[0];
  const Type& type = fn_.type(tile);
  if (!IsTile(tile)) return;
  const auto at = family.classes.find(Find(tile));
  if (at == family.classes.end()) return;
  const int64_t bytes = ByteSize(type.dtype);
  family.widest = std::max(family.widest, bytes);
  const Param* p = fn_.param(op.operands[0]);
  if (op.s("modes").back() != 'r' || type.shape.back() == 1 || !p || !p->facts.last_contiguous)
    return;
  const int dim = at->second.back();
  const int64_t limit = AccessLimit(fn_, op);
  for (LayoutFamily::Rows& rows : family.rows)
    if (rows.dim == dim) {
      rows.bytes = std::min(rows.bytes, bytes);
      rows.limit = std::min(rows.limit, limit);
      return;
    }
  family.rows.push_back({dim, bytes, limit});
}

}  // namespace tilec::ir
