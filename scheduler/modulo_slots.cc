// Which cycles are free for an op among those that are placed: by conflicts in pairs, or by the
// gaps of each line where no op is on one twice.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "scheduler/modulo.h"

namespace tilec::scheduler {

// Of what Jump finds out only whether it is 0: in a full stream the first op in the way settles it.
bool ModuloScheduler::Free(int v, int64_t t) {
  const int64_t phase = FloorMod(t, ii_);
  for (const Conflict& c : conflicts_[v]) {
    if (!placed_[c.op]) continue;
    int64_t after = phase_[c.op] - phase;
    if (after < 0) after += ii_;
    if (after < c.mine || (after == 0 ? 0 : ii_ - after) < c.theirs) return false;
  }
  return shared_[v].empty() || Jump(v, t, true) == 0;
}

int64_t ModuloScheduler::Jump(int v, int64_t t, bool forward) {
  const int64_t phase = FloorMod(t, ii_);
  const auto wrapped = [this](int64_t a) { return a < 0 ? a + ii_ : a >= ii_ ? a - ii_ : a; };
  int64_t jump = 0;
  for (const Conflict& c : conflicts_[v]) {
    if (!placed_[c.op]) continue;
    const int64_t after = wrapped(phase_[c.op] - phase), before = after == 0 ? 0 : ii_ - after;
    if (after >= c.mine && before >= c.theirs) continue;
    const int64_t step = wrapped(forward ? after + c.theirs : before + c.mine);
    jump = std::max(jump, step == 0 ? ii_ : step);
  }
  for (const Shared& mine : shared_[v]) {
    there_.clear();
    for (const User& other : users_[mine.resource]) {
      if (other.op == v || !placed_[other.op]) continue;
      const int64_t start = wrapped(phase_[other.op] - phase);
      const int64_t step = wrapped(forward ? start + other.cycles : mine.cycles - start);
      there_.push_back({start, other.cycles, step == 0 ? ii_ : step});
    }
    const int64_t capacity = capacity_[mine.resource];
    if (static_cast<int64_t>(there_.size()) < capacity) continue;
    // Instances taken where v starts and wherever another starts under v.
    int64_t nearest = ii_;
    const auto full = [&](int64_t at) {
      int64_t count = 0;
      for (const There& other : there_) {
        const int64_t since = at - other.start;
        if ((since < 0 ? since + ii_ : since) >= other.cycles) continue;
        ++count;
        nearest = std::min(nearest, other.step);
      }
      return count >= capacity;
    };
    bool none = full(0);
    for (size_t i = 0; i < there_.size() && !none; ++i)
      none = there_[i].start < mine.cycles && full(there_[i].start);
    if (none) jump = std::max(jump, std::max<int64_t>(1, nearest));
  }
  return jump;
}

// The first free cycle from `from` towards `to`, both included.
std::optional<int64_t> ModuloScheduler::FreeSlot(int v, int64_t from, int64_t to) {
  const bool forward = from <= to;
  int64_t t = from;
  for (int step = 0; step < 4 * n_ + 8; ++step) {
    if (forward ? t > to : t < to) return std::nullopt;
    const int64_t jump = Jump(v, t, forward);
    if (jump == 0) return t;
    t += forward ? jump : -jump;
  }
  return std::nullopt;
}

// Is one of those in the way of t? In a full stream it is often the same for several t.
bool ModuloScheduler::MeetsNear(int64_t t) {
  const int64_t phase = FloorMod(t, ii_);
  for (Near& near : near_) {
    int64_t after = near.phase - phase;
    if (after < 0) after += ii_;
    if (after >= near.mine && (after == 0 ? 0 : ii_ - after) >= near.theirs) continue;
    std::swap(near_.front(), near);
    return true;
  }
  return false;
}

// A free cycle that touches a neighbour on a resource of one instance: leaves no fragment there.
std::optional<int64_t> ModuloScheduler::FlushSlot(int v, const Window& window) {
  std::optional<int64_t> best;
  near_.clear();
  for (const Conflict& c : conflicts_[v])
    if (placed_[c.op]) near_.push_back({phase_[c.op], c.mine, c.theirs});
  for (const Conflict& c : conflicts_[v]) {
    if (!placed_[c.op] || !tight_[c.op]) continue;
    for (const int64_t at : {t_[c.op] + c.theirs, t_[c.op] - c.mine}) {
      const int64_t t = window.early + Mod(at - window.early);
      if (t > window.late || (best && (window.from_early ? t >= *best : t <= *best))) continue;
      if (!MeetsNear(t) && (shared_[v].empty() || Jump(v, t, true) == 0)) best = t;
    }
  }
  return best;
}

std::optional<int64_t> ModuloScheduler::GapFrom(int v, int64_t from, int64_t to) const {
  const bool forward = from <= to;
  for (int64_t t = from; forward ? t <= to : t >= to;) {
    const int64_t phase = FloorMod(t, ii_);
    int64_t step = 0;
    for (const OnLine& on : on_[v])
      step = std::max(step, lines_[on.line].Step(phase, on.cycles, forward, ii_));
    if (step == 0) return t;
    t += forward ? step : -step;
  }
  return std::nullopt;
}

// As FlushSlot: a gap that is long enough has two ends.
std::optional<int64_t> ModuloScheduler::FlushGap(int v, const Window& window) {
  std::optional<int64_t> best;
  for (const OnLine& on : on_[v]) {
    const Line& line = lines_[on.line];
    const auto offer = [&](int64_t at) {
      const int64_t t = window.early + FloorMod(at - window.early, ii_);
      if (t > window.late || (best && (window.from_early ? t >= *best : t <= *best))) return;
      const int64_t phase = FloorMod(t, ii_);
      for (const OnLine& other : on_[v])
        if (other.line != on.line && lines_[other.line].Step(phase, other.cycles, true, ii_) != 0)
          return;
      if (shared_[v].empty() || Jump(v, t, true) == 0) best = t;
    };
    for (size_t i = 0; i < line.spots().size(); ++i) {
      const Line::Spot& spot = line.spots()[i];
      if (!tight_[spot.op]) continue;
      if (line.After(i, ii_) >= on.cycles) offer(spot.begin + spot.cycles);
      if (line.Before(i, ii_) >= on.cycles) offer(spot.begin - on.cycles);
    }
  }
  return best;
}

}  // namespace tilec::scheduler
