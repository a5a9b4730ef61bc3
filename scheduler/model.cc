// The variables of the model, and the laws of ops and values: roles, routes, dependences, rings and
// pins. What ops take from each other is in model_units.cc, which schedules are the same in
// model_symmetry.cc. The order in which clauses are added is part of an answer: a solver that finds
// them in another order finds another schedule.
//
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/model.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilec::scheduler {

namespace {

struct LawRow {
  const char* name;
  const char* sentence;
};
constexpr LawRow kLaws[] = {
#define LAW(name, id, sentence, source) {id, sentence},
#include "scheduler/constraints.def"
#undef LAW
};

// Depths beyond this are charged as this many slots and corrected by cuts.
constexpr int64_t kRingLevels = 6;

std::string Between(const Graph& graph, const GraphEdge& edge) {
  std::string text = graph.ops[edge.from].name + " -> " + graph.ops[edge.to].name;
  if (edge.distance > 0) text += fmt::format(" (next {})", edge.distance);
  return text;
}

}  // namespace

const char* LawName(Law law) { return kLaws[static_cast<int>(law)].name; }
const char* LawSentence(Law law) { return kLaws[static_cast<int>(law)].sentence; }

Model::Model(const Graph& graph, int64_t ii, const RoleOffer& offer, const SolveOptions& options)
    : graph_(graph),
      ii_(ii),
      offer_(offer),
      options_(options),
      edges_(AllEdges(graph)),
      owner_(RoleOwners(graph)) {
  const int n = static_cast<int>(graph.ops.size());
  value_edges_.resize(n);
  for (size_t i = 0; i < edges_.size(); ++i)
    if (edges_[i].edge.kind != EdgeKind::kOrder)
      value_edges_[edges_[i].edge.from].push_back(static_cast<int>(i));
  load_warps_ = LoadWarps(graph);
  for (int v = 0; v < n; ++v) {
    k_.push_back(formulas_.NewInt());
    r_.push_back(formulas_.NewInt());
    formulas_.Add({formulas_.AtLeast(r_[v], Formulas::Zero(), 0)});
    formulas_.Add({formulas_.AtMost(r_[v], Formulas::Zero(), ii_ - 1)});
  }
  swaps_ = SliceSwaps(graph);
  AddRoles();
  AddRoutes();
  AddDependences();
  AddUnits();
  AddIssue();
  const MachineLimits& machine = graph.machine;
  if (options.register_limits && options.warp_constraints) {
    registers_ = GuardFor(
        Law::kRegisters,
        fmt::format("at most {} live registers per thread of a role", machine.max_regs_per_thread),
        {});
    AddAccumulators();
    pool_ = GuardFor(Law::kRegisterPool,
                     fmt::format("{} registers for all warpgroups", machine.registers), {});
  }
  tmem_ =
      GuardFor(Law::kTmem, fmt::format("{} columns of tensor memory", machine.tmem_columns), {});
  smem_ = GuardFor(Law::kSmem, fmt::format("{} bytes of shared memory", machine.smem_bytes), {});
  AddRings();
  AddPins();
  AddSymmetry();
}

Lit Model::GuardFor(Law law, std::string text, std::vector<int> ops, Span at) {
  const Lit lit = formulas_.NewBool();
  guards_.push_back({lit, law, std::move(text), std::move(ops), at});
  return lit;
}

void Model::Separate(Lit guard, const Clause& unless, int x, int y, int64_t c) {
  if (x == y) {
    if (c > 0) formulas_.Add(guard, unless);
    return;
  }
  Separate(guard, unless, Time{k_[x], r_[x]}, Time{k_[y], r_[y]}, c);
}

void Model::Separate(Lit guard, const Clause& unless, Time x, Time y, int64_t c) {
  const int64_t m = FloorDiv(c, ii_), rho = FloorMod(c, ii_);
  auto add = [&](std::initializer_list<Lit> lits) {
    Clause clause = unless;
    clause.insert(clause.end(), lits);
    formulas_.Add(guard, std::move(clause));
  };
  add({formulas_.AtLeast(x.k, y.k, m)});
  add({formulas_.AtLeast(x.k, y.k, m + 1), formulas_.AtLeast(x.r, y.r, rho)});
  if (rho > 1) add({formulas_.AtLeast(x.k, y.k, m + 2), formulas_.AtLeast(x.r, y.r, rho - ii_)});
}

Lit Model::StagesAtMost(int64_t bound) {
  const Lit lit = formulas_.NewBool();
  const int n = static_cast<int>(graph_.ops.size());
  if (PinsTime(graph_)) {  // the loop begins where the author counts from
    for (int u = 0; u < n; ++u)
      for (int v = 0; v < n; ++v)
        if (u != v && !graph_.ops[u].variable_latency && !graph_.ops[v].variable_latency)
          formulas_.Add(lit, {absent_[u], absent_[v], formulas_.AtMost(k_[u], k_[v], bound - 1)});
    return lit;
  }
  if (!first_) {
    first_ = Time{formulas_.NewInt(), formulas_.NewInt()};
    formulas_.Add({formulas_.AtLeast(first_->r, Formulas::Zero(), 0)});
    formulas_.Add({formulas_.AtMost(first_->r, Formulas::Zero(), ii_ - 1)});
  }
  // first <= t(v) < first + bound·II
  for (int v = 0; v < n; ++v) {
    if (graph_.ops[v].variable_latency) continue;
    const Time time{k_[v], r_[v]};
    Separate(lit, {absent_[v]}, time, *first_, 0);
    Separate(lit, {absent_[v]}, *first_, time, 1 - bound * ii_);
  }
  return lit;
}

// Roles are numbered in the order in which their first op appears (restricted growth), so that no
// two solutions differ by names of roles only.
void Model::AddRoles() {
  const int n = static_cast<int>(graph_.ops.size());
  in_.resize(n);
  if (!options_.warp_constraints) return;
  const int base = offer_.load ? 1 : 0;
  for (int v = 0; v < n; ++v) {
    if (IsLoad(v)) {
      in_[v].emplace_back(0, formulas_.True());
      continue;
    }
    if (graph_.ops[v].routed) continue;
    std::vector<int> groups;
    for (size_t g = 0; g < offer_.widths.size(); ++g)
      if (offer_.widths[g] == graph_.ops[v].warps) groups.push_back(static_cast<int>(g) + base);
    if (groups.empty()) {  // no role of this width on offer
      formulas_.Add({});
    } else if (groups.size() == 1) {
      in_[v].emplace_back(groups[0], formulas_.True());
    } else if (groups.size() == 2) {
      const Lit second = formulas_.NewBool();
      in_[v] = {{groups[0], ~second}, {groups[1], second}};
    } else {
      Clause any;
      for (int g : groups) {
        in_[v].emplace_back(g, formulas_.NewBool());
        any.push_back(in_[v].back().second);
      }
      for (size_t i = 0; i < any.size(); ++i)
        for (size_t j = 0; j < i; ++j) formulas_.Add({~any[i], ~any[j]});
      formulas_.Add(any);
    }
    for (size_t i = 1; i < in_[v].size(); ++i) {
      Clause clause = {~in_[v][i].second};
      for (int u = 0; u < v; ++u)
        if (!IsLoad(u) && !graph_.ops[u].routed && graph_.ops[u].warps == graph_.ops[v].warps)
          clause.push_back(in_[u][i - 1].second);
      formulas_.Add(std::move(clause));
    }
  }
  for (int v = 0; v < n; ++v)
    if (graph_.ops[v].routed) in_[v] = in_[owner_[v]];
}

void Model::AddRoutes() {
  absent_.assign(graph_.ops.size(), formulas_.False());
  for (const RoutedEdge& e : edges_)
    not_held_.push_back(e.first < 0 ? formulas_.False()
                        : e.apart   ? Same(e.first, e.second)
                                    : ~Same(e.first, e.second));
  std::vector<Clause> crossing(graph_.ops.size());  // a store may serve several edges
  for (const GraphEdge& e : graph_.edges)
    if (e.HasRoute()) {
      absent_[e.load] = Same(e.from, e.to);
      crossing[e.store].push_back(~Same(e.from, e.to));
    }
  for (size_t v = 0; v < crossing.size(); ++v) {
    Clause& any = crossing[v];
    if (any.empty()) continue;
    if (any.size() == 1) {
      absent_[v] = ~any.front();
      continue;
    }
    absent_[v] = formulas_.NewBool();
    for (Lit lit : any) formulas_.Add({~absent_[v], ~lit});
    any.push_back(absent_[v]);
    formulas_.Add(std::move(any));
  }
}

Clause Model::Unless(const Clause& unless, int edge) const {
  Clause clause = unless;
  clause.push_back(not_held_[edge]);
  return clause;
}

Lit Model::Same(int u, int v) {
  u = owner_[u];
  v = owner_[v];
  if (u == v || !options_.warp_constraints) return formulas_.True();
  if (IsLoad(u) != IsLoad(v)) return formulas_.False();
  if (IsLoad(u)) return formulas_.True();
  if (graph_.ops[u].warps != graph_.ops[v].warps) return formulas_.False();
  if (in_[u].size() <= 1) return formulas_.True();
  if (u > v) std::swap(u, v);
  auto [it, fresh] = same_.try_emplace({u, v});
  if (!fresh) return it->second;
  const Lit same = formulas_.NewBool();
  it->second = same;
  for (size_t i = 0; i < in_[u].size(); ++i) {
    const Lit a = in_[u][i].second, b = in_[v][i].second;
    formulas_.Add({~a, ~b, same});
    formulas_.Add({~same, ~a, b});
    formulas_.Add({~same, a, ~b});
  }
  return same;
}

void Model::AddDependences() {
  if (options_.warp_constraints)
    for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v)
      for (int u = 0; u < v; ++u)
        if (!graph_.ops[v].part.empty() && graph_.ops[u].part == graph_.ops[v].part)
          formulas_.Add(GuardFor(Law::kApart,
                                 fmt::format("{} and {} are parts of {}", graph_.ops[u].name,
                                             graph_.ops[v].name, graph_.ops[v].part),
                                 {u, v}),
                        {~Same(u, v)});
  for (const RoutedEdge& routed : edges_) {
    const GraphEdge& edge = routed.edge;
    const int64_t c = edge.delay - edge.distance * ii_;
    const std::string between = Between(graph_, edge);
    const std::vector<int> ops = {edge.from, edge.to};
    const Lit same = Same(edge.from, edge.to);
    if (routed.first >= 0) {
      const Lit shared = Same(routed.first, routed.second);
      if (routed.apart) {
        const int64_t delay = edge.delay + edge.transfer;
        Separate(GuardFor(Law::kTransfer,
                          fmt::format("{}: {} cycles between roles", between, delay), ops),
                 {shared}, edge.to, edge.from, c + edge.transfer);
        continue;
      }
      Separate(GuardFor(Law::kDependence, fmt::format("{}: {} cycles", between, edge.delay), ops),
               {~shared}, edge.to, edge.from, c);
      if (!options_.cross_role_transfers)
        formulas_.Add(GuardFor(Law::kNoTransfer, between, ops), {shared});
      continue;
    }
    if (!(same == formulas_.False() && edge.transfer > 0)) {
      const Lit guard =
          GuardFor(Law::kDependence, fmt::format("{}: {} cycles", between, edge.delay), ops);
      Separate(guard, {}, edge.to, edge.from, c);
    }
    if (!options_.warp_constraints || same == formulas_.True()) continue;
    if (edge.transfer > 0) {
      const Lit guard = GuardFor(Law::kTransfer,
                                 fmt::format("{}: {} cycles, and {} more between roles", between,
                                             edge.delay, edge.transfer),
                                 ops);
      Separate(guard, {same}, edge.to, edge.from, c + edge.transfer);
    }
    if (edge.kind == EdgeKind::kRegister && edge.distance >= 1)
      formulas_.Add(GuardFor(Law::kCarriedRole, between, ops), {same});
    if (!edge.crossable) formulas_.Add(GuardFor(Law::kSameRole, between, ops), {same});
    if (!options_.cross_role_transfers && edge.kind == EdgeKind::kRegister && !IsLoad(edge.from))
      formulas_.Add(GuardFor(Law::kNoTransfer, between, ops), {same});
  }
}

