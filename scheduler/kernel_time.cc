// SPDX-License-Identifier: Apache-2.0
#include "scheduler/kernel_time.h"

#include <algorithm>
#include <cmath>

#include "scheduler/outside_loops.h"
#include "scheduler/row_bytes.h"
#include "scheduler/sms_shared.h"

namespace tilec::scheduler {

using ir::Function;

KernelTime EstimateTime(const Function& fn, const ir::Target& target, const ir::WorkCount& work,
                        const std::vector<LoopPeriod>& loops, const LaunchShape& shape) {
  KernelTime time;
  const ir::TargetModel& model = target.model;
  const OutsideLoops outside(fn, target, work, shape.warpgroups);
  const double instances = static_cast<double>(std::max<int64_t>(1, work.instances));
  const int64_t each = shape.in_order ? CeilDiv(shape.cluster, shape.per_sm) : shape.cluster;
  const int64_t sms = SmsOfClusters(target, each);
  const double khz = 1e3 * static_cast<double>(target.limits.clock_mhz);
  time.ctas = shape.ctas > 0 ? shape.ctas : std::max<int64_t>(1, work.instances);
  time.per_sm = std::clamp<int64_t>(shape.per_sm, 1, CeilDiv(time.ctas, sms));
  time.waves = CeilDiv(time.ctas, sms * time.per_sm);

  double steady = 0, longest = 0, fill = 0, busy = outside.busy, hot = outside.hot;
  for (const auto& [loop, entries] : outside.entries) {
    const auto trips = work.trips.find(loop);
    const Span at = fn.ops[loop].at;
    for (const LoopPeriod& period : loops) {
      if (period.at.file != at.file || period.at.begin != at.begin || trips == work.trips.end())
        continue;
      const double turns = static_cast<double>(trips->second) / instances;
      double cycles = static_cast<double>(period.cycles) *
                      (period.chained ? static_cast<double>(model.chained_percent) / 100 : 1);
      if (shape.in_order) {
        // CTAs side by side meet as warpgroups of one do.
        const bool meets = (period.chained || period.hangs) && time.per_sm > 1;
        cycles = static_cast<double>(period.in_order) *
                 (meets ? static_cast<double>(model.chained_percent) / 100 : 1);
      }
      if (const auto turn = outside.turns.find(loop); turn != outside.turns.end())
        cycles = std::max(cycles, turn->second);
      steady += turns * cycles;
      const double most = entries * static_cast<double>(work.most.at(loop));
      longest += std::max(turns, most) * cycles;
      busy += turns * static_cast<double>(shape.in_order ? period.units : period.busy);
      hot += turns * static_cast<double>(period.hot);
      if (!shape.in_order) fill += entries * static_cast<double>(period.fill);
    }
  }
  // CTAs that share a tile are as slow as that of them which has the most turns.
  if (shape.cluster > 1 && (work.products.empty() || outside.combines)) steady = longest;
  // Tiles of one CTA; while it works on one, copies for the next are in flight.
  const double tiles = std::ceil(instances / static_cast<double>(time.ctas));
  // What leaves keeps the next tile waiting; where there is none, nobody waits.
  const double leaves = tiles > 1 ? shape.leaves : 0;
  const double own = outside.cycles + steady + leaves;
  const bool rows = work.products.empty();
  // A cluster that starts where others end waits until all of its CTAs find room. (H200, eight CTAs
  // a row in 24 to 252 waves: each 2000 to 3300 cycles longer than said, softmax and norms alike.)
  constexpr double kAmongOthers = 4;
  const double of_rows = model.rows_cluster_start_cycles * (time.waves > 1 ? 1 + kAmongOthers : 1);
  const double start = (rows ? model.rows_start_cycles : model.start_cycles) +
                       (shape.cluster > 1 ? (rows ? of_rows : model.cluster_start_cycles) : 0);
  time.cycles_per_cta = start + fill + tiles * own;
  time.loop_share = tiles * steady / time.cycles_per_cta;
  const auto beside = static_cast<double>(time.per_sm);
  const double wave = std::max(time.cycles_per_cta, beside * tiles * busy);
  // Waves, or iterations of persistent CTAs, in which every SM has work, and the rest of them.
  const double rounds = static_cast<double>(time.waves) * tiles;
  const double full = instances / (static_cast<double>(sms) * beside);
  const double per_round = wave / tiles;
  const double heat = std::min(1.0, beside * hot / std::max(1.0, per_round));
  const int hot_unit = HotUnit(target);
  const double cool =
      hot_unit < 0
          ? 1
          : static_cast<double>(target.units[static_cast<size_t>(hot_unit)].full_clock_percent) /
                100;
  const auto slower = [&](double active) { return std::max(1.0, active * heat / cool); };
  const double whole = std::min(rounds, std::floor(full)), rest = full - std::floor(full);
  // CTAs side by side share an SM's units: the last of them have more of those for themselves.
  const double beside_last = std::ceil(rest * beside - 1e-9);
  const double last_round =
      shape.in_order ? std::max(time.cycles_per_cta, beside_last * tiles * busy) / tiles
                     : per_round;
  time.compute_ms = (per_round * whole * slower(1) + last_round * (rounds - whole) * slower(rest)) /
                    khz;
  // Where tiles take unequally long they come longest first: no SM waits for a last wave, and none
  // is done before the longest is.
  time.uneven = longest > 1.05 * steady;
  if (time.uneven) {
    const double share = full > 1 ? per_round / khz * full * slower(1) : 0;
    const double most = (start + fill + outside.cycles + longest) / khz * slower(rest);
    time.longest_binds = most > share;
    time.compute_ms = std::max(most, share);
  }
  // CTAs that run together share operands of products in L2; rows that a CTA reads again are gone.
  const double again =
      (shape.lines - 1) * std::max(0.0, work.loaded_bytes * shape.share - work.least_bytes);
  double ms_of_byte = 0;  // while every SM has work
  if (const double gbs = static_cast<double>(target.limits.memory_gbs); gbs > 0)
    ms_of_byte = 1e-6 / (model.memory_share * gbs);
  const double awake = shape.in_order ? std::min(1.0, rest * beside) : rest;  // of the SMs
  const double fewer = rest / (1 - model.fewer_share * (1 - awake));  // of a round of all SMs
  const double bytes = work.least_bytes + (shape.written - 1) * work.stored_bytes;
  const double far = FarBytes(work, target, sms * time.per_sm);
  const double moved = ms_of_byte * (rows ? far : bytes);
  const double near = rows ? ms_of_byte * NearBytes(fn, work, far) : 0;
  const double asked = std::max(near, moved + (rows ? 0 : ms_of_byte * model.asked_share * again));
  time.memory_ms = asked * (whole + fewer) / full;
  // The last few CTAs have the memory for themselves, and each still computes and copies its tile.
  const double all = std::max(per_round / khz * slower(1), asked / full);
  const double few = std::max(last_round / khz * slower(rest), asked * fewer / full);
  double binding = time.uneven ? std::max(time.compute_ms, time.memory_ms)
                               : whole * all + (rounds - whole) * few;
  // CTAs that share a tile's loop end and begin together, and nobody copies between their waves, if
  // no others are on their SMs.
  if (outside.combines && rounds > 1 && time.per_sm == 1)
    binding =
        std::max(binding, time.memory_ms + (rounds - 1) * (start + fill + outside.cycles) / khz);
  const auto first =
      static_cast<double>(std::min(time.ctas, sms * (shape.in_order ? time.per_sm : 1)));
  time.ms = model.launch_ms + first * model.cta_ms + binding +
            (shape.awaits && !shape.in_order ? 1 / beside : model.uncovered_share) *
                std::min(time.compute_ms, moved * (whole + fewer) / full);
  return time;
}

}  // namespace tilec::scheduler
