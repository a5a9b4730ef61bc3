// Which cluster runs next, and for how long. Policies with dice stop clusters amid their work: a
// CTA stands between its fence and its flag while another one does all that it has to do. The seed
// alone decides, so that a replay does the same.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "runtime/device.h"

namespace tilec::runtime::emulator {

class Slices {
 public:
  static constexpr size_t kResident = 8;     // clusters that take turns
  static constexpr uint64_t kLong = 20'000;  // instructions that show if a cluster only polls

  Slices(const EmulatorOptions& o, bool several)
      : on_(several && (o.policy == Policy::kRandom || o.policy == Policy::kPct)),
        state_(o.seed * 2 + 1) {}

  size_t Wanted(size_t most) const { return on_ ? std::min(most, kResident) : most; }
  // Of n clusters.
  size_t Next(size_t n) { return on_ ? Dice(n) : 0; }
  // Warp instructions. One slice in three is long, the others are of any scale.
  uint64_t Length(uint64_t budget) {
    if (!on_) return budget;
    if (Dice(3) == 0) return std::min(budget, kLong);
    const uint64_t scale = 4 + Dice(9);
    return 1 + Dice(1ull << scale);
  }

 private:
  uint64_t Dice(uint64_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (state_ >> 33) % n;
  }

  bool on_;
  uint64_t state_;
};

}  // namespace tilec::runtime::emulator
