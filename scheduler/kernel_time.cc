// SPDX-License-Identifier: Apache-2.0
#include "scheduler/kernel_time.h"

#include <algorithm>
#include <cmath>

#include "scheduler/outside_loops.h"
#include "scheduler/row_bytes.h"
#include "scheduler/sms_shared.h"

namespace tilec::scheduler {

namespace {

using ir::Function;

// What the parts of an estimate know of one another, in the order in which they are found.
class Estimate {
 public:
  Estimate(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
           const LaunchShape& shape);
  KernelTime Of(const std::vector<LoopPeriod>& loops);

 private:
  void AddLoops(const std::vector<LoopPeriod>& loops);
  double CyclesOf(const LoopPeriod& period, ir::OpId loop) const;
  void CountRounds();
  void Compute();
  void Move();
  double Binding() const;
  // So many times longer computing takes, by the clock, while so many of the SMs do.
  double Slower(double active) const { return std::max(1.0, active * heat_ / cool_); }

  const Function& fn_;
  const ir::Target& target_;
  const ir::TargetModel& model_;
  const ir::WorkCount& work_;
  const LaunchShape& shape_;
  const OutsideLoops outside_;
  const double instances_;
  const int64_t sms_;
  const double khz_;
  const bool rows_;
  KernelTime time_;
  // Cycles of an instance: in loops, in those of the longest tile, until a pipeline is full, of the
  // busiest unit, and of the one that the clock depends on.
  double steady_ = 0, longest_ = 0, fill_ = 0, busy_, hot_;
  double start_ = 0;  // of a CTA
  double tiles_ = 1;  // of one CTA
  // Waves, or iterations of persistent CTAs: all, those in which every SM has work, and the rest.
  double rounds_ = 0, full_ = 0, whole_ = 0, rest_ = 0;
  double per_round_ = 0, last_round_ = 0;     // cycles
  double heat_ = 0, cool_ = 1;                // of the clock
  double moved_ = 0, asked_ = 0, fewer_ = 0;  // of the memory: ms of all, and of the last round
};

Estimate::Estimate(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
                   const LaunchShape& shape)
    : fn_(fn),
      target_(target),
      model_(target.model),
      work_(work),
      shape_(shape),
      outside_(fn, target, work, shape.warpgroups),
      instances_(static_cast<double>(std::max<int64_t>(1, work.instances))),
      sms_(SmsOfClusters(target,
                         shape.in_order ? CeilDiv(shape.cluster, shape.per_sm) : shape.cluster)),
      khz_(1e3 * static_cast<double>(target.limits.clock_mhz)),
      rows_(work.products.empty()),
      busy_(outside_.busy),
      hot_(outside_.hot) {
  time_.ctas = shape.ctas > 0 ? shape.ctas : std::max<int64_t>(1, work.instances);
  time_.per_sm = std::clamp<int64_t>(shape.per_sm, 1, CeilDiv(time_.ctas, sms_));
  time_.waves = CeilDiv(time_.ctas, sms_ * time_.per_sm);
}

// A turn of a loop.
double Estimate::CyclesOf(const LoopPeriod& period, ir::OpId loop) const {
  double cycles = static_cast<double>(period.cycles) *
                  (period.chained ? static_cast<double>(model_.chained_percent) / 100 : 1);
  if (shape_.in_order) {
    // CTAs side by side meet as warpgroups of one do.
    const bool meets = (period.chained || period.hangs) && time_.per_sm > 1;
    cycles = static_cast<double>(period.in_order) *
             (meets ? static_cast<double>(model_.chained_percent) / 100 : 1);
  }
  if (const auto turn = outside_.turns.find(loop); turn != outside_.turns.end())
    cycles = std::max(cycles, turn->second);
  return cycles;
}

void Estimate::AddLoops(const std::vector<LoopPeriod>& loops) {
  for (const auto& [loop, entries] : outside_.entries) {
    const auto trips = work_.trips.find(loop);
    const Span at = fn_.ops[loop].at;
    for (const LoopPeriod& period : loops) {
      if (period.at.file != at.file || period.at.begin != at.begin || trips == work_.trips.end())
        continue;
      const double turns = static_cast<double>(trips->second) / instances_;
      const double cycles = CyclesOf(period, loop);
      steady_ += turns * cycles;
      const double most = entries * static_cast<double>(work_.most.at(loop));
      longest_ += std::max(turns, most) * cycles;
      busy_ += turns * static_cast<double>(shape_.in_order ? period.units : period.busy);
      hot_ += turns * static_cast<double>(period.hot);
      if (!shape_.in_order) fill_ += entries * static_cast<double>(period.fill);
    }
  }
  // CTAs that share a tile are as slow as that of them which has the most turns.
  if (shape_.cluster > 1 && (rows_ || outside_.combines)) steady_ = longest_;
}

// Of a CTA: where it begins, its tiles, and how many rounds of CTAs there are.
void Estimate::CountRounds() {
  // Tiles of one CTA; while it works on one, copies for the next are in flight.
  tiles_ = std::ceil(instances_ / static_cast<double>(time_.ctas));
  // What leaves keeps the next tile waiting; where there is none, nobody waits.
  const double leaves = tiles_ > 1 ? shape_.leaves : 0;
  const double own = outside_.cycles + steady_ + leaves;
  const double of_rows = model_.rows_cluster_start_cycles *
                         (time_.waves > 1 ? 1 + model_.rows_cluster_again_times : 1);
  start_ = (rows_ ? model_.rows_start_cycles : model_.start_cycles) +
           (shape_.cluster > 1 ? (rows_ ? of_rows : model_.cluster_start_cycles) : 0);
  time_.cycles_per_cta = start_ + fill_ + tiles_ * own;
  time_.loop_share = tiles_ * steady_ / time_.cycles_per_cta;
  rounds_ = static_cast<double>(time_.waves) * tiles_;
  full_ = instances_ / (static_cast<double>(sms_) * static_cast<double>(time_.per_sm));
  whole_ = std::min(rounds_, std::floor(full_)), rest_ = full_ - std::floor(full_);
}

void Estimate::Compute() {
  const auto beside = static_cast<double>(time_.per_sm);
  const double wave = std::max(time_.cycles_per_cta, beside * tiles_ * busy_);
  per_round_ = wave / tiles_;
  heat_ = std::min(1.0, beside * hot_ / std::max(1.0, per_round_));
  if (const int hot = HotUnit(target_); hot >= 0)
    cool_ = static_cast<double>(target_.units[static_cast<size_t>(hot)].full_clock_percent) / 100;
  // CTAs side by side share an SM's units: the last of them have more of those for themselves.
  const double beside_last = std::ceil(rest_ * beside - 1e-9);
  last_round_ = shape_.in_order
                    ? std::max(time_.cycles_per_cta, beside_last * tiles_ * busy_) / tiles_
                    : per_round_;
  time_.compute_ms =
      (per_round_ * whole_ * Slower(1) + last_round_ * (rounds_ - whole_) * Slower(rest_)) / khz_;
  // Where tiles take unequally long they come longest first: no SM waits for a last wave, and none
  // is done before the longest is.
  time_.uneven = longest_ > 1.05 * steady_;
  if (!time_.uneven) return;
  const double share = full_ > 1 ? per_round_ / khz_ * full_ * Slower(1) : 0;
  const double most = (start_ + fill_ + outside_.cycles + longest_) / khz_ * Slower(rest_);
  time_.longest_binds = most > share;
  time_.compute_ms = std::max(most, share);
}

void Estimate::Move() {
  const auto beside = static_cast<double>(time_.per_sm);
  // CTAs that run together share operands of products in L2; rows that a CTA reads again are gone.
  const double again =
      (shape_.lines - 1) * std::max(0.0, work_.loaded_bytes * shape_.share - work_.least_bytes);
  double ms_of_byte = 0;  // while every SM has work
  if (const double gbs = static_cast<double>(target_.limits.memory_gbs); gbs > 0)
    ms_of_byte = 1e-6 / (model_.memory_share * gbs);
  const double awake = shape_.in_order ? std::min(1.0, rest_ * beside) : rest_;  // of the SMs
  fewer_ = rest_ / (1 - model_.fewer_share * (1 - awake));  // of a round of all SMs
  const double bytes = work_.least_bytes + (shape_.written - 1) * work_.stored_bytes;
  const double far = FarBytes(fn_, work_, target_, sms_ * time_.per_sm);
  moved_ = ms_of_byte * (rows_ ? far : bytes);
  const double near = rows_ ? ms_of_byte * NearBytes(fn_, model_, work_, far) : 0;
  asked_ = std::max(near, moved_ + (rows_ ? 0 : ms_of_byte * model_.asked_share * again));
  time_.memory_ms = asked_ * (whole_ + fewer_) / full_;
}

// What takes longer of computing and moving, round by round.
double Estimate::Binding() const {
  // The last few CTAs have the memory for themselves, and each still computes and copies its tile.
  const double all = std::max(per_round_ / khz_ * Slower(1), asked_ / full_);
  const double few = std::max(last_round_ / khz_ * Slower(rest_), asked_ * fewer_ / full_);
  const double binding = time_.uneven ? std::max(time_.compute_ms, time_.memory_ms)
                                      : whole_ * all + (rounds_ - whole_) * few;
  // CTAs that share a tile's loop end and begin together, and nobody copies between their waves, if
  // no others are on their SMs.
  if (!outside_.combines || rounds_ <= 1 || time_.per_sm != 1) return binding;
  return std::max(binding,
                  time_.memory_ms + (rounds_ - 1) * (start_ + fill_ + outside_.cycles) / khz_);
}

KernelTime Estimate::Of(const std::vector<LoopPeriod>& loops) {
  AddLoops(loops);
  CountRounds();
  Compute();
  Move();
  const auto first =
      static_cast<double>(std::min(time_.ctas, sms_ * (shape_.in_order ? time_.per_sm : 1)));
  const double uncovered = shape_.awaits && !shape_.in_order ? 1 / static_cast<double>(time_.per_sm)
                                                             : model_.uncovered_share;
  time_.ms = model_.launch_ms + first * model_.cta_ms + Binding() +
             uncovered * std::min(time_.compute_ms, moved_ * (whole_ + fewer_) / full_);
  return time_;
}

}  // namespace

KernelTime EstimateTime(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
                        const std::vector<LoopPeriod>& loops, const LaunchShape& shape) {
  return Estimate(fn, target, work, shape).Of(loops);
}

}  // namespace tilec::scheduler
