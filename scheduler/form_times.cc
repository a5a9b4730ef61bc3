// SPDX-License-Identifier: Apache-2.0
#include "scheduler/form_times.h"

#include <algorithm>
#include <memory>

#include "ir/isa.h"
#include "scheduler/one_role.h"
#include "scheduler/sms_shared.h"

namespace tilec::scheduler {

std::optional<KernelTime> FormTimes::TimeOf(KernelForm& form, double share, int64_t cluster,
                                            bool stays, int64_t one_role, bool by_columns) {
  const ir::WorkCount& work = WorkOf(form);
  whole_flops = work.whole_flops;
  if (const double gbs = target_.model.memory_share * double(target_.limits.memory_gbs); gbs > 0)
    again_ms = 1e-6 * work.again_bytes / gbs;
  if (work.instances == 0) return std::nullopt;
  const Sharing sharing =
      SharingOf(target_, work.instances, asked_.Times(work.instances, target_) * share);
  const KernelForm::Periods& periods = form.PeriodsAt(sharing, target_, &shared_);
  if (!periods) return std::nullopt;
  LaunchShape shape = shape_of_ ? shape_of_(form.fn, work) : LaunchShape();
  shape.in_order = one_role > 0;
  if (shape.in_order) shape.per_sm = one_role;
  shape.cluster = cluster;
  shape.share = share;
  shape.lines = asked_.lines;
  shape.written = asked_.Written(by_columns);
  shape.leaves = asked_.leaves;
  shape.warpgroups = form.Warpgroups(target_);
  if (stays) shape.ctas = std::min(SmsOfClusters(target_, cluster), work.instances);
  return EstimateTime(form.fn, target_, work, *periods, shape);
}

std::optional<KernelTime> FormTimes::TimeOf(DividedForm& divided, int64_t cluster, double most_ms,
                                            int64_t one_role) {
  std::optional<KernelTime> time = TimeOf(divided.parts, 1, cluster, false, one_role);
  if (!time || time->ms + BesideParts(cluster) > most_ms) return std::nullopt;
  const double flops = whole_flops;
  const std::optional<KernelTime> whole = TimeOf(divided.Whole(), 1, 1);
  whole_flops = flops;
  if (!whole) return std::nullopt;
  time->ms += whole->ms + (cluster == 1 ? target_.model.apart_ms : 0);
  return time;
}

std::optional<KernelTime> FormTimes::TimeOf(Neighbours& parts, DividedForm& divided,
                                            double most_ms) {
  if (!parts.form) return std::nullopt;
  auto time = TimeOf(*parts.form, parts.asked, parts.ctas, true);
  if (!time || time->ms + BesideParts(1) > most_ms) return std::nullopt;
  const double flops = whole_flops;
  const std::optional<KernelTime> whole = TimeOf(divided.Whole(), 1, 1);
  whole_flops = flops;
  if (!whole) return std::nullopt;
  time->ms += whole->ms + target_.model.apart_ms;
  return time;
}

double FormTimes::BesideParts(int64_t cluster) const {
  return target_.model.launch_ms + (cluster == 1 ? target_.model.apart_ms : 0);
}

double FormTimes::LeastDivided(int64_t cluster) const {
  return target_.model.launch_ms + BesideParts(cluster);
}

bool FormTimes::OneTurn(const KernelForm& form) {
  const ir::WorkCount& work = WorkOf(form);
  return std::all_of(work.trips.begin(), work.trips.end(),
                     [&](const auto& trips) { return trips.second <= work.instances; });
}

bool FormTimes::HoldsAll(const KernelForm& form) {
  const ir::WorkCount& work = WorkOf(form);
  if (work.least_bytes - work.stored_bytes <= target_.model.cached_bytes) return true;
  const auto& top = form.fn.blocks[form.fn.body].ops;
  const auto grid = std::find_if(top.begin(), top.end(), [&](ir::OpId id) {
    return form.fn.ops[id].kind == ir::OpKind::kParallel;
  });
  if (grid == top.end()) return false;
  const ir::Op& op = form.fn.ops[*grid];
  const ir::Param* const end = form.fn.param(op.operands[1]);
  const auto known = end == nullptr ? names_.end() : names_.find(end->name);
  return known != names_.end() && known->second <= op.ints("steps")[0];
}

std::optional<double> FormTimes::MarginOfOneRole(KernelForm& form) {
  const ir::WorkCount& work = WorkOf(form);
  const KernelForm::Periods& periods = form.AnyPeriods(target_, &shared_);
  if (!periods) return std::nullopt;
  const auto margin = [&](int64_t beside) {
    return scheduler::MarginOfOneRole(form.fn, target_, work, *periods, beside);
  };
  constexpr int64_t kAnyNumber = 1 << 16;  // of CTAs on an SM: whether it hangs on how many
  return margin(kAnyNumber) ? margin(form.CtasOfOneRole(target_)) : std::nullopt;
}

const ir::WorkCount& FormTimes::WorkOf(const KernelForm& form) {
  const auto [at, fresh] = works_.try_emplace(&form);
  if (fresh) at->second = ir::CountWork(form.fn, names_, target_, {.edges = false});
  return at->second;
}

namespace {

std::optional<KernelTime> TimeOfParts(const ir::Function& fn, const ir::Target& target,
                                      const Bindings& names, const RowStarts& row_starts,
                                      int64_t parts, int64_t one_role) {
  const ShapeOf none;
  FormTimes model(target, names, AskedByCopies(fn, target, row_starts, names), none);
  constexpr int64_t kCluster = ir::isa::kPortableClusterCtas;
  if (parts > kCluster) {
    if (const DividedPtr divided = DivideForm(fn, parts / kCluster, kCluster, target))
      return model.TimeOf(*divided, kCluster, kAnyTime, one_role);
  } else if (const FormPtr form =
                 parts > 1 ? SplitForm(fn, parts, target) : std::make_unique<KernelForm>(fn)) {
    return model.TimeOf(*form, 1, parts, false, one_role);
  }
  return std::nullopt;
}

}  // namespace

double TimeInParts(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                   const RowStarts& row_starts, int64_t parts) {
  const std::optional<KernelTime> time = TimeOfParts(fn, target, names, row_starts, parts, 0);
  return time ? time->ms : 0;
}

double TimeApart(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                 const RowStarts& row_starts, int64_t parts) {
  const ShapeOf none;
  FormTimes model(target, names, AskedByCopies(fn, target, row_starts, names), none);
  const DividedPtr divided = DivideForm(fn, parts, 1, target);
  const auto time = divided ? model.TimeOf(*divided, 1, kAnyTime) : std::nullopt;
  return time ? time->ms : 0;
}

std::optional<KernelTime> TimeInOrder(const ir::Function& fn, const ir::Target& target,
                                      const Bindings& names, const RowStarts& row_starts,
                                      int64_t parts) {
  return TimeOfParts(fn, target, names, row_starts, parts, CtasOfOneRole(fn, target));
}

}  // namespace tilec::scheduler
