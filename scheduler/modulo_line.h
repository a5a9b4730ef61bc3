// What one instance of a resource is busy with in a period: the ops that are placed, by the cycle
// in which they begin. Where it is nearly full, most cycles are taken; between two neighbours there
// is room or there is none, so who looks for room looks at gaps and not at cycles.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tilec::scheduler {

class Line {
 public:
  struct Spot {
    int64_t begin, cycles;  // 0 <= begin < ii, 0 < cycles <= ii
    int op;
  };

  void Clear() { spots_.clear(); }
  void Put(const Spot& spot) { spots_.insert(Behind(spot.begin), spot); }
  void Take(int op) {
    std::erase_if(spots_, [&](const Spot& spot) { return spot.op == op; });
  }
  const std::vector<Spot>& spots() const { return spots_; }

  // Cycles that are free in front of a spot, and behind it.
  int64_t Before(size_t i, int64_t ii) const {
    const Spot& last = spots_[i == 0 ? spots_.size() - 1 : i - 1];
    return spots_[i].begin - last.begin - last.cycles + (i == 0 ? ii : 0);
  }
  int64_t After(size_t i, int64_t ii) const {
    return Before(i + 1 == spots_.size() ? 0 : i + 1, ii);
  }

  // How far it is from `at` to where `cycles` are free, forwards or backwards; `ii` or more: there
  // is no such place within a period.
  int64_t Step(int64_t at, int64_t cycles, bool forward, int64_t ii) const;

 private:
  std::vector<Spot>::const_iterator Behind(int64_t at) const {
    return std::upper_bound(spots_.begin(), spots_.end(), at,
                            [](int64_t t, const Spot& spot) { return t < spot.begin; });
  }

  std::vector<Spot> spots_;  // in the order of their first cycles, one behind the other
};

}  // namespace tilec::scheduler