void Model::AddRings() {
  const int n = static_cast<int>(graph_.ops.size());
  ring_.resize(n);
  const MachineLimits& machine = graph_.machine;
  int64_t least = 0;
  for (int v = 0; v < n; ++v)
    if (graph_.ops[v].smem_bytes > 0 && !graph_.ops[v].routed)
      least += graph_.ops[v].smem_bytes + machine.barrier_bytes;
  std::vector<std::pair<Lit, int64_t>> terms;
  for (int v = 0; v < n; ++v)
    if (graph_.ops[v].smem_bytes > 0 && graph_.ops[v].routed)
      terms.emplace_back(~absent_[v], graph_.ops[v].smem_bytes + machine.barrier_bytes);
  for (const Graph::Pin& pin : graph_.pins) {
    const int v = graph_.FindOp(pin.op);
    if (v < 0 || pin.depth == 0) continue;
    auto [it, fresh] = depth_pins_.try_emplace(v);
    if (!fresh) continue;
    it->second =
        GuardFor(Law::kPin, fmt::format("{} in a ring of {}", pin.op, pin.depth), {v}, pin.at);
    if (graph_.ops[v].smem_bytes > 0)
      terms.emplace_back(it->second,
                         (PinnedDepth(v) - 1) * (graph_.ops[v].smem_bytes + machine.barrier_bytes));
  }
  for (int v = 0; v < n; ++v) {
    const GraphOp& op = graph_.ops[v];
    if (op.smem_bytes == 0 || PinnedDepth(v) > 0) continue;  // a pinned ring is paid already
    const int64_t slot = op.smem_bytes + machine.barrier_bytes;
    const int64_t most = 1 + std::max<int64_t>(0, machine.smem_bytes - least) / slot;
    const int64_t levels = std::min(most, kRingLevels);
    for (int64_t d = 1; d <= levels; ++d) {
      const Lit within = formulas_.NewBool();
      for (int e : value_edges_[v]) {
        const GraphEdge& edge = edges_[e].edge;
        // t(to) + distance·II + hold − t(v) <= II·d
        Separate(formulas_.True(), Unless({~within}, e), v, edge.to,
                 edge.distance * ii_ + edge.hold - ii_ * d);
      }
      if (d > 1) formulas_.Add({~ring_[v].back(), within});
      ring_[v].push_back(within);
      if (d < levels) terms.emplace_back(~within, slot);
    }
    if (levels == most) formulas_.Add(smem_, {ring_[v].back()});
  }
  if (least > 0 || !terms.empty())
    formulas_.AddWeighted(smem_, std::move(terms), machine.smem_bytes - least);
}

