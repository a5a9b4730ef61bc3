// SPDX-License-Identifier: Apache-2.0
#include "scheduler/split_forms.h"

#include <algorithm>

#include "ir/clean_up.h"
#include "ir/passes/arrange_grid.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/even_parts.h"
#include "ir/passes/pack_rows.h"
#include "ir/passes/persist_tiles.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/copy_lines.h"
#include "scheduler/one_role.h"
#include "support/check.h"

namespace tilec::scheduler {

namespace {

FormPtr SplitRows(ir::Function loops, int64_t ctas, const ir::Target& target) {
  if (ir::SplitLoopsOfRows(loops, ctas, target)) return nullptr;  // an obstacle
  return std::make_unique<KernelForm>(std::move(loops));
}

Neighbours NeighboursOf(ir::Function fn, int64_t ctas, int64_t along, const ir::Target& target) {
  if (along > 0 && !ir::ArrangeGrid(fn, along)) return {};
  Neighbours found{.ctas = ctas, .asked = ShareAsked(fn, target, ctas)};
  if (found.asked >= 1) return {};
  CHECK(!ir::ClusterTiles(fn, ctas), "it asks for less by that");
  found.form = std::make_unique<KernelForm>(std::move(fn));
  return found;
}

}  // namespace

const KernelForm::Periods& KernelForm::PeriodsAt(const Sharing& sharing, const ir::Target& target,
                                                 std::optional<ir::Target>* shared) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto known = periods.find(sharing);
  if (known == periods.end()) {
    if (!*shared) *shared = target;
    ShareCosts(target, sharing, &**shared);
    double found = 0;
    known = periods.emplace(sharing, BoundPeriods(fn, **shared, &found)).first;
    if (found > 0) warpgroups = found;
  }
  return known->second;
}

const KernelForm::Periods& KernelForm::AnyPeriods(const ir::Target& target,
                                                  std::optional<ir::Target>* shared) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!periods.empty()) return periods.begin()->second;
  }
  return PeriodsAt({}, target, shared);
}

double KernelForm::Warpgroups(const ir::Target& target) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!warpgroups) warpgroups = CutWarpgroups(fn, target);
  return *warpgroups;
}

int64_t KernelForm::CtasOfOneRole(const ir::Target& target) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (one_role == 0) one_role = scheduler::CtasOfOneRole(fn, target);
  return one_role;
}

bool KernelForm::Hangs(const ir::Target& target) {
  const double groups = Warpgroups(target);
  const std::lock_guard<std::mutex> lock(mutex);
  if (hangs) return *hangs;
  const int64_t products = std::count_if(
      fn.ops.begin(), fn.ops.end(), [](const ir::Op& op) { return op.kind == ir::OpKind::kDot; });
  const Periods loops = products < 2 || groups > 2 ? std::nullopt : BoundPeriods(fn, target);
  hangs = loops && !loops->empty() &&
          std::all_of(loops->begin(), loops->end(),
                      [](const LoopPeriod& period) { return period.hangs; });
  return *hangs;
}

FormPtr SplitForm(ir::Function fn, int64_t ctas, const ir::Target& target) {
  if (ir::SplitReductions(fn, ctas, target)) return nullptr;  // an obstacle
  return std::make_unique<KernelForm>(std::move(fn));
}

DividedPtr DivideForm(const ir::Function& fn, int64_t groups, int64_t cluster,
                      const ir::Target& target) {
  ir::Function parts;
  if (ir::PartsOfReductions(fn, groups, &parts)) return nullptr;
  if (cluster > 1 ? ir::SplitReductions(parts, cluster, target) : ir::GuardParts(parts))
    return nullptr;
  return std::make_unique<DividedForm>(std::move(parts), fn, groups);
}

KernelForm& DividedForm::Whole() {
  std::call_once(
      once_, [&] { whole_ = std::make_unique<KernelForm>(ir::WholeOfReductions(of_, groups_)); });
  return *whole_;
}

KernelForm* TileForms::InParts(int64_t ctas, const ir::Target& target) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto at = parts.find(ctas);
  if (at == parts.end())
    at = parts
             .emplace(ctas,
                      loops ? SplitRows(*loops, ctas, target) : SplitForm(form.fn, ctas, target))
             .first;
  return at->second.get();
}

DividedForm* TileForms::InGroups(int64_t count, int64_t cluster, const ir::Target& target) {
  const std::lock_guard<std::mutex> lock(mutex);
  auto at = groups.find({count, cluster});
  if (at == groups.end())
    at = groups.emplace(std::pair(count, cluster), DivideForm(form.fn, count, cluster, target))
             .first;
  return at->second.get();
}

const ir::LayoutPlan& KeptForms::Copies() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!copies_) copies_ = PlanOfCopies(fn(), target_);
  return *copies_;
}

Neighbours& KeptForms::Sharing(const SharedCopies& how) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [at, fresh] = sharing_.try_emplace(how);
  if (!fresh) return at->second;
  if (how.parts == 1) {
    at->second = NeighboursOf(fn(), how.ctas, how.along, target_);
    return at->second;
  }
  ir::Function divided;  // its first range is that of the parts
  if (!ir::PartsOfReductions(fn(), how.parts, &divided) && !ir::GuardParts(divided) &&
      ir::EvenParts(divided))
    at->second = NeighboursOf(std::move(divided), how.ctas, how.along + 1, target_);
  return at->second;
}

bool KeptForms::CanStay() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!can_stay_) {
    ir::Function walks = fn();
    can_stay_ = !ir::PersistTiles(walks, target_.limits.sms);
  }
  return *can_stay_;
}

TileForms* KeptForms::Packed(int64_t heads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [at, fresh] = packed_.try_emplace(heads);
  if (fresh) {
    ir::Function packed = fn();
    if (!ir::PackRows(packed, heads)) at->second = std::make_unique<TileForms>(std::move(packed));
  }
  return at->second.get();
}

}  // namespace tilec::scheduler
