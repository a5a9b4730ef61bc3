// Capacities: measured on a solution, enforced by cuts. A capacity overflow has a witness, a set of
// values whose live counts at one definition add up to too much; the cut says that one of them must
// live shorter, or elsewhere.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "ir/isa.h"
#include "scheduler/model.h"
#include "support/expr.h"

namespace tilec::scheduler {

using ir::isa::kLeastQuota;
using ir::isa::kWarpgroupWarps;

namespace {

bool Holds(Lit guard, const std::vector<Lit>& given) {
  return std::find(given.begin(), given.end(), guard) != given.end();
}

}  // namespace

int64_t Model::Live(const Placement& p, int v, int64_t at) const {
  int64_t end = p.cycle[v];
  for (int e : value_edges_[v]) {
    if (!edges_[e].Holds(p.group)) continue;
    const GraphEdge& edge = edges_[e].edge;
    end = std::max(end, p.cycle[edge.to] + edge.distance * ii_ + edge.hold);
  }
  return FloorDiv(at - p.cycle[v], ii_) - FloorDiv(at - end, ii_);
}

int64_t Model::AlwaysLive(int v) const {
  int64_t always = 0;
  for (int i : value_edges_[v])
    if (edges_[i].edge.to == v) always = std::max(always, edges_[i].edge.distance);
  return always;
}

// Accumulators of one role, before any schedule is looked at.
void Model::AddAccumulators() {
  const int n = static_cast<int>(graph_.ops.size());
  for (int e = 0; e < n; ++e) {
    if (AlwaysLive(e) == 0 || graph_.ops[e].regs == 0) continue;
    std::vector<std::pair<Lit, int64_t>> terms;
    for (int v = 0; v < n; ++v)
      if (AlwaysLive(v) > 0 && graph_.ops[v].regs > 0)
        terms.emplace_back(Same(v, e), graph_.ops[v].regs * AlwaysLive(v));
    formulas_.AddWeighted(registers_, std::move(terms), graph_.machine.max_regs_per_thread);
  }
}

Lit Model::LiveAtMost(int v, int e, int64_t n) {
  auto [it, fresh] = live_.try_emplace({v, e, n});
  if (!fresh) return it->second;
  const Lit lit = formulas_.NewBool();
  it->second = lit;
  // Per use y with t(y) + shift: stages(y) − stages(v) <= N − ends + starts, where `ends` counts
  // the period boundaries between slot(y) + hold and slot(e), `starts` is [slot(e) < slot(v)].
  const Lit starts = formulas_.AtLeast(r_[v], r_[e], 1);
  for (int i : value_edges_[v]) {
    const GraphEdge& edge = edges_[i].edge;
    const Lit unless = not_held_[i];
    const int y = edge.to;
    const int64_t hold = edge.hold % ii_;
    const int64_t most = n - edge.distance - edge.hold / ii_;
    const Lit before = formulas_.AtLeast(r_[e], r_[y], hold);       // ends == 0
    const Lit early = formulas_.AtLeast(r_[e], r_[y], hold - ii_);  // ends <= 1
    auto within = [&](int64_t bound) { return formulas_.AtMost(k_[y], k_[v], bound); };
    formulas_.Add({~lit, unless, within(most + 1)});
    formulas_.Add({~lit, unless, starts, within(most)});
    formulas_.Add({~lit, unless, before, within(most)});
    formulas_.Add({~lit, unless, starts, before, within(most - 1)});
    formulas_.Add({~lit, unless, early, within(most - 1)});
    formulas_.Add({~lit, unless, starts, early, within(most - 2)});
  }
  return lit;
}

// Which values to blame. Instances that are live whatever the schedule (a value that its own next
// iteration reads) come first: they leave no way out. Then the heaviest, and as few instances as
// overflow: a weaker claim cuts off more. What turns out superfluous is dropped.
std::vector<Model::Live1> Model::Cover(const Placement& p, int e, bool registers,
                                       int64_t limit) const {
  struct Part {
    int op;
    int64_t weight, always, count;  // of `count` live instances, `always` are so in any schedule
  };
  std::vector<Part> parts;
  int64_t sum = 0;
  for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v) {
    const int64_t weight = registers ? graph_.ops[v].regs : graph_.ops[v].tmem_columns;
    if (weight == 0 || (registers && p.group[v] != p.group[e])) continue;
    const int64_t count = Live(p, v, p.cycle[e]);
    if (count == 0) continue;
    parts.push_back({v, weight, std::min(AlwaysLive(v), count), count});
    sum += weight * parts.back().always;
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.weight * (a.count - a.always) > b.weight * (b.count - b.always);
  });
  for (Part& part : parts) {
    const int64_t missing = sum > limit ? 0 : (limit - sum) / part.weight + 1;
    part.count = std::min(part.count, part.always + missing);
    sum += part.weight * (part.count - part.always);
  }
  std::vector<Live1> cover;
  for (size_t i = parts.size(); i-- > 0;) {
    const Part& part = parts[i];
    if (sum - part.weight * part.count > limit) {
      sum -= part.weight * part.count;
      continue;
    }
    if (part.count > 0) cover.emplace_back(part.op, part.count);
  }
  return cover;
}

