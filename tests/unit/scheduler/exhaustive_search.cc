// The search through all schedules: every lawful division among roles, every slot of every op, the
// least stages for each.
//
// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/scheduler/exhaustive_search.h"

#include <algorithm>
#include <array>
#include <set>

namespace tilec::scheduler {

namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
int64_t Floor(int64_t a, int64_t b) { return a >= 0 ? a / b : -CeilDiv(-a, b); }

}  // namespace

Exhaustive::Exhaustive(const Graph& graph, int64_t ii)
    : g_(graph), ii_(ii), n_(static_cast<int>(graph.ops.size())) {
  slot_.assign(n_, 0);
  stage_.assign(n_, 0);
  role_.assign(n_, 0);
  for (const GraphOp& op : g_.ops)
    memory_ = memory_ || op.regs > 0 || op.smem_bytes > 0 || op.tmem_columns > 0;
  // A role has 24 registers a thread whatever it keeps.
  const int64_t groups = CeilDiv(g_.machine.max_warps, 4);
  memory_ = memory_ || (groups > 0 && g_.machine.registers / (128 * groups) < 24);
}

// Nothing: more placements would have to be looked at than that.
std::optional<bool> Exhaustive::Run(int64_t most_placements) {
  left_ = most_placements;
  const bool found = Run();
  return left_ < 0 ? std::nullopt : std::optional(found);
}

// All lawful divisions among roles.
std::vector<std::vector<int>> Exhaustive::Divisions() {
  std::vector<std::vector<int>> all;
  Divide(0, 0, &all);
  return all;
}

// With these roles.
bool Exhaustive::Run(const std::vector<int>& roles) {
  role_ = roles;
  return PlaceSlots(0, 0);
}

// With these roles, better than `best`: fewer stages, then less shared memory, then more slack.
std::optional<Objective> Exhaustive::Best(const std::vector<int>& roles, const Objective* best) {
  role_ = roles;
  rotate_ = true;
  most_stages_ = best != nullptr ? best->stages : INT64_MAX;
  least_smem_ = best != nullptr ? best->smem_bytes : INT64_MAX;
  most_slack_ = best != nullptr ? best->slack : INT64_MIN;
  PlaceSlots(0, ii_ - 1);
  if (!improved_) return std::nullopt;
  Objective objective = CriteriaOfRoles(roles);
  objective.stages = most_stages_;
  objective.smem_bytes = least_smem_;
  objective.slack = most_slack_;
  return objective;
}

Objective Exhaustive::CriteriaOfRoles(const std::vector<int>& roles) {
  role_ = roles;
  return CriteriaOfRoles();
}

void Exhaustive::Divide(int v, int roles, std::vector<std::vector<int>>* out) {
  if (v == n_) {
    out->push_back(role_);
    return;
  }
  const bool load = g_.ops[v].variable_latency;
  for (int role = load ? -1 : 0; role <= (load ? -1 : roles); ++role) {
    role_[v] = role;
    if (RolesLegal(v)) Divide(v + 1, std::max(roles, role + 1), out);
  }
}

// 32 lanes a warp, 4 bytes a register; 128 lanes of 4 bytes a column.
Objective Exhaustive::CriteriaOfRoles() const {
  Objective o;
  std::set<int> seen, crossing;
  std::set<std::pair<int, int>> waits;
  for (int v = 0; v < n_; ++v)
    if (seen.insert(role_[v]).second) {
      o.warps += g_.ops[v].warps;
      o.compute_groups += g_.ops[v].warps >= 4 ? 1 : 0;
    }
  for (const GraphEdge& e : g_.edges) {
    if (role_[e.from] == role_[e.to]) continue;
    if (e.kind != EdgeKind::kOrder) crossing.insert(e.from);
    if (g_.ops[e.to].warps >= 4 && !g_.ops[e.to].variable_latency) waits.insert({e.from, e.to});
  }
  for (int v : crossing)
    o.cross_bytes += 128 * g_.ops[v].regs * g_.ops[v].warps + g_.ops[v].smem_bytes +
                     512 * g_.ops[v].tmem_columns;
  o.waits = static_cast<int64_t>(waits.size());
  return o;
}

