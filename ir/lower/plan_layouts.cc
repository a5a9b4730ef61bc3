// Which layout every class of tiles has: a product's, one that follows from a decided class, or
// what memory wants.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/layout_planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/lower/layout_classes.h"
#include "ir/lower/operands.h"
#include "ir/lower/row_runs.h"
#include "ir/lower/scalars.h"
#include "ir/lower/slides.h"
#include "ir/lower/states.h"
#include "ir/queries.h"
#include "ir/reshaped_layout.h"

namespace tilec::ir {

// Where rows lie on both sides of a transpose: few threads with whole vectors rather than many
// with parts.
void LayoutPlanner::ThreadsForFamilies() {
  std::set<ValueId> seen;
  for (const Relation& r : classes_.relations()) {
    if (!seen.insert(Find(r.parent)).second) continue;
    const LayoutFamily family = classes_.FamilyOf(Find(r.parent), order_);
    if (!family.turned || family.rows.size() < 2 || family.Apart()) continue;
    const auto [a, b] = family.Vectors(1);
    while (plan_.warpgroups > 1 && plan_.threads() * a * b > family.elements())
      plan_.warpgroups /= 2;
  }
}

void LayoutPlanner::DecideLayouts() {
  std::vector<ValueId> tiles;
  for (int32_t i = 0; i < fn_.values.size(); ++i)
    if (IsTile(ValueId(i))) tiles.push_back(ValueId(i));
  std::map<ValueId, Layout> decided;
  for (const auto& [value, layout] : anchors_) decided.try_emplace(Find(value), layout);
  // Classes, highest rank first, then program order.
  std::map<ValueId, std::vector<ValueId>> members;
  for (ValueId v : tiles) members[Find(v)].push_back(v);
  std::vector<ValueId> roots;
  for (const auto& [root, list] : members) roots.push_back(root);
  auto rank = [&](ValueId v) { return SqueezedRank(fn_.type(v).shape); };
  std::stable_sort(roots.begin(), roots.end(),
                   [&](ValueId a, ValueId b) { return rank(a) > rank(b); });
  // Permutations of decided classes of equal rank may come in any order: look until settled.
  const auto permute = [&] {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Relation& r : classes_.relations()) {
        if (r.keep.size() != rank(r.parent)) continue;
        changed = Derive(r, decided) || changed;
      }
    }
  };
  permute();
  for (const auto& [value, layout] : wanted_)
    if (decided.try_emplace(Find(value), layout).second) operand_classes_.insert(Find(value));
  permute();
  classes_.FollowReshapes(order_, &decided, &operand_classes_);
  const auto settle = [&](ValueId root) {
    if (decided.count(root)) return;
    bool derived = false;
    for (const Relation& r : classes_.relations())
      if (!derived && Find(r.child) == root) derived = Derive(r, decided);
    if (derived) return;
    if (const LayoutFamily family = classes_.FamilyOf(root, order_); family.turned) {
      const Layout layout = family.Apart() ? Layout() : family.Decide(plan_.threads());
      for (const auto& [member, dims] : family.classes)
        decided.try_emplace(member, family.Apart() ? DefaultLayout(members[member], members[member])
                                                   : KeepDims(layout, dims));
      return;
    }
    // Vectors along the last dim are read as the tiles they are broadcast to are laid out.
    std::vector<ValueId> read = members[root];
    for (const Relation& r : classes_.relations())
      if (Find(r.parent) == root && !r.keep.empty() &&
          r.keep.back() + 1 == static_cast<int>(rank(r.parent)))
        read.insert(read.end(), members[Find(r.child)].begin(), members[Find(r.child)].end());
    decided[root] = DefaultLayout(members[root], read);
  };
  // A piece of a row that is seen as what each thread has of it lies as the piece does.
  for (OpId id : order_) {
    const Op& op = fn_.ops[id];
    if (!IsInAnyOrder(op)) continue;
    const ValueId piece = Find(op.operands[0]), seen = Find(op.results[0]);
    settle(piece);
    if (const auto cut = CutLayout(decided.at(piece), Squeezed(fn_.type(op.operands[0]).shape),
                                   Squeezed(fn_.type(op.results[0]).shape)))
      decided.try_emplace(seen, *cut);
  }
  for (ValueId root : roots) settle(root);
  for (ValueId v : tiles)
    if (Exists(v)) plan_.layouts[v] = decided[Find(v)];
}

