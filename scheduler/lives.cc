// SPDX-License-Identifier: Apache-2.0
#include "scheduler/lives.h"

#include <algorithm>

#include "scheduler/routes.h"
#include "support/check.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {
constexpr int kWarpsPerGroup = 4;  // of a warpgroup
}  // namespace

Lives::Lives(const Graph& graph, int64_t ii, const RoleOffer& offer, bool roles,
             std::vector<int> group)
    : graph_(graph),
      ii_(ii),
      roles_(roles),
      offer_(offer),
      load_warps_(LoadWarps(graph)),
      group_(std::move(group)),
      members_(std::max(1, offer.Groups())),
      used_(members_.size(), false) {
  CHECK(!HasRoutes(graph), "routes are decided before lives are counted");
  const int n = static_cast<int>(graph.ops.size());
  out_.resize(n), in_.resize(n), touched_.resize(n);
  for (int v = 0; v < n; ++v) {
    const GraphOp& op = graph.ops[v];
    used_[group_[v]] = true;
    if (op.regs > 0) members_[group_[v]].push_back(v);
    if (op.tmem_columns > 0) in_tmem_.push_back(v);
    pinned_depth_.push_back(op.smem_bytes > 0 ? PinnedDepth(graph, v) : 0);
    weight_.push_back(op.regs * op.warps + op.smem_bytes / 128 + op.tmem_columns * 4 + 1);
    touched_[v].push_back(v);
  }
  for (int i = 0; i < static_cast<int>(graph.edges.size()); ++i) {
    const GraphEdge& e = graph.edges[i];
    if (e.kind == EdgeKind::kOrder) continue;
    out_[e.from].push_back(i);
    in_[e.to].push_back(i);
    std::vector<int>& touched = touched_[e.to];
    if (std::find(touched.begin(), touched.end(), e.from) == touched.end())
      touched.push_back(e.from);
  }
  // Which roles are used does not move, and the pool hangs on nothing else.
  const Placement anywhere{std::vector<int64_t>(n, 0), group_};
  pool_ = scheduler::Measure(graph, ii, offer, roles, anywhere).pool;
}

int64_t Lives::Depth(int v) const {
  const int64_t length = life_[v].periods * ii_ + life_[v].rest;
  return std::max<int64_t>({1, RoundUp(length, ii_) / ii_, pinned_depth_[v]});
}

void Lives::Measure(int v) {
  int64_t life = 0;
  for (int i : out_[v]) {
    const GraphEdge& e = graph_.edges[i];
    life = std::max(life, cycle_[e.to] + e.distance * ii_ + e.hold - cycle_[v]);
  }
  life_[v].periods = FloorDiv(life, ii_);
  life_[v].rest = life - life_[v].periods * ii_;
}

void Lives::Count(int v, int64_t sign, int but) {
  const GraphOp& op = graph_.ops[v];
  if (op.regs > 0)
    for (int e : members_[group_[v]])
      if (e != but) regs_[e] += sign * op.regs * Alive(v, life_[e].slot);
  if (op.tmem_columns > 0)
    for (int e : in_tmem_)
      if (e != but) tmem_[e] += sign * op.tmem_columns * Alive(v, life_[e].slot);
  if (op.smem_bytes > 0)
    smem_bytes_ += sign * Depth(v) * (op.smem_bytes + graph_.machine.barrier_bytes);
}

void Lives::CountAt(int e) {
  const GraphOp& op = graph_.ops[e];
  if (op.regs > 0) {
    regs_[e] = 0;
    for (int v : members_[group_[e]]) regs_[e] += graph_.ops[v].regs * Alive(v, life_[e].slot);
  }
  if (op.tmem_columns > 0) {
    tmem_[e] = 0;
    for (int v : in_tmem_) tmem_[e] += graph_.ops[v].tmem_columns * Alive(v, life_[e].slot);
  }
}

int64_t Lives::Weighted(int v) const {
  int64_t sum = 0;
  for (const auto* edges : {&out_[v], &in_[v]})
    for (int i : *edges) {
      const GraphEdge& e = graph_.edges[i];
      if (e.from != e.to)
        sum += weight_[e.from] * (cycle_[e.to] + e.distance * ii_ - cycle_[e.from]);
    }
  return sum;
}

void Lives::Set(const std::vector<int64_t>& cycles) {
  const int n = static_cast<int>(graph_.ops.size());
  cycle_ = cycles;
  life_.assign(n, {});
  regs_.assign(n, 0);
  tmem_.assign(n, 0);
  smem_bytes_ = weighted_life_ = 0;
  for (int v = 0; v < n; ++v) {
    life_[v].slot = FloorMod(cycle_[v], ii_);
    Measure(v);
    const GraphOp& op = graph_.ops[v];
    if (op.smem_bytes > 0) smem_bytes_ += Depth(v) * (op.smem_bytes + graph_.machine.barrier_bytes);
    for (int i : out_[v]) {
      const GraphEdge& e = graph_.edges[i];
      weighted_life_ += weight_[v] * (cycle_[e.to] + e.distance * ii_ - cycle_[v]);
    }
  }
  for (int e = 0; e < n; ++e) CountAt(e);
}

void Lives::Move(int v, int64_t cycle) {
  if (cycle == cycle_[v]) return;
  for (int u : touched_[v]) Count(u, -1, v);
  weighted_life_ -= Weighted(v);
  cycle_[v] = cycle;
  life_[v].slot = FloorMod(cycle, ii_);
  for (int u : touched_[v]) Measure(u);
  weighted_life_ += Weighted(v);
  for (int u : touched_[v]) Count(u, 1, v);
  CountAt(v);
}

int64_t Lives::PeakRegisters(int group) const {
  int64_t peak = 0;
  for (int e : members_[group]) peak = std::max(peak, regs_[e]);
  return peak;
}

int64_t Lives::TmemColumns() const {
  int64_t peak = 0;
  for (int e : in_tmem_) peak = std::max(peak, tmem_[e]);
  return peak;
}

int64_t Lives::RegistersOfPool() const {
  int packed = 0;
  int64_t packed_quota = 0, sum = 0;
  for (int g = 0; g < groups(); ++g) {
    if (!used_[g]) continue;
    const int width = roles_ ? offer_.WidthOf(g, load_warps_) : kWarpsPerGroup;
    const int64_t quota = QuotaOf(PeakRegisters(g));
    if (width % kWarpsPerGroup == 0) {
      sum += quota * (width / kWarpsPerGroup);
    } else {
      packed += width;
      packed_quota = std::max(packed_quota, quota);
    }
  }
  return sum + packed_quota * ((packed + kWarpsPerGroup - 1) / kWarpsPerGroup);
}

}  // namespace tilec::scheduler
