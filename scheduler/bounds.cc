// SPDX-License-Identifier: Apache-2.0
#include "scheduler/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ir/event_graph.h"
#include "scheduler/role_sets.h"
#include "scheduler/routes.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

// Whoever rates a thousand loops asks how long, and not why.
enum class Words { kNone, kAll };

void UnitBounds(const Graph& g, Words words, std::vector<Bound>* bounds) {
  for (size_t f = 0; f < g.units.size(); ++f) {
    Bound bound;
    bound.kind = Bound::Kind::kUnit;
    bound.unit = static_cast<int>(f);
    int64_t busy = 0;
    for (size_t v = 0; v < g.ops.size(); ++v)
      for (const UnitUse& use : g.ops[v].uses)
        if (use.unit == bound.unit && use.cycles > 0) {
          busy += use.cycles;
          if (words == Words::kAll) bound.ops.push_back(static_cast<int>(v));
        }
    const int64_t capacity = g.units[f].capacity;
    bound.ii = CeilDiv(busy, capacity);
    if (bound.ii <= 0) continue;
    if (words == Words::kAll)
      bound.text =
          capacity == 1
              ? fmt::format("unit {} is busy {} cycles per iteration", g.units[f].name, busy)
              : fmt::format("the {} instances of unit {} are busy {} cycles per iteration",
                            capacity, g.units[f].name, busy);
    bounds->push_back(std::move(bound));
  }
}

void RecurrenceBound(const Graph& g, Words words, std::vector<Bound>* bounds) {
  ir::EventGraph events;
  events.nodes = static_cast<int>(g.ops.size());
  for (const GraphEdge& e : g.edges) events.edges.push_back({e.from, e.to, e.delay, e.distance});
  const ir::Period period = ir::ExactPeriod(events);
  if (period.circle.empty() || period.delay <= 0) return;
  Bound bound;
  bound.kind = Bound::Kind::kRecurrence;
  bound.ii = period.Ceil();
  if (words == Words::kNone) return bounds->push_back(std::move(bound));
  bound.edges = period.circle;
  std::string path;
  for (int i : period.circle) {
    bound.ops.push_back(g.edges[i].from);
    path += g.ops[g.edges[i].from].name + " -> ";
  }
  path += g.ops[g.edges[period.circle.front()].from].name;
  bound.text = fmt::format(
      "the recurrence {} takes {} cycles every {}", path, period.delay,
      period.tokens == 1 ? std::string("iteration") : fmt::format("{} iterations", period.tokens));
  bounds->push_back(std::move(bound));
}

// Ops that no roles can share.
void SetBound(const Graph& g, Words words, std::vector<Bound>* bounds) {
  RoleSets sets(g);
  std::vector<int64_t> issue(g.ops.size());  // by set
  for (size_t v = 0; v < g.ops.size(); ++v)
    issue[static_cast<size_t>(sets.Find(static_cast<int>(v)))] += g.ops[v].issue;
  const auto largest = std::max_element(issue.begin(), issue.end());  // the first of equal ones
  if (largest == issue.end() || *largest <= 0) return;
  Bound bound;
  bound.kind = Bound::Kind::kIssue;
  bound.ii = *largest;
  if (words == Words::kNone) return bounds->push_back(std::move(bound));
  for (size_t v = 0; v < g.ops.size(); ++v)
    if (g.ops[v].issue > 0 && sets.Find(static_cast<int>(v)) == largest - issue.begin())
      bound.ops.push_back(static_cast<int>(v));
  bound.text = fmt::format("{} op{} of one role issue for {} cycles per iteration",
                           bound.ops.size(), bound.ops.size() == 1 ? "" : "s", bound.ii);
  bounds->push_back(std::move(bound));
}

void IssueBounds(const Graph& g, Words words, std::vector<Bound>* bounds) {
  SetBound(g, words, bounds);
  // Roles of each width hold no more than II cycles of issue, and their warps are limited.
  std::map<int, int64_t> issue;  // by width; the load role apart
  int64_t load_warps = 0, sum = 0;
  for (const GraphOp& op : g.ops) {
    if (op.variable_latency) {
      load_warps = op.warps;
    } else {
      issue[op.warps] += op.issue;
      sum += op.issue * op.warps;
    }
  }
  const int64_t warps = g.machine.max_warps - load_warps;
  auto fits = [&](int64_t ii) {
    int64_t needed = 0;
    for (const auto& [width, cycles] : issue)
      needed += std::max<int64_t>(1, CeilDiv(cycles, ii)) * width;
    return needed <= warps;
  };
  int64_t low = 0, high = 1;
  for (const auto& entry : issue) high += entry.second;
  if (sum == 0 || !fits(high)) return;  // too few warps for one role each: no bound can say it
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  if (high <= 1) return;
  Bound bound;
  bound.kind = Bound::Kind::kIssue;
  bound.ii = high;
  if (words == Words::kNone) return bounds->push_back(std::move(bound));
  for (size_t v = 0; v < g.ops.size(); ++v)
    if (!g.ops[v].variable_latency && g.ops[v].issue > 0) bound.ops.push_back(static_cast<int>(v));
  bound.text =
      fmt::format("{} warp-cycles of issue per iteration need {} cycles on {} warps in whole roles",
                  sum, high, warps);
  bounds->push_back(std::move(bound));
}

