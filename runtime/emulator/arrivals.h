// Who arrived at an mbarrier in the phase under way and in the one before: what a report about a
// program that hangs needs to say who should have come. Kept in checked launches only.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace tilec::runtime::emulator {

struct Arrival {
  uint32_t rank = 0, warp = 0;  // of the CTA in its cluster, in the CTA
  uint32_t pc = 0;
  uint32_t lanes = 0;  // a mask
  bool Same(const Arrival& o) const { return rank == o.rank && warp == o.warp && pc == o.pc; }
};

class Arrivals {
 public:
  Arrivals() = default;
  explicit Arrivals(uint32_t init_pc) : init_pc_(init_pc) {}
  uint32_t init_pc() const { return init_pc_; }  // of its mbarrier.init
  // `phase`: the one the arrival counts for.
  void Add(uint64_t phase, const Arrival& a) {
    if (phase != phase_) {
      before_ = phase == phase_ + 1 ? std::move(now_) : std::vector<Arrival>();
      now_.clear();
      phase_ = phase;
    }
    for (Arrival& o : now_)
      if (o.Same(a)) {
        o.lanes |= a.lanes;
        return;
      }
    if (now_.size() < kMost) now_.push_back(a);
  }
  // … in `phase`; empty if nobody, or if that is longer ago.
  const std::vector<Arrival>& In(uint64_t phase) const {
    static const std::vector<Arrival> kNobody;
    return phase == phase_ ? now_ : phase + 1 == phase_ ? before_ : kNobody;
  }

 private:
  static constexpr size_t kMost = 64;
  uint32_t init_pc_ = 0;
  uint64_t phase_ = 0;
  std::vector<Arrival> now_, before_;
};

}  // namespace tilec::runtime::emulator