Clause Model::CoverClause(const std::vector<Live1>& cover, int e, bool registers) {
  Clause clause;
  for (const auto& [op, count] : cover) {
    if (registers) clause.push_back(~Same(op, e));
    clause.push_back(LiveAtMost(op, e, count - 1));
  }
  return clause;
}

int Model::AddCover(const std::vector<Live1>& cover, int e, bool registers) {
  using Kind = Overflow::Kind;
  overflows_.push_back({registers ? Kind::kRegisters : Kind::kTmem, {}, {}, {{-1, e, cover}}});
  const Lit guard = registers ? registers_ : tmem_;
  formulas_.Add(guard, CoverClause(cover, e, registers));
  for (const std::vector<int>& swap : swaps_) {
    std::vector<Live1> image = cover;
    for (auto& [op, count] : image) op = swap[op];
    formulas_.Add(guard, CoverClause(image, swap[e], registers));
  }
  return 1;
}

Lit Model::RingWithin(int v, int64_t depth) {
  if (depth <= static_cast<int64_t>(ring_[v].size())) return ring_[v][depth - 1];
  auto [it, fresh] = deeper_.try_emplace({v, depth});
  if (!fresh) return it->second;
  const Lit lit = formulas_.NewBool();
  it->second = lit;
  for (int i : value_edges_[v]) {
    const GraphEdge& edge = edges_[i].edge;
    Separate(formulas_.True(), Unless({~lit}, i), v, edge.to,
             edge.distance * ii_ + edge.hold - ii_ * depth);
  }
  return lit;
}

int64_t Model::PinnedBy(int op, const std::vector<Lit>& given) const {
  const auto pin = depth_pins_.find(op);
  return pin != depth_pins_.end() && Holds(pin->second, given) ? PinnedDepth(op) : 0;
}

Needs Model::MeasureWith(const Placement& p, const std::vector<Lit>& given) const {
  const bool all = std::all_of(depth_pins_.begin(), depth_pins_.end(),
                               [&](const auto& pin) { return Holds(pin.second, given); });
  if (all) return Measure(p);
  Graph fewer = graph_;
  std::erase_if(fewer.pins, [&](const Graph::Pin& pin) {
    return pin.depth > 0 && PinnedBy(fewer.FindOp(pin.op), given) == 0;
  });
  return scheduler::Measure(fewer, ii_, offer_, options_.warp_constraints, p);
}