// Shortest lives at one II: t(y) − t(u) is at least the longest path, a path may go through other
// iterations.
class Lives {
 public:
  Lives(const Graph& g, int64_t ii) : g_(g), n_(static_cast<int>(g.ops.size())) {
    path_.assign(static_cast<size_t>(n_) * n_, kNone);
    for (int v = 0; v < n_; ++v) At(v, v) = 0;
    for (const GraphEdge& e : g.edges)
      if (e.from != e.to) At(e.from, e.to) = std::max(At(e.from, e.to), e.delay - e.distance * ii);
    for (int k = 0; k < n_; ++k)
      for (int i = 0; i < n_; ++i) {
        if (At(i, k) == kNone) continue;
        for (int j = 0; j < n_; ++j)
          if (At(k, j) != kNone) At(i, j) = std::max(At(i, j), At(i, k) + At(k, j));
      }
    life_.assign(n_, 0);
    for (const GraphEdge& e : g.edges)
      if (e.kind != EdgeKind::kOrder)
        life_[e.from] = std::max(life_[e.from], At(e.from, e.to) + e.distance * ii + e.hold);
  }
  int64_t operator[](int v) const { return life_[v]; }

 private:
  static constexpr int64_t kNone = INT64_MIN / 4;
  int64_t& At(int i, int j) { return path_[static_cast<size_t>(i) * n_ + j]; }
  const Graph& g_;
  const int n_;
  std::vector<int64_t> path_, life_;
};

// Why the memories overflow at this II, or nothing.
struct Overflow {
  std::string text;
  std::vector<int> ops;
};
std::optional<Overflow> Resident(const Graph& g, int64_t ii, Words words) {
  const Lives lives(g, ii);
  Overflow smem, tmem;
  int64_t bytes = 0, column_cycles = 0;
  for (int v = 0; v < static_cast<int>(g.ops.size()); ++v) {
    const GraphOp& op = g.ops[v];
    if (op.smem_bytes > 0) {
      bytes +=
          std::max<int64_t>(1, CeilDiv(lives[v], ii)) * (op.smem_bytes + g.machine.barrier_bytes);
      smem.ops.push_back(v);
    }
    if (op.tmem_columns > 0) {
      column_cycles += op.tmem_columns * lives[v];
      tmem.ops.push_back(v);
    }
  }
  const bool full = bytes > g.machine.smem_bytes;
  if (words == Words::kNone && (full || column_cycles > g.machine.tmem_columns * ii)) return smem;
  if (full) {
    smem.text = fmt::format("the rings of at least {} bytes in shared memory do not fit {}", bytes,
                            g.machine.smem_bytes);
    return smem;
  }
  if (column_cycles > g.machine.tmem_columns * ii) {
    tmem.text = fmt::format(
        "values live {} column-cycles per iteration in tensor memory of {} "
        "columns",
        column_cycles, g.machine.tmem_columns);
    return tmem;
  }
  return std::nullopt;
}

// Whatever is infeasible at some II is infeasible below it, so any refuted II is a bound. `from` is
// known to be needed; paths exist only from the recurrence bound on.
void ResidencyBound(const Graph& g, int64_t from, Words words, std::vector<Bound>* bounds) {
  const bool any = std::any_of(g.ops.begin(), g.ops.end(), [](const GraphOp& op) {
    return op.smem_bytes > 0 || op.tmem_columns > 0;
  });
  if (!any) return;
  std::optional<Overflow> why = Resident(g, from, words);
  if (!why) return;
  int64_t refuted = from, step = 1, high = -1;
  for (int64_t ii = from + 1; ii <= from * 64 + 1024; ii += step, step *= 2) {
    std::optional<Overflow> at = Resident(g, ii, words);
    if (!at) {
      high = ii;
      break;
    }
    refuted = ii;
    why = std::move(at);
  }
  if (high < 0) return;  // no II is large enough: the solver says so with a core
  while (high - refuted > 1) {
    const int64_t middle = refuted + (high - refuted) / 2;
    if (std::optional<Overflow> at = Resident(g, middle, words)) {
      refuted = middle;
      why = std::move(at);
    } else {
      high = middle;
    }
  }
  Bound bound;
  bound.kind = Bound::Kind::kResidency;
  bound.ii = refuted + 1;
  if (words == Words::kNone) return bounds->push_back(std::move(bound));
  bound.ops = why->ops;
  bound.text = fmt::format("at {} cycles {}", refuted, why->text);
  bounds->push_back(std::move(bound));
}

int64_t Largest(const std::vector<Bound>& bounds) {
  int64_t largest = 1;
  for (const Bound& bound : bounds) largest = std::max(largest, bound.ii);
  return largest;
}

// In the order in which they are found.
std::vector<Bound> BoundsOf(const Graph& graph, Words words) {
  std::vector<Bound> bounds;
  if (graph.ops.empty()) return bounds;
  // What holds where nothing crosses holds everywhere: a route only adds.
  if (HasRoutes(graph))
    return BoundsOf(Routed(graph, std::vector<int>(graph.ops.size(), 0)), words);
  UnitBounds(graph, words, &bounds);
  RecurrenceBound(graph, words, &bounds);
  IssueBounds(graph, words, &bounds);
  ResidencyBound(graph, Largest(bounds), words, &bounds);
  return bounds;
}

}  // namespace

std::vector<Bound> AllBounds(const Graph& graph) {
  std::vector<Bound> bounds = BoundsOf(graph, Words::kAll);
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const Bound& a, const Bound& b) { return a.ii > b.ii; });
  return bounds;
}

Bound BestBound(const Graph& graph) {
  const std::vector<Bound> bounds = AllBounds(graph);
  if (!bounds.empty() && bounds.front().ii >= 1) return bounds.front();
  Bound bound;
  bound.text = "an initiation interval is at least one cycle";
  return bound;
}

int64_t LeastPeriod(const Graph& graph) { return Largest(BoundsOf(graph, Words::kNone)); }

}  // namespace tilec::scheduler