// `last`: of the first op, which may stand anywhere.
bool Exhaustive::PlaceSlots(int v, int64_t last) {
  if (v == n_) return Stages();
  for (int64_t slot = 0; slot <= (v == 0 ? last : ii_ - 1); ++slot) {
    slot_[v] = slot;
    if (Reserved(v) && PlaceSlots(v + 1, last)) return true;
  }
  return false;
}

// Of ops but loads: what an author sees as the depth of the pipeline.
bool Exhaustive::TooManyStages(int v) {
  int64_t first = 0, last = -1;
  for (int u = 0; u <= v; ++u) {
    if (g_.ops[u].variable_latency) continue;
    if (last < first) {
      first = last = stage_[u];
    } else {
      first = std::min(first, stage_[u]);
      last = std::max(last, stage_[u]);
    }
  }
  stages_ = last - first + 1;
  return stages_ > most_stages_;
}

// Roles: −1 is the load role; others are numbered by first use.
bool Exhaustive::Place(int v, int roles) {
  if (v == n_) return Stages();
  const bool load = g_.ops[v].variable_latency;
  for (int role = load ? -1 : 0; role <= (load ? -1 : roles); ++role) {
    role_[v] = role;
    if (!RolesLegal(v)) continue;
    for (int64_t slot = 0; slot < (v == 0 ? 1 : ii_); ++slot) {
      slot_[v] = slot;
      if (Reserved(v) && Place(v + 1, std::max(roles, role + 1))) return true;
    }
  }
  return false;
}

bool Exhaustive::RolesLegal(int v) const {
  std::set<int> seen;
  int64_t warps = 0;
  for (int u = 0; u <= v; ++u) {
    if (u < v && role_[u] == role_[v] && !g_.ops[v].part.empty() &&
        g_.ops[u].part == g_.ops[v].part)
      return false;
    if (role_[u] == role_[v] && g_.ops[u].warps != g_.ops[v].warps) return false;
    if (seen.insert(role_[u]).second) warps += g_.ops[u].warps;
  }
  if (warps > g_.machine.max_warps) return false;
  for (const GraphEdge& e : g_.edges)
    if (e.from <= v && e.to <= v && role_[e.from] != role_[e.to] &&
        (!e.crossable || (e.kind == EdgeKind::kRegister && e.distance > 0)))
      return false;
  return true;
}

// Modular tables of ops 0…v, cell by cell.
bool Exhaustive::Reserved(int v) const {
  for (size_t f = 0; f < g_.units.size(); ++f) {
    std::vector<int64_t> table(ii_, 0);
    for (int u = 0; u <= v; ++u)
      for (const UnitUse& use : g_.ops[u].uses)
        if (use.unit == static_cast<int>(f))
          for (int64_t c = 0; c < use.cycles; ++c)
            if (++table[(slot_[u] + c) % ii_] > g_.units[f].capacity) return false;
  }
  std::vector<bool> busy(ii_, false);
  for (int u = 0; u <= v; ++u) {
    if (role_[u] != role_[v]) continue;
    for (int64_t c = 0; c < g_.ops[u].issue; ++c) {
      if (busy[(slot_[u] + c) % ii_]) return false;
      busy[(slot_[u] + c) % ii_] = true;
    }
  }
  return true;
}

// k(to) − k(from) must be at least this.
int64_t Exhaustive::LeastStages(const GraphEdge& e) const {
  const int64_t delay = e.delay + (role_[e.from] != role_[e.to] ? e.transfer : 0);
  return CeilDiv(delay - e.distance * ii_ - (slot_[e.to] - slot_[e.from]), ii_);
}

bool Exhaustive::Stages() {
  // Longest paths: without memory a solution is as good as any.
  std::vector<int64_t> k(n_, 0);
  int64_t widest = 1;
  for (int round = 0;; ++round) {
    bool changed = false;
    for (const GraphEdge& e : g_.edges) {
      const int64_t least = LeastStages(e);
      widest = std::max({widest, least, -least});
      if (k[e.from] + least > k[e.to]) k[e.to] = k[e.from] + least, changed = true;
    }
    if (!changed) break;
    if (round > n_) return false;
  }
  if (!memory_ && !rotate_) return true;
  // Ops further apart than any edge can ask for may move closer, so gaps are bounded.
  reach_ = (widest + 1) * (n_ - 1);
  return ChooseStage(1);
}

