// What can become of a function's tiles, and what the model of whole kernels says of each for given
// sizes: CTAs that share a loop, launches in two, pairs that copy for each other. Kept, since what
// of that does not depend on sizes is most of the work. For split_choice.h, which weighs them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/passes/divide_reductions.h"
#include "ir/target.h"
#include "scheduler/copy_lines.h"
#include "scheduler/kernel_time.h"
#include "scheduler/one_role.h"
#include "scheduler/split_choice.h"

namespace tilec::scheduler {

// One function, and what was found out about it.
struct Form {
  explicit Form(ir::Function f) : fn(std::move(f)) {}
  using Periods = std::optional<std::vector<LoopPeriod>>;

  const Periods& PeriodsAt(const Sharing& sharing, const ir::Target& target) {
    const std::lock_guard<std::mutex> lock(mutex);
    auto known = periods.find(sharing);
    if (known == periods.end())
      known = periods.emplace(sharing, BoundPeriods(fn, SharedBy(target, sharing))).first;
    return known->second;
  }
  double Warpgroups(const ir::Target& target) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!warpgroups) warpgroups = CutWarpgroups(fn, target);
    return *warpgroups;
  }
  int64_t CtasOfOneRole(const ir::Target& target) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (one_role == 0) one_role = scheduler::CtasOfOneRole(fn, target);
    return one_role;
  }

  const ir::Function fn;

 private:
  std::mutex mutex;  // of what follows
  std::optional<double> warpgroups;
  int64_t one_role = 0;  // CTAs of an SM; 0: not asked yet
  std::map<Sharing, Periods> periods;
};
using FormPtr = std::unique_ptr<Form>;

// Groups of clusters (of 1: of CTAs that are none), and a second launch for what they have.
struct Divided {
  explicit Divided(ir::Division d) : parts(std::move(d.parts)), whole(std::move(d.whole)) {}
  Form parts, whole;
};
using DividedPtr = std::unique_ptr<Divided>;

// Neighbours along one range of the grid that copy for each other; with CTAs that have no tile,
// where its grid is none of clusters.
struct Neighbours {
  int64_t along = 0;
  double asked = 1;     // of what it needs, what a CTA asks for itself
  bool stores = false;  // they store neighbouring columns: sectors that two tiles share, at a time
  FormPtr form;
};

// Dealt out to so many CTAs; null: an obstacle.
FormPtr Split(ir::Function fn, int64_t ctas, const ir::Target& target);
FormPtr SplitRows(ir::Function loops, int64_t ctas, const ir::Target& target);
DividedPtr Divide(const ir::Function& fn, int64_t groups, int64_t cluster,
                  const ir::Target& target);
std::vector<Neighbours> NeighboursOf(const ir::Function& fn, const ir::Target& target);
// Does more come from memory again than caches hold where CTAs do not walk along the first range
// first? (H200, 864x24584x9320 of [K, M] and [K, N], four tiles high: pairs along the columns, which
// walk along them, 689 us, 617 along the rows; 45936x664x19072 3320 and 2063.)
bool ComesAgain(const ir::Function& fn, const ir::Target& target, const Bindings& names);

// The sizes of one question.
class Question {
 public:
  Question(const ir::Function& fn, const ir::Target& target, const Bindings& names,
           const RowStarts& row_starts, const ShapeOf& shape_of)
      : target_(target),
        names_(names),
        shape_of_(shape_of),
        asked_(AskedByCopies(fn, target, row_starts, names)) {}

  // `share`: of the lines that it needs, what a CTA asks for itself. `stays`: as many CTAs as SMs,
  // which walk over tiles. `one_role`: CTAs of an SM, each of one role; 0: of several.
  // `stored`: neighbours that store at a time what lies together, cut at their ends alone.
  std::optional<KernelTime> TimeOf(Form& form, double share, int64_t cluster, bool stays = false,
                                   int64_t one_role = 0, int64_t stored = 1) {
    const ir::WorkCount work = ir::CountWork(form.fn, names_, target_, {.edges = false});
    whole_flops = work.whole_flops;
    if (const double gbs = target_.model.memory_share * double(target_.limits.memory_gbs); gbs > 0)
      again_ms = 1e-6 * work.again_bytes / gbs;
    if (work.instances == 0) return std::nullopt;
    const Sharing sharing =
        SharingOf(target_, work.instances, asked_.Times(work.instances, target_) * share);
    const Form::Periods& periods = form.PeriodsAt(sharing, target_);
    if (!periods) return std::nullopt;
    LaunchShape shape = shape_of_ ? shape_of_(form.fn, work) : LaunchShape();
    shape.in_order = one_role > 0;
    if (shape.in_order) shape.per_sm = one_role;
    shape.cluster = cluster;
    shape.share = share;
    shape.lines = asked_.lines;
    shape.written = 1 + (asked_.written - 1) / static_cast<double>(stored);
    shape.leaves = asked_.leaves;
    shape.warpgroups = form.Warpgroups(target_);
    if (stays) shape.ctas = std::min(target_.limits.sms, work.instances);
    return EstimateTime(form.fn, target_, work, *periods, shape);
  }
  std::optional<KernelTime> TimeOf(Divided& divided, int64_t cluster, int64_t one_role = 0) {
    std::optional<KernelTime> time = TimeOf(divided.parts, 1, cluster, false, one_role);
    const double flops = whole_flops;
    const std::optional<KernelTime> whole = TimeOf(divided.whole, 1, 1);
    whole_flops = flops;
    if (!time || !whole) return std::nullopt;
    time->ms += whole->ms + (cluster == 1 ? target_.model.apart_ms : 0);
    return time;
  }
  std::optional<double> MarginOfOneRole(Form& form) {
    const ir::WorkCount work = ir::CountWork(form.fn, names_, target_, {.edges = false});
    const Form::Periods& periods = form.PeriodsAt({}, target_);
    if (!periods) return std::nullopt;
    return scheduler::MarginOfOneRole(form.fn, target_, work, *periods,
                                      form.CtasOfOneRole(target_));
  }
  // Do all of its loops hang on their chains?
  bool Hangs(Form& form) {
    const Form::Periods& periods = form.PeriodsAt({}, target_);
    return periods && !periods->empty() &&
           std::all_of(periods->begin(), periods->end(),
                       [](const LoopPeriod& period) { return period.hangs; });
  }
  // Do rows of what it stores begin or end amid sectors?
  bool CutsStores() const { return asked_.written > 1; }
  int64_t TilesOf(const Form& form) const {
    return ir::CountWork(form.fn, names_, target_, {.edges = false}).instances;
  }
  double whole_flops = 0, again_ms = 0;  // of what was asked last

 private:
  const ir::Target& target_;
  const Bindings& names_;
  const ShapeOf& shape_of_;
  const Asked asked_;
};

}  // namespace tilec::scheduler
