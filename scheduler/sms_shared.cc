// SPDX-License-Identifier: Apache-2.0
#include "scheduler/sms_shared.h"

#include <algorithm>

namespace tilec::scheduler {

namespace {

// H200, cuOccupancyMaxActiveClusters: 39 clusters of three and 17 of six, where parts of one width
// have room for 37 and 15, and as many as those of four, five, seven and eight. (One query, 38
// tiles in three 29.3 us and 30.2 on another device, 46 said of two rounds.) Of six it is left at
// 15: products of 16 tiles would be taken in six for four, which was not timed.
constexpr int64_t kPair = 2, kWiderParts = 2;

}  // namespace

int64_t SmsOfClusters(const ir::Target& target, int64_t ctas) {
  const int64_t part = target.model.part_sms;  // which clusters do not cross
  const int64_t sms = target.limits.sms, beside = target.model.sms_beside_clusters;
  if (ctas <= 2 || sms <= 2 * beside) return sms;
  // Some parts have a pair of multiprocessors more, in which one more cluster finds room where its
  // CTAs divide that.
  const bool more = ctas == 3 && part / ctas < (part + kPair) / ctas;
  const int64_t wider = more ? kWiderParts : 0;
  return ((sms - beside) * (part / ctas) / part + wider) * ctas;
}

Sharing SharingOf(const ir::Target& target, int64_t ctas, double times) {
  // Multiprocessors come in pairs that share a port, and CTAs go to idle pairs first: of 108 CTAs
  // on 132 each copied as much per cycle as of 128, while up to 64 had 1.8 times as much (H200).
  // Where it is lines that they ask for, the L2 is what more of them wait for: of rows amid sectors
  // 32 CTAs took 1.6 cycles a line and 64 2.3 (64x8192x8200), 132 2.9 (4096x4096x4104).
  const double sms = static_cast<double>(target.limits.sms);
  const bool paired = 2 * ctas > target.limits.sms;
  const double beside =
      times > 1 ? std::clamp((static_cast<double>(ctas) - sms / 4) / (sms / 2), 0.0, 1.0)
                : double(paired);
  return {beside, times};
}

ir::Target SharedBy(const ir::Target& target, const Sharing& sharing) {
  ir::Target out = target;
  ShareCosts(target, sharing, &out);
  return out;
}

void ShareCosts(const ir::Target& target, const Sharing& sharing, ir::Target* out) {
  out->ops = target.ops;
  for (size_t u = 0; u < target.units.size(); ++u) {
    const double alone = static_cast<double>(target.units[u].alone_percent) / 100;
    // What neighbours ask for comes in by the same port: no CTA gets more than one alone.
    const double shared = (alone + (1 - alone) * sharing.beside) * sharing.times;
    const double scale = alone < 1 ? std::max(alone, shared) : 1;
    if (scale == 1) continue;
    for (ir::OpCost& op : out->ops)
      for (ir::TargetUse& use : op.uses)
        if (use.unit == static_cast<int>(u)) use.cycles = use.cycles.Times(scale);
  }
}

}  // namespace tilec::scheduler
