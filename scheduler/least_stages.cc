// SPDX-License-Identifier: Apache-2.0
#include "scheduler/least_stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "scheduler/in_time.h"
#include "scheduler/role_sets.h"
#include "scheduler/routes.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kNoPath = INT64_MIN / 4;
constexpr int64_t kMostStages = 64;

// The ops but loads of one iteration, from the first that begins: how early each can, how long
// after it the last one begins, and who takes turns with whom.
class Iteration {
 public:
  Iteration(const Graph& graph, int64_t ii, const std::optional<std::vector<int>>& group)
      : g_(graph), ii_(ii), n_(static_cast<int>(graph.ops.size())) {
    BuildPaths(group);
    BuildStreams(group);
    for (int v = 0; v < n_; ++v) sound_ = sound_ && Path(v, v) <= 0;
    head_.assign(n_, 0), tail_.assign(n_, 0);
    for (int v = 0; v < n_; ++v)
      for (int u = 0; u < n_; ++u) {
        if (g_.ops[u].variable_latency) continue;
        head_[v] = std::max(head_[v], Path(u, v));
        tail_[v] = std::max(tail_[v], Path(v, u));
      }
  }

  // False: no order of any stream lets all ops begin within so many periods of the first one.
  bool Fits(int64_t stages) const {
    for (int v = 0; v < n_; ++v)
      if (!g_.ops[v].variable_latency && head_[v] + tail_[v] >= stages * ii_) return false;
    return std::all_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
      return Done(Within(stream, stages * ii_)) && (stages > 1 || Done(WithinAPeriod(stream)));
    });
  }
  bool sound() const { return sound_; }

 private:
  using Stream = std::vector<std::pair<int, int64_t>>;  // op, cycles for which it is alone

  int64_t& Path(int u, int v) { return path_[static_cast<size_t>(u) * n_ + v]; }
  int64_t Path(int u, int v) const { return path_[static_cast<size_t>(u) * n_ + v]; }

  void BuildPaths(const std::optional<std::vector<int>>& group) {
    path_.assign(static_cast<size_t>(n_) * n_, kNoPath);
    for (const GraphEdge& e : g_.edges) {
      const bool apart = group && (*group)[e.from] != (*group)[e.to];
      Path(e.from, e.to) = std::max(Path(e.from, e.to),
                                    e.delay + (apart ? e.transfer : int64_t{0}) - e.distance * ii_);
    }
    for (int k = 0; k < n_; ++k)
      for (int u = 0; u < n_; ++u) {
        const int64_t first = Path(u, k);
        if (first == kNoPath) continue;
        for (int v = 0; v < n_; ++v)
          if (Path(k, v) != kNoPath) Path(u, v) = std::max(Path(u, v), first + Path(k, v));
      }
  }

  // Ops that are never at work at the same time: of a unit of one instance, or of one role.
  void BuildStreams(const std::optional<std::vector<int>>& group) {
    for (size_t f = 0; f < g_.units.size(); ++f) {
      if (g_.units[f].fluid || g_.units[f].capacity != 1) continue;
      Stream stream;
      for (int v = 0; v < n_; ++v)
        for (const UnitUse& use : g_.ops[v].uses)
          if (use.unit == static_cast<int>(f)) Add(v, use.cycles, &stream);
      streams_.push_back(std::move(stream));
    }
    RoleSets sets(g_);
    std::map<int, Stream> roles;
    for (int v = 0; v < n_; ++v)
      Add(v, g_.ops[v].issue, &roles[group ? (*group)[v] : sets.Find(v)]);
    for (auto& [role, stream] : roles) streams_.push_back(std::move(stream));
  }
  void Add(int v, int64_t cycles, Stream* stream) const {
    if (!g_.ops[v].variable_latency && cycles > 0) stream->emplace_back(v, cycles);
  }

  // From the first op of the iteration on.
  std::vector<Job> Within(const Stream& stream, int64_t cycles) const {
    std::vector<Job> jobs;
    for (const auto& [v, alone] : stream)
      jobs.push_back({head_[v], cycles - 1 - tail_[v] + alone, alone});
    return jobs;
  }
  // From the first op of the stream on: with one stage all others begin before that op does so
  // again, so they are done by then.
  std::vector<Job> WithinAPeriod(const Stream& stream) const {
    std::vector<Job> jobs;
    for (const auto& [v, alone] : stream) {
      int64_t head = 0, tail = alone;
      for (const auto& [u, cycles] : stream) {
        head = std::max(head, Path(u, v));
        tail = std::max(tail, Path(v, u) + cycles);
      }
      jobs.push_back({head, ii_ - tail + alone, alone});
    }
    return jobs;
  }

  static bool Done(std::vector<Job> jobs) {
    std::vector<std::pair<int64_t, size_t>> ready;
    return InTime(jobs, ready);
  }

  const Graph& g_;
  const int64_t ii_;
  const int n_;
  bool sound_ = true;
  std::vector<int64_t> path_, head_, tail_;
  std::vector<Stream> streams_;
};

}  // namespace

int64_t LeastStages(const Graph& graph, int64_t ii, const RoleOffer& offer) {
  if (PinsTime(graph)) return 1;
  // One compute role leaves no choice of roles. Where there is one, what holds if nothing crosses
  // holds if something does: a route only adds.
  std::optional<std::vector<int>> group;
  if (offer.widths.size() == 1) {
    group.emplace();
    for (const GraphOp& op : graph.ops)
      group->push_back(offer.load && !op.variable_latency ? 1 : 0);
  }
  const Graph plain = HasRoutes(graph)
                          ? Routed(graph, group.value_or(std::vector<int>(graph.ops.size(), 0)))
                          : graph;
  const Iteration iteration(plain, ii, group);
  if (!iteration.sound()) return 1;  // no schedule at all: not what was asked
  int64_t stages = 1;
  while (stages < kMostStages && !iteration.Fits(stages)) ++stages;
  return stages;
}

}  // namespace tilec::scheduler
