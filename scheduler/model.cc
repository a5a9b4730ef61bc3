// SPDX-License-Identifier: Apache-2.0
#include "scheduler/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

Lit Model::OrderOf(int u, int v) {
  if (u > v) return ~OrderOf(v, u);
  auto [it, fresh] = order_.try_emplace({u, v});
  if (fresh) it->second = formulas_.NewBool();
  return it->second;
}

// [r(u), r(u) + du) and [r(v), r(v) + dv) do not meet modulo II.
void Model::AddExclusion(Lit guard, const Clause& unless, int u, int v, int64_t du, int64_t dv) {
  if (du == 0 || dv == 0) return;
  const Lit before = OrderOf(u, v);
  auto add = [&](Lit condition, Lit atom) {
    Clause clause = unless;
    clause.push_back(~condition);
    clause.push_back(atom);
    formulas_.Add(guard, std::move(clause));
  };
  add(before, formulas_.AtLeast(r_[v], r_[u], du));
  add(before, formulas_.AtLeast(r_[u], r_[v], dv - ii_));
  add(~before, formulas_.AtLeast(r_[u], r_[v], dv));
  add(~before, formulas_.AtLeast(r_[v], r_[u], du - ii_));
}

void Model::AddUnits() {
  const int n = static_cast<int>(graph_.ops.size());
  for (size_t f = 0; f < graph_.units.size(); ++f) {
    // Instances that an op takes for so many cycles, modulo II; and all the time.
    struct User {
      int op;
      int64_t cycles, instances;
    };
    std::vector<User> users;
    std::vector<int> ops;
    int64_t always = 0, together = 0;
    bool sometimes = false;  // an op that may not exist takes it for a whole period
    for (int v = 0; v < n; ++v) {
      std::map<int64_t, int64_t> uses;
      for (const UnitUse& use : graph_.ops[v].uses)
        if (use.unit == static_cast<int>(f) && use.cycles > 0) {
          if (absent_[v] == formulas_.False())
            always += use.cycles / ii_;
          else
            sometimes = sometimes || use.cycles >= ii_;
          if (use.cycles % ii_ > 0) ++uses[use.cycles % ii_];
          if (ops.empty() || ops.back() != v) ops.push_back(v);
        }
      for (const auto& [cycles, instances] : uses) {
        users.push_back({v, cycles, instances});
        together += instances;
      }
    }
    if (graph_.units[f].fluid) {
      int64_t busy = 0;
      std::vector<std::pair<Lit, int64_t>> terms;
      for (int v = 0; v < n; ++v)
        for (const UnitUse& use : graph_.ops[v].uses)
          if (use.unit == static_cast<int>(f)) {
            busy += use.cycles;
            terms.emplace_back(~absent_[v], use.cycles);
          }
      if (busy > graph_.units[f].capacity * ii_)
        formulas_.AddWeighted(
            GuardFor(Law::kUnit,
                     fmt::format("{} cycles of unit {} in a period", busy, graph_.units[f].name),
                     ops),
            std::move(terms), graph_.units[f].capacity * ii_);
      continue;
    }
    const int64_t capacity = graph_.units[f].capacity - always;
    if (together <= capacity && !sometimes) continue;
    const Lit guard =
        GuardFor(Law::kUnit,
                 fmt::format("{} of unit {}", graph_.units[f].capacity, graph_.units[f].name), ops);
    if (capacity == 1 && !sometimes && users.size() == ops.size() &&
        together == std::ssize(users)) {
      for (size_t i = 0; i < users.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          AddExclusion(guard, {absent_[users[j].op], absent_[users[i].op]}, users[j].op,
                       users[i].op, users[j].cycles, users[i].cycles);
      continue;
    }
    // Count at every issue: the largest overlap of arcs on a circle is at the start of one.
    for (int e : ops) {
      std::vector<std::pair<Lit, int64_t>> terms;
      for (const User& user : users) {
        if (user.op == e) {
          terms.emplace_back(~absent_[e], user.instances);
          continue;
        }
        // inside: 0 <= r(e) − r(op) < cycles modulo II.
        const Lit inside = formulas_.NewBool();
        terms.emplace_back(inside, user.instances);
        formulas_.Add(
            {absent_[user.op], inside, formulas_.AtLeast(r_[e], r_[user.op], user.cycles - ii_)});
        formulas_.Add({absent_[user.op], inside, formulas_.AtLeast(r_[e], r_[user.op], user.cycles),
                       formulas_.AtLeast(r_[user.op], r_[e], 1)});
      }
      for (int v : ops)
        for (const UnitUse& use : graph_.ops[v].uses)
          if (use.unit == static_cast<int>(f) && !(absent_[v] == formulas_.False()))
            terms.emplace_back(~absent_[v], use.cycles / ii_);
      formulas_.AddWeighted(guard, std::move(terms), capacity);
    }
  }
}

void Model::AddIssue() {
  if (!options_.warp_constraints) return;
  const int n = static_cast<int>(graph_.ops.size());
  const Lit guard = GuardFor(Law::kIssue, "one instruction stream per role", {});
  for (int v = 0; v < n; ++v) {
    if (graph_.ops[v].issue > ii_) formulas_.Add(guard, {absent_[v]});
    for (int u = 0; u < v; ++u) {
      if (graph_.ops[u].issue == 0 || graph_.ops[v].issue == 0) continue;
      const Lit same = Same(u, v);
      if (same == formulas_.False()) continue;
      AddExclusion(guard, {~same, absent_[u], absent_[v]}, u, v, graph_.ops[u].issue,
                   graph_.ops[v].issue);
    }
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

// Rotating a schedule changes nothing (stages are counted from the first op, not from cycle 0), so
// one op may sit at cycle 0; interchanging two alike slices changes nothing, so the first may be
// the earlier one. Neither holds once an author pins.
void Model::AddSymmetry() {
  if (PinsTime(graph_)) return;
  int root = -1;
  int64_t most = -1;
  for (size_t v = 0; v < graph_.ops.size(); ++v) {
    if (graph_.ops[v].variable_latency || graph_.ops[v].routed) continue;
    int64_t busy = 0;
    for (const UnitUse& use : graph_.ops[v].uses) busy = std::max(busy, use.cycles);
    if (busy > most) most = busy, root = static_cast<int>(v);
  }
  if (root < 0) root = 0;
  if (graph_.ops.empty()) return;
  for (IntVar var : {k_[root], r_[root]}) {
    formulas_.Add({formulas_.AtLeast(var, Formulas::Zero(), 0)});
    formulas_.Add({formulas_.AtMost(var, Formulas::Zero(), 0)});
  }
  if (!graph_.pins.empty()) return;
  for (const std::vector<int>& swap : swaps_)
    if (swap[root] != root) formulas_.Add({formulas_.AtLeast(k_[swap[root]], Formulas::Zero(), 0)});
}

Clause Model::Different(const Placement& p) {
  Clause clause;
  const int n = static_cast<int>(graph_.ops.size());
  for (int v = 0; v < n; ++v)
    for (int u = 0; u < v; ++u) {
      if (graph_.ops[u].routed || graph_.ops[v].routed) continue;
      const Lit same = Same(u, v);
      clause.push_back(p.group[u] == p.group[v] ? ~same : same);
    }
  // As seen from the first user w of a unit: does u come before v? It does if at least two of
  // w < u, u < v and v < w hold.
  for (size_t f = 0; f < graph_.units.size(); ++f) {
    if (graph_.units[f].fluid || graph_.units[f].capacity != 1) continue;
    std::vector<int> users;
    for (int v = 0; v < n; ++v)
      for (const UnitUse& use : graph_.ops[v].uses)
        if (use.unit == static_cast<int>(f) && use.cycles > 0 && !graph_.ops[v].routed)
          users.push_back(v);
    for (size_t i = 1; i < users.size(); ++i)
      for (size_t j = 1; j < i; ++j) {
        const int w = users[0], u = users[j], v = users[i];
        auto from_w = [&](int op) { return FloorMod(p.cycle[op] - p.cycle[w], ii_); };
        const bool is = from_w(u) < from_w(v);
        const Lit other = formulas_.NewBool();
        const Lit is_not[] = {OrderOf(w, u), OrderOf(u, v), OrderOf(v, w)};
        for (int k = 0; k < 3; ++k) {
          const Lit a = is_not[k], b = is_not[(k + 1) % 3];
          formulas_.Add({~other, is ? ~a : a, is ? ~b : b});
        }
        clause.push_back(other);
      }
  }
  return clause;
}

std::vector<std::vector<int>> SliceSwaps(const Graph& graph) {
  const int n = static_cast<int>(graph.ops.size());
  std::map<int, std::vector<int>> slices;
  for (int v = 0; v < n; ++v)
    if (graph.ops[v].slice >= 0) slices[graph.ops[v].slice].push_back(v);
  std::vector<std::vector<int>> swaps;
  if (slices.size() < 2) return swaps;
  auto cost = [&](int v) {
    const GraphOp& op = graph.ops[v];
    std::vector<int64_t> c = {
        op.issue,        op.latency,          op.warps,    op.regs, op.smem_bytes,
        op.tmem_columns, op.variable_latency, op.streaming};
    for (const UnitUse& use : op.uses) c.push_back(use.unit), c.push_back(use.cycles);
    c.push_back(op.part.empty() ? 0 : 1);
    c.push_back(op.routed ? 1 : 0);
    return c;
  };
  using Row = std::tuple<int, int, int, int64_t, int64_t, int64_t, int64_t, bool, int, int>;
  auto row = [](const GraphEdge& e, auto&& image) {
    return Row(image(e.from), image(e.to), static_cast<int>(e.kind), e.delay, e.distance,
               e.transfer, e.hold, e.crossable, e.HasRoute() ? image(e.store) : -1,
               e.HasRoute() ? image(e.load) : -1);
  };
  std::multiset<Row> rows;
  for (const GraphEdge& e : graph.edges) rows.insert(row(e, [](int v) { return v; }));
  const std::vector<int>& first = slices.begin()->second;
  for (auto it = std::next(slices.begin()); it != slices.end(); ++it) {
    if (it->second.size() != first.size()) continue;
    std::vector<int> map(n);
    for (int v = 0; v < n; ++v) map[v] = v;
    bool alike = true;
    for (size_t i = 0; i < first.size(); ++i) {
      map[first[i]] = it->second[i];
      map[it->second[i]] = first[i];
      alike = alike && cost(first[i]) == cost(it->second[i]);
    }
    const auto apart = [&](int a, int b) {  // who may not share a role with whom
      return !graph.ops[a].part.empty() && graph.ops[a].part == graph.ops[b].part;
    };
    for (int v = 1; v < n; ++v)
      for (int u = 0; u < v; ++u) alike = alike && apart(u, v) == apart(map[u], map[v]);
    std::multiset<Row> images;
    for (const GraphEdge& e : graph.edges) images.insert(row(e, [&](int v) { return map[v]; }));
    if (alike && images == rows) swaps.push_back(std::move(map));
  }
  return swaps;
}

}  // namespace tilec::scheduler