void Model::AddPins() {
  // An author counts cycles and stages from 0.
  if (std::any_of(graph_.pins.begin(), graph_.pins.end(),
                  [](const Graph::Pin& pin) { return pin.cycle >= 0 || pin.stage >= 0; }))
    for (IntVar k : k_) formulas_.Add({formulas_.AtLeast(k, Formulas::Zero(), 0)});
  for (const Graph::Pin& pin : graph_.pins) {
    const int v = graph_.FindOp(pin.op);
    if (v < 0) continue;
    auto fix = [&](Lit guard, IntVar var, int64_t value) {
      formulas_.Add(guard, {formulas_.AtLeast(var, Formulas::Zero(), value)});
      formulas_.Add(guard, {formulas_.AtMost(var, Formulas::Zero(), value)});
    };
    if (pin.cycle >= 0) {
      const Lit guard =
          GuardFor(Law::kPin, fmt::format("{} at cycle {}", pin.op, pin.cycle), {v}, pin.at);
      fix(guard, k_[v], pin.cycle / ii_);
      fix(guard, r_[v], pin.cycle % ii_);
    }
    if (pin.stage >= 0)
      fix(GuardFor(Law::kPin, fmt::format("{} in stage {}", pin.op, pin.stage), {v}, pin.at), k_[v],
          pin.stage);
    if (const int u = graph_.FindOp(pin.same_role_as); u >= 0)
      formulas_.Add(
          GuardFor(Law::kPin, fmt::format("{} in the role of {}", pin.op, pin.same_role_as), {u, v},
                   pin.at),
          {Same(u, v)});
    if (pin.depth > 0) {
      const Lit guard = depth_pins_.at(v);
      for (int e : value_edges_[v]) {
        const GraphEdge& edge = edges_[e].edge;
        Separate(guard, Unless({}, e), v, edge.to,
                 edge.distance * ii_ + edge.hold - ii_ * pin.depth);
      }
    }
  }
  if (options_.fixed_stages) {
    const Lit guard =
        GuardFor(Law::kStages, fmt::format("compute within {} stages", *options_.fixed_stages), {});
    formulas_.Add(guard, {StagesAtMost(*options_.fixed_stages)});
  }
}

}  // namespace tilec::scheduler
