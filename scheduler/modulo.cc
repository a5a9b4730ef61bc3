// Placing: paths and conflicts are worked out once, then ops take slots one by one, by force where
// there is none. What single moves still make better is in modulo_improve.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/modulo.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tilec::scheduler {

namespace {

constexpr int kPlacementsPerOp = 12;  // before an attempt is given up
constexpr double kTight = 0.85;       // share of a period from which fragments matter

}  // namespace

ModuloScheduler::ModuloScheduler(ModuloProblem problem, int64_t ii)
    : problem_(std::move(problem)),
      graph_(*problem_.graph),
      n_(static_cast<int>(graph_.ops.size())),
      ii_(ii),
      edges_(graph_.edges),
      in_(n_),
      out_(n_),
      lives_(graph_, ii, problem_.offer, problem_.roles, problem_.group) {
  for (size_t i = 0; i < edges_.size(); ++i) {
    GraphEdge& e = edges_[i];
    if (problem_.roles && problem_.group[e.from] != problem_.group[e.to]) e.delay += e.transfer;
    out_[e.from].push_back(static_cast<int>(i));
    in_[e.to].push_back(static_cast<int>(i));
  }
  BuildPaths();
  if (possible_) BuildConflicts();
}

void ModuloScheduler::BuildPaths() {
  path_.assign(static_cast<size_t>(n_) * n_, kNone);
  for (const GraphEdge& e : edges_)
    Path(e.from, e.to) = std::max(Path(e.from, e.to), e.delay - e.distance * ii_);
  std::vector<int> reached;
  for (int k = 0; k < n_; ++k) {
    reached.clear();
    for (int j = 0; j < n_; ++j)
      if (Path(k, j) != kNone) reached.push_back(j);
    for (int i = 0; i < n_; ++i) {
      const int64_t first = Path(i, k);
      if (first == kNone) continue;
      for (int j : reached) Path(i, j) = std::max(Path(i, j), first + Path(k, j));
    }
  }
  depth_.assign(n_, 0);
  height_.assign(n_, 0);
  for (int v = 0; v < n_; ++v) {
    if (Path(v, v) > 0) possible_ = false;
    for (int u = 0; u < n_; ++u) {
      depth_[v] = std::max(depth_[v], Path(u, v));
      height_[v] = std::max(height_[v], Path(v, u));
    }
  }
  for (int v = 0; v < n_; ++v) critical_ = std::max(critical_, depth_[v] + height_[v]);
  path_to_.resize(path_.size());
  for (int u = 0; u < n_; ++u)
    for (int v = 0; v < n_; ++v) path_to_[static_cast<size_t>(v) * n_ + u] = Path(u, v);
}

void ModuloScheduler::BuildConflicts() {
  struct Use {
    int op;
    int64_t cycles;
  };
  conflicts_.resize(n_);
  on_.resize(n_);
  shared_.resize(n_);
  tight_.assign(n_, false);
  late_.assign(n_, false);
  auto add = [&](const std::vector<Use>& uses, int64_t capacity) {
    int64_t sum = 0;
    for (const Use& use : uses) sum += use.cycles;
    if (sum > capacity * ii_) possible_ = false;
    if (capacity == 1) {
      const int line = static_cast<int>(lines_.size());
      lines_.emplace_back();
      for (const Use& a : uses) {
        lined_ = lined_ && (on_[a.op].empty() || on_[a.op].back().line != line);
        on_[a.op].push_back({line, a.cycles});
        if (a.cycles > ii_) possible_ = false;
        if (static_cast<double>(sum) > kTight * static_cast<double>(ii_)) tight_[a.op] = true;
        for (const Use& b : uses)
          if (a.op != b.op) conflicts_[a.op].push_back({b.op, a.cycles, b.cycles});
      }
      return;
    }
    const int resource = static_cast<int>(capacity_.size());
    users_.emplace_back();
    for (const Use& use : uses) {
      capacity -= use.cycles / ii_;
      if (use.cycles % ii_ == 0) continue;
      shared_[use.op].push_back({resource, use.cycles % ii_});
      users_.back().push_back({use.op, use.cycles % ii_});
    }
    capacity_.push_back(capacity);
  };
  for (size_t f = 0; f < graph_.units.size(); ++f) {
    if (graph_.units[f].fluid) continue;
    std::vector<Use> uses;
    for (int v = 0; v < n_; ++v)
      for (const UnitUse& use : graph_.ops[v].uses)
        if (use.unit == static_cast<int>(f) && use.cycles > 0) uses.push_back({v, use.cycles});
    add(uses, graph_.units[f].capacity);
  }
  if (problem_.roles) {
    std::map<int, std::vector<Use>> streams;
    for (int v = 0; v < n_; ++v)
      if (graph_.ops[v].issue > 0) streams[problem_.group[v]].push_back({v, graph_.ops[v].issue});
    for (const auto& [group, uses] : streams) add(uses, 1);
  }
  // Shorter lives: an op that makes more than it uses up goes late.
  auto weight = [&](const GraphOp& op) {
    return op.regs * op.warps * 128 + op.smem_bytes + op.tmem_columns * 512;
  };
  std::vector<int> readers(n_, 0);
  for (const GraphEdge& e : edges_)
    if (e.kind != EdgeKind::kOrder) ++readers[e.from];
  for (int v = 0; v < n_; ++v) {
    int64_t balance = weight(graph_.ops[v]);
    for (int i : in_[v])
      if (edges_[i].kind != EdgeKind::kOrder && edges_[i].from != v && readers[edges_[i].from] == 1)
        balance -= weight(graph_.ops[edges_[i].from]);
    late_[v] = balance > 0;
  }
}

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
