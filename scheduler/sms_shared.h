// What CTAs find when others run beside them: SMs come in pairs that share a port to the L2, and in
// parts of the machine that no cluster crosses.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include "ir/target.h"

namespace tilec::scheduler {

// How CTAs find what they share: how many of those that share a port are there (0 none, 1 all),
// and how often they need it, of as often as the machine's costs say.
struct Sharing {
  double beside = 0, times = 1;
  auto operator<=>(const Sharing&) const = default;
};
Sharing SharingOf(const ir::Target& target, int64_t ctas, double times);
// `target` as they find it. `out` is a copy of it, whose costs become so.
void ShareCosts(const ir::Target& target, const Sharing& sharing, ir::Target* out);
ir::Target SharedBy(const ir::Target& target, const Sharing& sharing);
inline ir::Target SharedBy(const ir::Target& target, int64_t ctas, double times) {
  return SharedBy(target, SharingOf(target, ctas, times));
}

// Multiprocessors that clusters of so many CTAs run on at a time.
int64_t SmsOfClusters(const ir::Target& target, int64_t ctas);

}  // namespace tilec::scheduler
