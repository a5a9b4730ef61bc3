// What is worked out once for a period: the longest path from each op to each other, who takes
// turns with whom on what, and which ops are better late.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "scheduler/modulo.h"

namespace tilec::scheduler {

namespace {

constexpr double kTight = 0.85;  // share of a period from which fragments matter

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

}  // namespace tilec::scheduler
