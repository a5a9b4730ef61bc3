// Who takes the decisions of plan.h for one function: products first, for they want layouts; then
// the layouts of all tiles; then how memory is accessed that holds them so.
// Included by the files that define it: plan.cc, plan_products.cc, interleave_columns.cc,
// plan_layouts.cc, plan_accesses.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/lower/layout_classes.h"
#include "ir/lower/operands.h"
#include "ir/lower/plan.h"
#include "ir/lower/stored_over.h"
#include "ir/queries.h"
#include "ir/uses.h"

namespace tilec::ir {

class LayoutPlanner {
 public:
  LayoutPlanner(const Function& fn, const Target& target, int warpgroups, bool runs_ahead);
  LayoutPlan Run();
  int Warpgroups();  // of the plan, and nothing else of it

 private:
  bool IsTile(ValueId v) const { return classes_.IsTile(v); }
  ValueId Find(ValueId v) { return classes_.Find(v); }
  bool InRegisters(ValueId v);
  void ChooseWarpgroups();
  void RelateTiles();
  bool OneGroupHasMore() const;

  // plan_products.cc
  bool IsComputed(ValueId v) const;
  void PlanDot(OpId id);
  void WantScales(const Op& dot, const DotPlan& plan);
  bool MayShareRows(const Op& dot) const;
  OperandPlan PlanOperand(ValueId v, const DotPlan& dot, bool is_a, int64_t outer);
  static bool MadeByThreads(const DotPlan& dot);
  std::optional<Layout> RegisterOperand(const DotPlan& dot) const;
  void WantRegisterOperand(OpId id, const DotPlan& dot);
  void PlanRegisterOperand(DotPlan& dot);
  bool StoredToTensorMemory(const DotPlan& dot) const;

  // interleave_columns.cc
  void InterleaveColumns();
  std::optional<OpId> RowsOfColumns(OpId id) const;
  bool ReadAsRightOf(ValueId v, const std::set<OpId>& products) const;

  // plan_layouts.cc
  void ThreadsForFamilies();
  void DecideLayouts();
  bool Exists(ValueId v);
  bool Derive(const Relation& r, std::map<ValueId, Layout>& decided);
  std::optional<Layout> LayoutOfRuns(const std::vector<ValueId>& members) const;
  bool AddsTogether(const Op& op) const;
  Layout DefaultLayout(const std::vector<ValueId>& members, const std::vector<ValueId>& read);

  // plan_accesses.cc
  bool StoredTurned(const Op& op);
  void PlanLoad(OpId id);
  std::optional<SmemLayout> OperandLayout(ValueId v);
  void ShareLoads();
  bool HasProducts() const;
  bool IsAccumulator(ValueId v);
  void PlanStore(OpId id);
  void PlanAtomics();

  const Function& fn_;
  const Target& target_;
  bool runs_ahead_;
  LayoutPlan plan_;
  const std::vector<OpId> order_;
  const Uses uses_;
  const StoresOver over_ = StoredOver(fn_);
  std::map<ValueId, bool> needed_;
  std::set<ValueId> forced_;  // product operands that pass through registers
  LayoutClasses classes_;
  std::vector<std::pair<ValueId, Layout>> anchors_, wanted_;  // wanted: where nothing else decides
  std::set<ValueId> operand_classes_;                         // operands that lie so
  std::optional<bool> slides_;                                // do rows (slides.h)? once asked
  std::map<OpId, BufferNeed> needs_;
  std::set<OpId> interleaved_;  // loads whose even rows come in front of the odd ones
};

}  // namespace tilec::ir