// Loads that only products read, and the transposes in between, never come into registers.
bool LayoutPlanner::Exists(ValueId v) {
  const Op* def = fn_.def(v);
  const bool optional = def && (def->kind == OpKind::kLoad || def->kind == OpKind::kTranspose ||
                                def->kind == OpKind::kReshape);
  return !optional || InRegisters(v);
}

bool LayoutPlanner::Derive(const Relation& r, std::map<ValueId, Layout>& decided) {
  const ValueId child = Find(r.child), parent = Find(r.parent);
  auto it = decided.find(parent);
  if (decided.count(child) || it == decided.end()) return false;
  decided[child] = r.width > 0 ? ColumnsLayout(it->second, r.width) : KeepDims(it->second, r.keep);
  return true;
}

// Rows that are reduced and begin at odd places, whatever is accessed of them as runs.
std::optional<Layout> LayoutPlanner::LayoutOfRuns(const std::vector<ValueId>& members) const {
  const std::vector<int64_t> shape = Squeezed(fn_.type(members.front()).shape);
  if (!plan_.dots.empty() || shape.size() != 2) return std::nullopt;
  bool reduced = false, odd = false, runs = true;
  for (ValueId v : members) {
    const Type& type = fn_.type(v);
    const auto note = [&](OpId id) {
      runs = runs && MayRun(fn_, id, RunLimits(target_));
      odd = odd || AccessLimit(fn_, fn_.ops[id]) * ByteSize(type.dtype) < kAccessBytes;
    };
    const Op* def = fn_.def(v);
    if (def && def->kind == OpKind::kLoad) note(fn_.values[v].def);
    for (const auto& [id, index] : uses_.of(v)) {
      const Op& op = fn_.ops[id];
      if (op.kind == OpKind::kStore && index == 1) note(id);
      runs = runs && op.kind != OpKind::kAtomic;
      reduced = reduced || ((op.kind == OpKind::kReduce || op.kind == OpKind::kArgReduce) &&
                            op.i("axis") + 1 == type.rank());
    }
  }
  return reduced && odd && runs ? RowsLayout(shape, plan_.threads()) : std::nullopt;
}

// Does the machine add elements that lie in a row at once?
bool LayoutPlanner::AddsTogether(const Op& op) const {
  return op.kind == OpKind::kAtomic && !Fetches(op) && op.s("kind") == "add" &&
         fn_.type(op.operands[1]).dtype == DType::kF32 && target_.Has("vector_atomics");
}

// `read`: the members, and what is read as they are laid out.
Layout LayoutPlanner::DefaultLayout(const std::vector<ValueId>& members,
                                    const std::vector<ValueId>& read) {
  if (const std::optional<Layout> rows = LayoutOfRuns(members)) return *rows;
  if (const auto state = StatesLayout(fn_, uses_, members, plan_.threads())) return *state;
  const std::vector<int64_t> shape = Squeezed(fn_.type(members.front()).shape);
  int64_t elements = 1;
  for (int64_t d : shape) elements *= d;
  // Not so wide that threads stay idle, and only whole vectors.
  std::vector<const Op*> accesses;
  for (ValueId v : read) {
    const Op* def = fn_.def(v);
    if (def && def->kind == OpKind::kLoad) accesses.push_back(def);
    for (const auto& [id, index] : uses_.of(v))
      if (index == 1 && (fn_.ops[id].kind == OpKind::kStore || AddsTogether(fn_.ops[id])))
        accesses.push_back(&fn_.ops[id]);
  }
  if (!slides_ && !accesses.empty()) slides_ = SlideOf(fn_).has_value();
  int64_t vector =
      AccessVector(RowAccesses(fn_, accesses, RunLimits(target_), slides_.value_or(false)));
  // What is written for a product goes 16 bytes at a time: more of a thread's in a row would lie
  // in the same banks as the next panel's.
  for (ValueId v : members)
    if (forced_.count(v)) vector = std::min(vector, kAccessBytes / ByteSize(fn_.type(v).dtype));
  while (vector > 1 && (shape.back() % vector != 0 || elements < vector * plan_.threads()))
    vector /= 2;
  return BlockedLayout(shape, vector, plan_.threads());
}

}  // namespace tilec::ir
