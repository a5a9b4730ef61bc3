// The policies. Numbers of steps are executed warp instructions of the cluster.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/policy.h"

#include <algorithm>

namespace tilec::runtime::emulator {
namespace {

constexpr uint64_t kLong = 50000;  // run-to-block: a loop without an end must let others run
constexpr uint64_t kShort = 256;   // by copies: how soon the ranks are looked at again
constexpr uint64_t kStay = 50000;  // who ran so long in a row may be waiting for the others
constexpr int kSmallest = 3, kLargest = 18;  // pct: change points lie below 2^3 … 2^18

}  // namespace

uint64_t PolicyState::Dice(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state * 0x2545f4914f6cdd1dull >> 16;
}

void PolicyState::Start(Policy policy, int depth, uint64_t seed, uint32_t warps,
                        const std::vector<Decision>* replay) {
  *this = {};
  policy_ = policy;
  replay_ = replay;
  rng_ = seed | 1;
  land_rng_ = (seed * 0x9e3779b97f4a7c15ull) | 1;
  polls_.assign(warps, 0);
  ran_.assign(warps, 0);
  if (policy != Policy::kPct) return;
  for (uint32_t k = 0; k < warps; ++k) priorities_.push_back(k + 1);
  for (uint32_t k = warps; k > 1; --k) std::swap(priorities_[k - 1], priorities_[Dice(&rng_) % k]);
  // How long the run will be is not known, so the scale of each change point is drawn first: the
  // guarantee of the method holds up to the number of scales.
  for (int k = 1; k < depth; ++k) {
    uint64_t scale = 1ull << (kSmallest + Dice(&rng_) % (kLargest - kSmallest + 1));
    changes_.push_back(Dice(&rng_) % scale + 1);
  }
  std::sort(changes_.rbegin(), changes_.rend());
}

Turn PolicyState::Next(const std::vector<WarpView>& runnable) {
  if (replay_ != nullptr) {
    while (at_ < replay_->size()) {
      const Decision& d = (*replay_)[at_++];
      auto same = [&](const WarpView& v) { return v.warp == d.warp; };
      if (d.count > 0 && std::any_of(runnable.begin(), runnable.end(), same))
        return {d.warp, d.count};
    }
    return RoundRobin(runnable);
  }
  switch (policy_) {
    case Policy::kRunToBlock: return RoundRobin(runnable);
    case Policy::kRandom: return Random(runnable);
    case Policy::kPct: return Pct(runnable);
    case Policy::kProducerFirst: return ByCopies(runnable, true);
    case Policy::kConsumerFirst: return ByCopies(runnable, false);
  }
  return RoundRobin(runnable);
}

void PolicyState::Ran(uint32_t warp, uint64_t executed, bool polled) {
  executed_ += executed;
  // A loop on a flag in memory looks like work. No warp may have the machine for itself, in however
  // many turns: whoever is waited for must come to run.
  stayed_ = last_ == warp ? stayed_ + executed : executed;
  last_ = warp;
  polled = polled || stayed_ >= kStay;
  ran_[warp] += executed;
  if (!polled) std::fill(polls_.begin(), polls_.end(), uint8_t{0});
  polls_[warp] = polled;
  if (policy_ != Policy::kPct) return;
  bool change = false;
  while (!changes_.empty() && changes_.back() <= executed_) {
    changes_.pop_back();
    change = true;
  }
  if (change || polled) priorities_[warp] = --lowest_;
}

int64_t PolicyState::Lands(size_t in_flight) {
  if (replay_ == nullptr || at_ >= replay_->size()) return -1;
  const Decision& d = (*replay_)[at_];
  if (d.warp != Decision::kLands) return -1;
  ++at_;
  return d.count < in_flight ? int64_t{d.count} : -1;
}

int64_t PolicyState::DiceLands(size_t in_flight) {
  if (replay_ != nullptr || in_flight == 0 || Dice(&land_rng_) % 4 != 0) return -1;
  return static_cast<int64_t>(Dice(&land_rng_) % in_flight);
}

bool PolicyState::AllPoll(const std::vector<WarpView>& runnable) const {
  return std::all_of(runnable.begin(), runnable.end(),
                     [&](const WarpView& v) { return polls_[v.warp] != 0; });
}

Turn PolicyState::RoundRobin(const std::vector<WarpView>& runnable) {
  for (const WarpView& v : runnable)
    if (last_ == ~0u || v.warp > last_) return {v.warp, kLong};
  return {runnable.front().warp, kLong};
}

Turn PolicyState::Random(const std::vector<WarpView>& runnable) {
  uint32_t warp = runnable[Dice(&rng_) % runnable.size()].warp;
  return {warp, 1 + Dice(&rng_) % 64};
}

Turn PolicyState::Pct(const std::vector<WarpView>& runnable) {
  const WarpView* best = &runnable.front();
  for (const WarpView& v : runnable)
    if (priorities_[v.warp] > priorities_[best->warp]) best = &v;
  uint64_t until = changes_.empty() ? kLong : changes_.back() - executed_;
  return {best->warp, std::min(until, kLong)};
}

Turn PolicyState::ByCopies(const std::vector<WarpView>& runnable, bool most) {
  if (AllPoll(runnable)) return RoundRobin(runnable);
  // Who had `kStay` instructions steps behind those that had fewer, until all had them: two warps
  // that wait for a third one's flag would otherwise hand the machine to each other for ever.
  const auto rests = [&](const WarpView& v) {
    return polls_[v.warp] != 0 || ran_[v.warp] >= kStay;
  };
  if (std::all_of(runnable.begin(), runnable.end(), rests))
    std::fill(ran_.begin(), ran_.end(), uint64_t{0});
  const WarpView* best = nullptr;
  for (const WarpView& v : runnable) {
    if (rests(v)) continue;
    if (best == nullptr || (most ? v.copies > best->copies : v.copies < best->copies)) best = &v;
  }
  return {best->warp, kShort};
}

}  // namespace tilec::runtime::emulator
