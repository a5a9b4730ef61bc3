// SPDX-License-Identifier: Apache-2.0
#include "scheduler/outside_loops.h"

#include <algorithm>

#include "ir/lower/operands.h"
#include "ir/lower/slides.h"
#include "ir/op_info.h"
#include "ir/passes/row_threads.h"
#include "ir/pushed_tile.h"
#include "scheduler/body_facts.h"
#include "scheduler/extract.h"
#include "scheduler/loop_periods.h"
#include "scheduler/op_work.h"

namespace tilec::scheduler {

namespace {

using ir::Function;
using ir::Op;
using ir::OpId;
using ir::OpKind;

// Threads meet to exchange what they hold.
bool Meets(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kArgReduce || kind == OpKind::kScan ||
         kind == OpKind::kRearrange;
}

}  // namespace

OutsideLoops::OutsideLoops(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
                           double warpgroups)
    : fn_(fn),
      target_(target),
      work_(work),
      slides_(ir::SlideOf(fn).has_value()),
      warpgroups_(warpgroups > 0 ? warpgroups : CutWarpgroups(fn, target)) {
  for (OpId loop : InnermostLoops(fn)) inner_.insert(loop);
  for (const Op& op : fn.ops)
    if (ir::IsInAnyOrder(op)) {
      const std::vector<int64_t>& seen = fn.type(op.results[0]).shape;
      own_.insert({seen, {seen[0], seen[1], seen[2]}});
    }
  for (OpId id : fn.blocks[fn.body].ops)
    if (fn.ops[id].kind == OpKind::kParallel) cluster_ = fn.ops[id].i("cluster", 1);
  hot_unit_ = HotUnit(target);
  used_.resize(target.units.size());
  Walk(fn.body, 1);
  // CTAs side by side: what one of them does on one unit does not keep others from another one.
  if (work.products.empty()) busy = *std::max_element(used_.begin(), used_.end());
}

void OutsideLoops::Walk(ir::BlockId block, double times) {
  for (OpId id : fn_.blocks[block].ops) {
    const Op& op = fn_.ops[id];
    if (inner_.count(id) > 0) {
      entries[id] = times;
      if (work_.products.empty()) turns[id] = Turn(op);
      continue;
    }
    double inside = times;
    if (op.kind == OpKind::kFor) {
      const auto trips = work_.trips.find(id);
      if (trips != work_.trips.end() && work_.instances > 0)
        inside = static_cast<double>(trips->second) / static_cast<double>(work_.instances);
    }
    if (!op.regions.empty() || MeetsIn(op)) waiting_ = false;
    for (ir::BlockId region : op.regions)
      if (region == op.regions[0] || !StoresInstead(fn_, op)) Walk(region, inside);
    if (op.regions.empty()) Add(op, times);
  }
}

// What each thread has of a piece (ir/passes/own_parts.cc) it reduces by itself.
bool OutsideLoops::MeetsIn(const Op& op) const {
  return Meets(op.kind) && !ir::IsInAnyOrder(op) &&
         (op.kind != OpKind::kReduce || own_.count(fn_.type(op.operands[0]).shape) == 0);
}

// A turn's threads load, meet and store as those of straight code do: nothing runs ahead of the
// loop but loads of few elements (ir/passes/read_ahead.cc). Where nobody meets, warps are in turns
// of their own: one waits while others compute, load and store; in whole vectors of all threads, of
// which the last may be of a few. (Where a turn loads more than the row, weights of norms, an H200
// takes as long as one after the other: layernorm of 9x193667 by one CTA 75 us, so said 79.)
double OutsideLoops::Turn(const Op& loop) {
  constexpr int64_t kAhead = 8;  // elements of a thread
  int64_t largest = 0;
  for (OpId id : fn_.blocks[loop.regions[0]].ops)
    for (ir::ValueId v : fn_.ops[id].results)
      if (fn_.type(v).is_tile()) largest = std::max(largest, fn_.type(v).elements());
  const OutsideLoops before = *this;
  const bool ahead = largest <= kAhead * ir::ThreadsFor(largest, target_.lowering);
  waiting_ = ahead;
  cycles = waits_ = 0;
  in_turn_ = true;
  bool meets = false;  // or one thing is done after the other
  ir::ValueId row;     // all that is loaded
  for (OpId id : fn_.blocks[loop.regions[0]].ops) {
    if (fn_.ops[id].kind == OpKind::kLoad) {
      meets = meets || row.valid();
      row = fn_.ops[id].results[0];
    }
    meets = meets || MeetsIn(fn_.ops[id]);
    if (fn_.ops[id].regions.empty()) Add(fn_.ops[id], 1);
  }
  double turn = cycles;
  if (!meets && row.valid()) {
    double most = 0;  // of one unit
    for (size_t u = 0; u < used_.size(); ++u) most = std::max(most, used_[u] - before.used_[u]);
    const int64_t elements = fn_.type(row).elements();
    const int64_t at_once = ir::ThreadsFor(largest, target_.lowering) *
                            (ir::kAccessBytes / ir::ByteSize(fn_.type(row).dtype));
    turn = std::max(most, waits_ + (busy - before.busy) / warpgroups_);
    if (elements > at_once)
      turn *= static_cast<double>(RoundUp(elements, at_once)) / static_cast<double>(elements);
  }
  cycles = before.cycles, busy = before.busy, hot = before.hot;
  used_ = before.used_, waiting_ = before.waiting_, combines = before.combines;
  in_turn_ = false;
  return turn;
}

// Threads meet before each of several stores to a tensor (Emitter::MeetsBefore).
bool OutsideLoops::MeetsBefore(const Op& store) const {
  if (store.kind != OpKind::kStore || in_turn_) return false;
  return std::count_if(fn_.ops.begin(), fn_.ops.end(), [&](const Op& op) {
           return op.kind == OpKind::kStore && op.operands[0] == store.operands[0];
         }) > 1;
}

void OutsideLoops::AddClusterReduce(const Op& op, double times) {
  combines = true;
  // What is small and for all is sent: one way, and nobody waits until it has been read.
  if (op.i("all", 0) != 0 && fn_.type(op.results[0]).elements() <= ir::kMostPushed) {
    cycles += times * target_.model.meeting_cycles;
    return;
  }
  // Written once; then each CTA reads its part of all, and the first collects the sums. Of
  // slices nobody collects anything, and the meeting that says that it is written is the only
  // one beside that at the end of all clusters.
  const ir::Type& tile = fn_.type(op.operands[0]);
  const auto bytes = static_cast<double>(tile.elements() * ir::ByteSize(tile.dtype));
  const auto ctas = static_cast<double>(cluster_);
  const bool slices = op.attr("slices") != nullptr;
  const double own = slices ? static_cast<double>(fn_.type(op.results[0]).elements()) /
                                  static_cast<double>(tile.elements())
                            : 2 / ctas;
  const double crossings = (ctas - 1) * own;
  cycles += times * ((slices ? 1 : target_.model.meetings) * target_.model.meeting_cycles +
                     bytes / target_.model.own_bytes_per_cycle +
                     crossings * bytes / target_.model.remote_bytes_per_cycle);
}

void OutsideLoops::Add(const Op& op, double times) {
  if (IsFree(op.kind) || op.kind == OpKind::kYield || ir::IsInAnyOrder(op)) return;
  if (op.kind == OpKind::kClusterReduce) return AddClusterReduce(op, times);
  const ir::Work work = WorkOf(target_, fn_, op, [](ir::ValueId) { return 1; });
  if (work.elements <= 1) return;
  const bool kept = op.kind == OpKind::kLoad && op.i("kept") > 0;
  const ir::OpCost* cost = target_.CostOf(kept ? "smem_load" : CostName(fn_, op));
  if (cost == nullptr) return;
  double unit = 0;
  for (const ir::TargetUse& use : cost->uses) {
    const auto used = static_cast<double>(use.cycles.At(work));
    if (use.unit == hot_unit_) hot += times * used;
    used_[static_cast<size_t>(use.unit)] += times * used;
    if (!target_.units[static_cast<size_t>(use.unit)].fluid) unit = std::max(unit, used);
  }
  const double issue = static_cast<double>(cost->issue.At(work)) / warpgroups_;
  busy += times * std::max(unit, issue);
  // Without products nothing keeps loads between two barriers from being in flight together.
  // All warps of a CTA meet where rows are reduced.
  const bool rows = work_.products.empty(), load = op.kind == OpKind::kLoad && !kept;
  const bool meets = rows && MeetsIn(op);
  const bool waits = op.kind == OpKind::kDot || (load && !waiting_) || meets;
  waiting_ = (waiting_ || (load && rows)) && !(rows && MeetsBefore(op));
  double latency = waits ? static_cast<double>(cost->latency.At(work)) : 0;
  // A turn whose vectors are put together of two aligned ones waits for them longer, and so does
  // one that slides.
  const bool amid = in_turn_ && load && ir::BeginsAnywhere(fn_, op);
  const int64_t times_waited = !amid     ? 1
                               : slides_ ? target_.model.sliding_waits
                                         : target_.model.shifted_waits;
  if (rows && load && waits) latency += times_waited * target_.model.memory_cycles;
  if (meets) latency += static_cast<double>(target_.Transfer("smem", 0));
  // CTAs of a cluster are as late as the last of them where they meet, which is not in each turn
  // of a loop.
  if (meets && cluster_ > 1 && !in_turn_) latency *= target_.model.cluster_meeting_times;
  waits_ += latency;
  cycles += times * std::max({unit, issue, latency});
}

}  // namespace tilec::scheduler
