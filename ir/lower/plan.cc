// SPDX-License-Identifier: Apache-2.0
#include "ir/lower/plan.h"

#include <algorithm>

#include "ir/lower/bring.h"
#include "ir/lower/layout_planner.h"
#include "ir/lower/read_at_once.h"
#include "ir/lower/scalars.h"
#include "ir/lower/slides.h"
#include "ir/lower/stored_over.h"
#include "ir/lower/widest_product.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {
// A product that makes its sum of no tile: zeros that several products begin with tie none of them.
bool BeginsFromZero(const Function& fn, const LayoutPlan& plan, OpId id) {
  const Op& op = fn.ops[id];
  if (op.kind != OpKind::kDot) return false;
  const Op* sum = fn.def(op.operands[2]);
  const DotPlan& dot = plan.dots.at(id);
  return sum && sum->kind == OpKind::kConstant && sum->number("value") == 0 &&
         dot.unit != MatrixUnit::kNone && dot.promote == 0;
}
}  // namespace

LayoutPlanner::LayoutPlanner(const Function& fn, const Target& target, int warpgroups,
                             bool runs_ahead)
    : fn_(fn),
      target_(target),
      runs_ahead_(runs_ahead),
      order_(OpsInOrder(fn)),
      uses_(fn),
      classes_(fn) {
  plan_.warpgroups = warpgroups;
  plan_.async_proxy = target.Has("async_proxy");
}

LayoutPlan LayoutPlanner::Run() {
  const bool free = plan_.warpgroups == 0;
  if (free) ChooseWarpgroups();
  for (OpId id : order_)
    if (fn_.ops[id].kind == OpKind::kDot) PlanDot(id);
  RelateTiles();
  if (free && plan_.dots.empty()) ThreadsForFamilies();
  InterleaveColumns();
  for (const auto& [id, dot] : plan_.dots) WantRegisterOperand(id, dot);
  DecideLayouts();
  for (auto& [id, dot] : plan_.dots) PlanRegisterOperand(dot);
  for (OpId id : order_) {
    if (fn_.ops[id].kind == OpKind::kLoad) PlanLoad(id);
    if (fn_.ops[id].kind == OpKind::kStore) PlanStore(id);
  }
  StoreTogether(over_, plan_.stores);
  PlanAtomics();
  ShareLoads();
  DecideBrought(fn_, target_, runs_ahead_, &plan_);
  return std::move(plan_);
}

int LayoutPlanner::Warpgroups() {
  ChooseWarpgroups();
  // Where there are products they decide.
  if (std::any_of(order_.begin(), order_.end(),
                  [&](OpId id) { return fn_.ops[id].kind == OpKind::kDot; }))
    return plan_.warpgroups;
  RelateTiles();
  ThreadsForFamilies();
  return plan_.warpgroups;
}

void LayoutPlanner::RelateTiles() {
  needed_.clear();  // the operands' plans are known now
  for (OpId id : order_) {
    const Op& op = fn_.ops[id];
    if (!BeginsFromZero(fn_, plan_, id))
      classes_.Relate(op, [&](ValueId v) { return InRegisters(v); });
    if (op.kind == OpKind::kDot && plan_.dots[id].unit != MatrixUnit::kNone &&
        SqueezedRank(fn_.type(op.results[0]).shape) == 2)
      anchors_.push_back({op.results[0], plan_.dots[id].acc});
  }
}

bool LayoutPlanner::InRegisters(ValueId v) {
  auto [it, fresh] = needed_.try_emplace(v, false);
  if (!fresh) return it->second;
  bool needed = forced_.count(v) > 0;
  for (const auto& [id, index] : uses_.of(v)) {
    const Op& op = fn_.ops[id];
    if (op.kind == OpKind::kDot && index < 2) continue;  // decided with the operand's plan
    if (index == 1 && StoredTurned(op)) continue;        // its source is stored
    if (op.kind == OpKind::kTranspose || op.kind == OpKind::kReshape)
      needed = needed || InRegisters(op.results[0]);
    else
      needed = true;
  }
  return needed_[v] = needed;
}