bool Exhaustive::ChooseStage(int v) {
  if (rotate_ && TooManyStages(v - 1)) return false;
  if (v == n_) return Fits();
  int64_t low = -reach_, high = reach_;
  for (const GraphEdge& e : g_.edges) {
    const int64_t least = LeastStages(e);
    if (e.to == v && e.from < v) low = std::max(low, stage_[e.from] + least);
    if (e.from == v && e.to < v) high = std::min(high, stage_[e.to] - least);
  }
  for (int64_t k = low; k <= high; ++k) {
    stage_[v] = k;
    if (ChooseStage(v + 1)) return true;
  }
  return false;
}

bool Exhaustive::Fits() {
  if (--left_ < 0) return true;  // ends the search
  std::vector<int64_t> begin(n_), end(n_);
  for (int v = 0; v < n_; ++v) begin[v] = end[v] = stage_[v] * ii_ + slot_[v];
  for (const GraphEdge& e : g_.edges)
    if (e.kind != EdgeKind::kOrder)
      end[e.from] = std::max(end[e.from], begin[e.to] + e.distance * ii_ + e.hold);
  int64_t smem = 0;
  for (int v = 0; v < n_; ++v)
    if (g_.ops[v].smem_bytes > 0)
      smem += std::max<int64_t>(1, CeilDiv(end[v] - begin[v], ii_)) *
              (g_.ops[v].smem_bytes + g_.machine.barrier_bytes);
  if (smem > g_.machine.smem_bytes) return false;
  std::vector<int64_t> peak(n_ + 1, 0);  // by role + 1
  for (int64_t tau = 0; tau < ii_; ++tau) {
    std::vector<int64_t> regs(n_ + 1, 0);
    int64_t tmem = 0;
    for (int v = 0; v < n_; ++v) {
      // Instances i with begin + i·II <= tau < end + i·II.
      const int64_t live = Floor(tau - begin[v], ii_) - Floor(tau - end[v], ii_);
      regs[role_[v] + 1] += live * g_.ops[v].regs;
      tmem += live * g_.ops[v].tmem_columns;
    }
    if (tmem > g_.machine.tmem_columns) return false;
    for (int r = 0; r <= n_; ++r) {
      if (regs[r] > g_.machine.max_regs_per_thread) return false;
      peak[r] = std::max(peak[r], regs[r]);
    }
  }
  return QuotasFit(peak, smem);
}

int64_t Exhaustive::Slack() const {
  int64_t slack = ii_;
  for (const GraphEdge& e : g_.edges) {
    if (role_[e.from] == role_[e.to] || g_.ops[e.from].streaming) continue;
    const int64_t ready = stage_[e.from] * ii_ + slot_[e.from] + e.delay + e.transfer;
    slack = std::min(slack, (stage_[e.to] + e.distance) * ii_ + slot_[e.to] - ready);
  }
  return slack;
}

bool Exhaustive::QuotasFit(const std::vector<int64_t>& peak, int64_t smem) {
  int64_t narrow_warps = 0, narrow_quota = 0, groups = 0, sum = 0;
  std::set<int> seen;
  for (int v = 0; v < n_; ++v) {
    if (!seen.insert(role_[v]).second) continue;
    const int64_t quota = std::max<int64_t>(24, (peak[role_[v] + 1] + 7) / 8 * 8);
    const int warps = g_.ops[v].warps;
    if (warps % 4 != 0) {
      narrow_warps += warps;
      narrow_quota = std::max(narrow_quota, quota);
    } else {
      groups += warps / 4;
      sum += quota * (warps / 4);
    }
  }
  groups += (narrow_warps + 3) / 4;
  sum += narrow_quota * ((narrow_warps + 3) / 4);
  if (sum > g_.machine.registers / (128 * groups) / 8 * 8 * groups) return false;
  if (!rotate_) return true;
  // Noted, and the search goes on.
  const std::array<int64_t, 3> now = {stages_, smem, -Slack()},
                               best = {most_stages_, least_smem_, -most_slack_};
  if (now < best) {
    improved_ = true;
    most_stages_ = stages_;
    least_smem_ = smem;
    most_slack_ = Slack();
  }
  return false;
}

}  // namespace tilec::scheduler
