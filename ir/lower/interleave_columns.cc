// In which order the columns of a product's sum come, where the next product decides it.
//
// Of a sum a thread has columns 2t and 2t + 1 of each eight. What is made of it and read as a left
// operand of 8 bits must be columns 4t … 4t + 3 of each sixteen: two shuffles and two permutations
// for each two words, between two products (FoursOf, emit_layout.cc). But a sum's columns are the
// rows of its right operand, and those may lie in shared memory in any order: with the even rows in
// front of the odd ones a thread has 4t and 4t + 2 of the even columns and 4t + 1 and 4t + 3 of the
// odd ones, and nothing is exchanged. A copy brings every second row as fast as every row.
//
// Decided from classes of layouts, routes of operands and uses, for DecideLayouts (the layout of
// the class) and PlanLoad (LoadPlan::every). Invariants:
//   1. every product whose sum is in the class has its right operand so: brought by TMA, along K,
//      each of its rows a column;
//   2. nothing else reads what is brought so: other products, or threads;
//   3. no tile of the class is stored: panels of a store want columns in their order.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "ir/lower/layout_planner.h"
#include "ir/lower/operands.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
constexpr int64_t kColumnsOfStep = 32;  // of 8 bits, that an instruction contracts
constexpr int64_t kMostRows = 256;      // that one copy steps over
}  // namespace

// Do the products alone read it, as their right operand?
bool LayoutPlanner::ReadAsRightOf(ValueId v, const std::set<OpId>& products) const {
  const std::span<const Uses::Use> uses = uses_.of(v);
  return std::all_of(uses.begin(), uses.end(), [&](const auto& use) {
    const auto& [id, index] = use;
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kTranspose) return ReadAsRightOf(op.results[0], products);
    return op.kind == OpKind::kDot && index == 1 && products.count(id) > 0;
  });
}

// The load whose rows are the columns of this product, if a copy can bring them in two halves.
std::optional<OpId> LayoutPlanner::RowsOfColumns(OpId id) const {
  const DotPlan& dot = plan_.dots.at(id);
  const Type& sum = fn_.type(fn_.ops[id].results[0]);
  const Op* load = fn_.def(dot.b.source);
  if (dot.unit == MatrixUnit::kNone || dot.split == WgSplit::kN || dot.across != 1 ||
      !InterleavedColumns(dot.acc) || dot.b.how != OperandPlan::How::kBuffer || dot.b.trans ||
      !load || load->kind != OpKind::kLoad)
    return {};
  const OpId at = fn_.values[dot.b.source].def;
  const Type& rows = fn_.type(dot.b.source);
  const std::string& modes = load->s("modes");
  const auto need = needs_.find(at);
  const bool copied = need != needs_.end() && TmaAccess(fn_, *load, target_) &&
                      need->second.TmaFits(rows.dtype) &&
                      modes.find_first_not_of("rs") == std::string::npos;
  const bool halves = rows.rank() == 2 && rows.shape[0] == sum.shape[1] &&
                      sum.shape[1] % kColumnsOfStep == 0 && sum.shape[1] <= kMostRows;
  if (!copied || !halves) return {};
  return at;
}

void LayoutPlanner::InterleaveColumns() {
  std::set<ValueId> wanted;  // classes of left operands
  for (const auto& [id, dot] : plan_.dots)
    if (MadeByThreads(dot) && ByteSize(fn_.type(dot.a.source).dtype) == 1 &&
        fn_.type(dot.a.source).shape[1] == dot.k_padded)
      wanted.insert(Find(dot.a.source));
  for (const ValueId root : wanted) {
    std::set<OpId> products, loads;
    bool can = true;
    for (OpId id : order_) {
      const Op& op = fn_.ops[id];
      if ((op.kind == OpKind::kStore || op.kind == OpKind::kAtomic) &&
          Find(op.operands[1]) == root)
        can = false;
      if (op.kind != OpKind::kDot || Find(op.results[0]) != root) continue;
      const std::optional<OpId> load = RowsOfColumns(id);
      can = can && load.has_value();
      products.insert(id);
      if (load) loads.insert(*load);
    }
    for (const Relation& r : classes_.relations())
      can = can && (r.width == 0 || Find(r.parent) != root);
    for (OpId load : loads)
      can = can && !InRegisters(fn_.ops[load].results[0]) &&
            ReadAsRightOf(fn_.ops[load].results[0], products);
    if (!can) continue;
    for (OpId id : products) {
      Layout& acc = plan_.dots.at(id).acc;
      acc = *InterleavedColumns(acc);
      for (auto& [value, layout] : anchors_)
        if (value == fn_.ops[id].results[0]) layout = acc;
    }
    interleaved_.insert(loads.begin(), loads.end());
  }
}

}  // namespace tilec::ir