namespace {
// Rows of 16-bit elements at odd places that are one tile of a CTA, whose vectors are put together
// of two: what is done once for each row and thread is the larger part then, and half as many
// threads have more in flight each. (H200, us, threads by their elements and half of them:
// layernorm 12582x3653 67.1 and 56.3, 264x4101 4.83 and 3.88, 4000x28001 252 and 202, rmsnorm
// 53354x7297 457 and 395, 25587x12511 458 and 442, softmax 858x13671 21.9 and 21.0. Of f32
// 2836x3009 18.0 and 19.3; in turns of a loop rmsnorm 4431x81607 567 and 672.)
bool ShiftedAtOnce(const Function& fn) {
  bool shifted = false;
  for (OpId id : OpsInOrder(fn)) {
    const Op& op = fn.ops[id];
    if (IsLoop(op.kind) || op.kind == OpKind::kClusterReduce) return false;
    if (!BeginsAnywhere(fn, op)) continue;
    if (ByteSize(fn.type(op.operands[0]).dtype) != 2) return false;
    shifted = true;
  }
  return shifted;
}
}  // namespace

void LayoutPlanner::ChooseWarpgroups() {
  const TargetLowering& pays = target_.lowering;
  int64_t largest = 0;
  bool dots = false, threes = false, twos = false, wide = false;
  // What one product makes of another's result stays in its warpgroup's registers.
  const bool computed = std::none_of(order_.begin(), order_.end(), [&](OpId id) {
    return fn_.ops[id].kind == OpKind::kDot && IsComputed(fn_.ops[id].operands[0]);
  });
  for (OpId id : order_) {
    const Op& op = fn_.ops[id];
    for (ValueId r : op.results)
      if (fn_.type(r).is_tile() && (op.kind != OpKind::kLoad || InRegisters(r)))
        largest = std::max(largest, fn_.type(r).elements());
    if (op.kind != OpKind::kDot) continue;
    const Type& t = fn_.type(op.results[0]);
    if (!IsOnUnit(fn_, op, target_)) continue;
    dots = true;
    const int groups = WarpgroupsOfRows(t.shape[0], target_);
    threes = threes || groups == 3, twos = twos || groups == 2;
    const int64_t least = computed && IsComputed(op.operands[1]) ? target_.lowering.shared_columns
                                                                 : target_.lowering.wide_columns;
    wide = wide || (groups != 2 && t.shape[1] >= least && t.shape[1] % 16 == 0);
  }
  if (dots)
    plan_.warpgroups = OneGroupHasMore() ? 1 : twos ? 2 : threes ? 3 : wide ? 2 : 1;
  else if (largest <= pays.one_warpgroup_elements ||
           (largest <= pays.one_warpgroup_elements_at_once &&
            ReadAtOnce(fn_, pays.one_warpgroup_bytes_at_once)))
    plan_.warpgroups = 1;
  else
    plan_.warpgroups = largest <= pays.two_warpgroups_elements ||
                               (largest <= pays.two_warpgroups_elements_at_once &&
                                ReadAtOnce(fn_, pays.two_warpgroups_bytes_at_once))
                           ? 2
                           : 4;
  if (!dots && plan_.warpgroups > 1 && ShiftedAtOnce(fn_)) plan_.warpgroups /= 2;
}

// Beside a load role that cannot give its registers away, eight warps have 168 each, four have
// all that an instruction can name: they take all accumulators, if these leave half of them.
bool LayoutPlanner::OneGroupHasMore() const {
  if (!runs_ahead_ || target_.Has("setmaxnreg")) return false;
  int64_t sums = 0;
  for (OpId id : order_) {
    const Op& op = fn_.ops[id];
    if (op.kind != OpKind::kDot || !IsOnUnit(fn_, op, target_)) continue;
    const std::vector<int64_t>& shape = fn_.type(op.results[0]).shape;
    sums += RoundUp(shape[0], target_.unit().rows) * shape[1];
  }
  constexpr int64_t kGroupThreads = 128;  // of a warpgroup
  return sums <= kGroupThreads * (target_.limits.regs_per_thread + 1) / 2;
}

LayoutPlan MakePlan(const Function& fn, const Target& target, int warpgroups, bool runs_ahead) {
  return LayoutPlanner(fn, target, warpgroups, runs_ahead).Run();
}

int PlannedWarpgroups(const Function& fn, const Target& target) {
  return LayoutPlanner(fn, target, 0, /*runs_ahead=*/false).Warpgroups();
}

}  // namespace tilec::ir
