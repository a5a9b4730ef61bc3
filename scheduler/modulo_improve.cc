// Improving: a placement that keeps dependences, units and issue may still overflow a memory or a
// register file, or hold values longer than it must. Single ops move as long as that gets better.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "scheduler/modulo.h"

namespace tilec::scheduler {

namespace {

constexpr int kImprovements = 12;  // passes over all ops

}  // namespace

ModuloScheduler::Badness ModuloScheduler::Judge() const {
  Badness bad;
  const MachineLimits& machine = graph_.machine;
  if (problem_.roles && problem_.registers) {
    for (int g = 0; g < lives_.groups(); ++g)
      bad.overflow += std::max<int64_t>(0, lives_.PeakRegisters(g) - machine.max_regs_per_thread);
    bad.overflow += std::max<int64_t>(0, lives_.RegistersOfPool() - lives_.pool());
  }
  bad.overflow += std::max<int64_t>(0, lives_.TmemColumns() - machine.tmem_columns);
  bad.overflow += std::max<int64_t>(0, lives_.smem_bytes() - machine.smem_bytes) / 128;
  bad.life = lives_.weighted_life();
  return bad;
}

// Moves single ops as long as something gets better.
void ModuloScheduler::Improve() {
  lives_.Set(t_);
  Badness now = Judge();
  std::vector<int64_t> tries;
  for (int pass = 0; pass < kImprovements; ++pass) {
    bool better = false;
    for (int v = 0; v < n_; ++v) {
      int64_t early = kNone, late = -kNone;
      for (int i : in_[v])
        if (edges_[i].from != v)
          early = std::max(early, t_[edges_[i].from] + edges_[i].delay - edges_[i].distance * ii_);
      for (int i : out_[v])
        if (edges_[i].to != v)
          late = std::min(late, t_[edges_[i].to] - edges_[i].delay + edges_[i].distance * ii_);
      if (early == kNone && late == -kNone) continue;
      if (early == kNone) early = late - 2 * ii_;
      if (late == -kNone) late = early + 2 * ii_;
      const int64_t was = t_[v];
      int64_t best = was;
      placed_[v] = false;
      tries.clear();
      if (const auto t = FreeSlot(v, early, late)) tries.push_back(*t);
      if (const auto t = FreeSlot(v, late, early)) tries.push_back(*t);
      for (int64_t at = early + Mod(was - early); at <= late; at += ii_) tries.push_back(at);
      for (const Conflict& c : conflicts_[v])
        for (const int64_t at : {t_[c.op] + c.theirs, t_[c.op] - c.mine})
          for (int64_t t = early + Mod(at - early); t <= late; t += ii_)
            if (Free(v, t)) tries.push_back(t);
      for (size_t i = 0; i < tries.size(); ++i) {
        const int64_t t = tries[i];
        const auto here = tries.begin() + static_cast<std::ptrdiff_t>(i);
        if (t == was || std::find(tries.begin(), here, t) != here) continue;
        lives_.Move(v, t);
        const Badness then = Judge();
        if (then < now) {
          now = then;
          best = t;
          better = true;
        }
      }
      lives_.Move(v, best);
      Put(v, best);
    }
    if (!better) break;
  }
}

std::vector<int64_t> ModuloScheduler::Mend(const std::vector<int64_t>& cycles) {
  if (!possible_) return cycles;
  t_ = cycles;
  phase_.assign(n_, 0);
  placed_.assign(n_, true);
  for (int v = 0; v < n_; ++v) phase_[v] = FloorMod(t_[v], ii_);
  Improve();
  return t_;
}

}  // namespace tilec::scheduler