// One of the rings is shallower, or a store between roles is not there, or a pin of a depth does
// not hold. Pins come first: they leave no way out to a schedule that keeps them.
int Model::AddRingCut(const Needs& needs, const std::vector<Lit>& given) {
  if (needs.smem_bytes <= graph_.machine.smem_bytes) return 0;
  struct Part {
    int64_t bytes;  // beyond the least that the op takes in any schedule
    bool pinned;
    int op;
  };
  std::vector<Part> parts;
  int64_t room = graph_.machine.smem_bytes;
  for (int v = 0; v < std::ssize(needs.depth); ++v) {
    const GraphOp& op = graph_.ops[v];
    if (op.smem_bytes == 0) continue;
    const int64_t slot = op.smem_bytes + graph_.machine.barrier_bytes;
    const int64_t least = op.routed ? 0 : 1;
    room -= least * slot;
    if (needs.depth[v] > least)
      parts.push_back({(needs.depth[v] - least) * slot, PinnedBy(v, given) > 0, v});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::pair(a.pinned, a.bytes) > std::pair(b.pinned, b.bytes);
  });
  size_t taken = 0;
  while (taken < parts.size() && room >= 0) room -= parts[taken++].bytes;
  Clause clause;
  Overflow met{Overflow::Kind::kRings, {}, {}, {{}}};
  bool any_pinned = false;
  for (size_t i = taken; i-- > 0;) {
    const auto [bytes, pinned, v] = parts[i];
    if (room + bytes < 0) {  // the others overflow without it
      room += bytes;
      continue;
    }
    any_pinned |= pinned;
    met.peaks[0].values.emplace_back(v, needs.depth[v]);
    clause.push_back(pinned ? ~depth_pins_.at(v) : Shallower(v, needs.depth[v]));
  }
  formulas_.Add(smem_, std::move(clause));
  if (!any_pinned) overflows_.push_back(std::move(met));
  return 1;
}

// A ring that is not so deep, or a store that is not there.
Lit Model::Shallower(int op, int64_t depth) {
  return graph_.ops[op].routed && depth == 1 ? absent_[op] : RingWithin(op, depth - 1);
}

void Model::Exclude(const std::vector<Overflow>& overflows) {
  for (const Overflow& met : overflows) {
    const Overflow::Peak& peak = met.peaks.front();
    Clause clause;
    switch (met.kind) {
      case Overflow::Kind::kRegisters: AddCover(peak.values, peak.at, true); continue;
      case Overflow::Kind::kTmem: AddCover(peak.values, peak.at, false); continue;
      case Overflow::Kind::kRings:
        for (const auto& [op, slots] : peak.values) clause.push_back(Shallower(op, slots));
        formulas_.Add(smem_, std::move(clause));
        break;
      case Overflow::Kind::kPool:
        if (met.widths != offer_.widths) continue;
        formulas_.Add(pool_, PoolClause(met));
        break;
    }
    overflows_.push_back(met);
  }
}

// May schedules that fill these roles and others besides have room for the quotas that overflow
// here? Every further role takes a least quota; but the share of a thread is rounded down to a
// multiple of 8, so that a launch of more warpgroups can have more registers for all of them.
bool Model::MoreRolesMayFit(const Needs& needs) const {
  std::vector<bool> used(offer_.Groups(), false);
  for (int g : needs.groups_used) used[g] = true;
  std::vector<int> free;
  for (int g = 0; g < offer_.Groups(); ++g)
    if (!used[g]) free.push_back(offer_.WidthOf(g, load_warps_));
  std::sort(free.begin(), free.end());
  // Any part of them, by warps: whole warpgroups, and warps that are packed four to one.
  const int64_t narrow_groups = (needs.narrow_warps + kWarpgroupWarps - 1) / kWarpgroupWarps;
  const int64_t wide = needs.warpgroups - narrow_groups;
  std::set<std::pair<int64_t, int64_t>> sums = {{0, 0}};
  for (int width : free) {
    std::set<std::pair<int64_t, int64_t>> with = sums;
    for (auto [groups, warps] : sums)
      with.insert(width % kWarpgroupWarps == 0 ? std::pair(groups + width / kWarpgroupWarps, warps)
                                               : std::pair(groups, warps + width));
    sums = std::move(with);
  }
  for (const auto& [groups, warps] : sums) {
    if (groups == 0 && warps == 0) continue;
    const int64_t packed = (needs.narrow_warps + warps + kWarpgroupWarps - 1) / kWarpgroupWarps;
    const int64_t used_now = needs.pool_used - needs.narrow_quota * narrow_groups +
                             groups * kLeastQuota +
                             packed * std::max(needs.narrow_quota, kLeastQuota);
    if (used_now <= RegisterPool(graph_.machine.registers, wide + groups + packed)) return true;
  }
  return false;
}

