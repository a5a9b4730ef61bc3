// Placing: ops take slots one by one, by force where there is none.
//
// modulo_build.cc: paths and conflicts, once. modulo_slots.cc: which slots are free.
// modulo_improve.cc: what single moves still make better.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/modulo.h"

#include <algorithm>
#include <utility>

namespace tilec::scheduler {

namespace {

constexpr int kPlacementsPerOp = 12;  // before an attempt is given up

}  // namespace

double ModuloScheduler::Noise() {  // splitmix64, in [0, 1)
  uint64_t z = (random_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

// Least slack first: the window left by what is placed, or by the longest path through the op.
int ModuloScheduler::Pick() {
  int best = -1;
  double least = 0;
  const bool any = std::find(placed_.begin(), placed_.end(), true) != placed_.end();
  for (int v = 0; v < n_; ++v) {
    if (placed_[v]) continue;
    if (order_ != Order::kSlack) {
      const int64_t rank = order_ == Order::kHeight ? height_[v] : depth_[v];
      const double key = -static_cast<double>(rank) * (1 - 0.3 * bias_[v]);
      if (best < 0 || key < least) best = v, least = key;
      continue;
    }
    const int64_t early = from_[v], late = until_[v];
    double slack = static_cast<double>(critical_ - depth_[v] - height_[v]);
    const bool related = early != kNone || late != -kNone;
    if (early != kNone && late != -kNone)
      slack = std::min(slack, static_cast<double>(std::max<int64_t>(0, late - early)));
    else if (any && !related)
      slack += static_cast<double>(critical_ + ii_);
    slack = slack * (1 + bias_[v]) + static_cast<double>(ii_) * 0.05 * bias_[v];
    if (tight_[v]) slack *= 0.5;
    if (best < 0 || slack < least) best = v, least = slack;
  }
  return best;
}

ModuloScheduler::Window ModuloScheduler::WindowOf(int v) {
  const int64_t early = from_[v], late = until_[v];
  Window w{early, late, true};
  if (early == kNone && late == -kNone) {
    w.early = 0;
    w.late = ii_ - 1;
  } else if (early == kNone) {
    w.early = late - ii_ + 1;
    w.from_early = false;
  } else if (late == -kNone) {
    w.late = early + ii_ - 1;
  } else {
    w.from_early = order_ == Order::kSlack ? !late_[v] : order_ == Order::kHeight;
  }
  if (w.late > w.early + ii_ - 1)
    (w.from_early ? w.late : w.early) = w.from_early ? w.early + ii_ - 1 : w.late - ii_ + 1;
  return w;
}

void ModuloScheduler::Put(int v, int64_t t) {
  t_[v] = t;
  phase_[v] = FloorMod(t, ii_);
  placed_[v] = true;
}

void ModuloScheduler::Place(int v, int64_t t) {
  Put(v, t);
  for (const OnLine& on : on_[v]) lines_[on.line].Put({phase_[v], on.cycles, v});
  const int64_t* after = &path_[static_cast<size_t>(v) * n_];
  const int64_t* before = &path_to_[static_cast<size_t>(v) * n_];
  for (int w = 0; w < n_; ++w) {
    if (after[w] != kNone) from_[w] = std::max(from_[w], t + after[w]);
    if (before[w] != kNone) until_[w] = std::min(until_[w], t - before[w]);
  }
}

void ModuloScheduler::Evict(int v) {
  placed_[v] = false;
  for (const OnLine& on : on_[v]) lines_[on.line].Take(v);
  evicted_.push_back(v);
}

// What is left to v, if `by` was what bounded it.
void ModuloScheduler::Bound(int v, int by) {
  const int64_t* before = &path_to_[static_cast<size_t>(v) * n_];
  const int64_t* after = &path_[static_cast<size_t>(v) * n_];
  if (before[by] != kNone && from_[v] == t_[by] + before[by]) {
    from_[v] = kNone;
    for (int u = 0; u < n_; ++u)
      if (placed_[u] && before[u] != kNone) from_[v] = std::max(from_[v], t_[u] + before[u]);
  }
  if (after[by] != kNone && until_[v] == t_[by] - after[by]) {
    until_[v] = -kNone;
    for (int u = 0; u < n_; ++u)
      if (placed_[u] && after[u] != kNone) until_[v] = std::min(until_[v], t_[u] - after[u]);
  }
}

// v takes cycle t; what is in its way is placed again.
void ModuloScheduler::Force(int v, int64_t t) {
  evicted_.clear();
  for (const Conflict& c : conflicts_[v])
    if (placed_[c.op] && (Mod(t_[c.op] - t) < c.mine || Mod(t - t_[c.op]) < c.theirs)) Evict(c.op);
  for (int i : in_[v])
    if (const GraphEdge& e = edges_[i];
        e.from != v && placed_[e.from] && t_[e.from] + e.delay - e.distance * ii_ > t)
      Evict(e.from);
  for (int i : out_[v])
    if (const GraphEdge& e = edges_[i];
        e.to != v && placed_[e.to] && t + e.delay - e.distance * ii_ > t_[e.to])
      Evict(e.to);
  Place(v, t);
  // Instances of shared resources: whoever overlaps goes.
  if (!Free(v, t))
    for (int w = 0; w < n_; ++w) {
      if (w == v || !placed_[w]) continue;
      bool out = false;
      for (const Shared& a : shared_[v])
        for (const Shared& b : shared_[w])
          out = out || (a.resource == b.resource &&
                        (Mod(t_[w] - t) < a.cycles || Mod(t - t_[w]) < b.cycles));
      if (out) Evict(w);
    }
  for (int by : evicted_)
    for (int w = 0; w < n_; ++w) Bound(w, by);
}

bool ModuloScheduler::PlaceAll() {
  t_.assign(n_, 0);
  phase_.assign(n_, 0);
  last_.assign(n_, kNone);
  placed_.assign(n_, false);
  for (Line& line : lines_) line.Clear();
  from_.assign(n_, kNone);
  until_.assign(n_, -kNone);
  for (int budget = kPlacementsPerOp * n_; budget > 0; --budget) {
    const int v = Pick();
    if (v < 0) return true;
    Window w = WindowOf(v);
    std::optional<int64_t> t;
    if (w.early <= w.late) {
      const int64_t from = w.from_early ? w.early : w.late, to = w.from_early ? w.late : w.early;
      if (tight_[v]) t = lined_ ? FlushGap(v, w) : FlushSlot(v, w);
      if (!t) t = lined_ && shared_[v].empty() ? GapFrom(v, from, to) : FreeSlot(v, from, to);
    }
    if (t) {
      Place(v, *t);
    } else {
      // By force: where it wants to be, but never twice at the same cycle.
      int64_t at = w.from_early || w.early > w.late ? w.early : w.late;
      if (last_[v] != kNone && last_[v] >= at)
        at = last_[v] + 1 + static_cast<int64_t>(Noise() * static_cast<double>(ii_) / 8);
      Force(v, at);
    }
    last_[v] = t_[v];
  }
  return false;
}

std::optional<Placement> ModuloScheduler::Run(uint64_t seed) {
  if (!possible_) return std::nullopt;
  random_ = seed * 0x2545f4914f6cdd1dULL + 1;
  bias_.assign(n_, 0);
  order_ = static_cast<Order>(seed % 3);
  if (seed >= 3)
    for (double& bias : bias_) bias = Noise();
  if (!PlaceAll()) return std::nullopt;
  Improve();
  if (Judge().overflow > 0) return std::nullopt;
  // Rotated so that the op that takes a unit longest comes first.
  int root = 0;
  int64_t most = -1;
  for (int v = 0; v < n_; ++v)
    for (const UnitUse& use : graph_.ops[v].uses)
      if (!graph_.ops[v].variable_latency && use.cycles > most) most = use.cycles, root = v;
  const int64_t shift = n_ > 0 ? t_[root] : 0;
  for (int64_t& t : t_) t -= shift;
  return Placement{t_, problem_.group};
}

}  // namespace tilec::scheduler