int Model::AddPoolCut(const Placement& p, const Needs& needs) {
  if (needs.pool_used <= needs.pool) return 0;
  Overflow met{Overflow::Kind::kPool, offer_.widths, {}, {}};
  if (!in_.empty() && MoreRolesMayFit(needs))
    for (int g = 0; g < offer_.Groups(); ++g)
      if (std::find(needs.groups_used.begin(), needs.groups_used.end(), g) ==
          needs.groups_used.end())
        met.unused.push_back(g);
  for (int g : needs.groups_used) {
    if (in_.empty()) break;
    const int e = needs.group_peak[g];
    const int64_t quota = RoundUp(needs.group_regs[g], 8);
    met.peaks.push_back({g, -1, {}});
    if (e >= 0 && quota > kLeastQuota) met.peaks.back() = {g, e, Cover(p, e, true, quota - 8)};
  }
  formulas_.Add(pool_, PoolClause(met));
  if (!met.peaks.empty()) overflows_.push_back(std::move(met));
  return 1;
}

// Any schedule that fills the same roles and overloads each as much is too big as well. It escapes
// by leaving a role empty, by filling another where that adds registers, by merging two of the
// peaks, or by a lower peak.
Clause Model::PoolClause(const Overflow& met) {
  Clause clause;
  for (int g : met.unused) clause.push_back(~Empty(g));
  std::vector<int> others;
  for (const Overflow::Peak& peak : met.peaks) {
    clause.push_back(Empty(peak.role));
    if (peak.at < 0) continue;
    const Clause cover = CoverClause(peak.values, peak.at, true);
    clause.insert(clause.end(), cover.begin(), cover.end());
    for (int other : others) clause.push_back(Same(peak.at, other));
    others.push_back(peak.at);
  }
  return clause;
}

// No op is in this role. Both directions: cuts ask for either.
Lit Model::Empty(int group) {
  auto [it, fresh] = empty_.try_emplace(group);
  if (!fresh) return it->second;
  const Lit empty = it->second = formulas_.NewBool();
  Clause some = {empty};
  for (const auto& candidates : in_)
    for (const auto& [g, lit] : candidates)
      if (g == group) {
        formulas_.Add({~empty, ~lit});
        some.push_back(lit);
      }
  formulas_.Add(std::move(some));
  return empty;
}

int Model::AddRegisterCuts(const Placement& p, const Needs& needs, const std::vector<Lit>& given) {
  if (!options_.register_limits || !options_.warp_constraints) return 0;
  const int64_t most = graph_.machine.max_regs_per_thread;
  int added = 0;
  for (int e = 0; Holds(registers_, given) && e < std::ssize(graph_.ops); ++e) {
    if (graph_.ops[e].regs == 0) continue;
    int64_t live = 0;
    for (int v = 0; v < std::ssize(graph_.ops); ++v)
      if (p.group[v] == p.group[e]) live += graph_.ops[v].regs * Live(p, v, p.cycle[e]);
    if (live > most) added += AddCover(Cover(p, e, true, most), e, true);
  }
  if (added == 0 && Holds(pool_, given)) added += AddPoolCut(p, needs);
  return added;
}

int Model::AddTmemCuts(const Placement& p, const Needs& needs) {
  const int64_t most = graph_.machine.tmem_columns;
  int added = 0;
  for (int e = 0; needs.tmem_columns > most && e < std::ssize(graph_.ops); ++e) {
    if (graph_.ops[e].tmem_columns == 0) continue;
    int64_t live = 0;
    for (int v = 0; v < std::ssize(graph_.ops); ++v)
      live += graph_.ops[v].tmem_columns * Live(p, v, p.cycle[e]);
    if (live > most) added += AddCover(Cover(p, e, false, most), e, false);
  }
  return added;
}

int Model::AddCuts(const Placement& p, const std::vector<Lit>& given) {
  const Needs needs = MeasureWith(p, given);
  int added = AddRegisterCuts(p, needs, given);
  if (Holds(tmem_, given)) added += AddTmemCuts(p, needs);
  if (Holds(smem_, given)) added += AddRingCut(needs, given);
  return added;
}

}  // namespace tilec::scheduler
