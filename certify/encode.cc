// Roles, time and what joins the two: dependences, units, issue, rings. Counted memories are in
// encode_lives.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include "certify/encode.h"

#include <algorithm>
#include <limits>

#include "support/expr.h"

namespace tilec::certify {

using scheduler::Graph;
using scheduler::GraphOp;
using scheduler::UnitUse;
using Kind = Law::Kind;

namespace {}  // namespace

Encoding::Encoding(const Graph& graph, int64_t ii, const std::vector<Law>& laws)
    : g_(graph),
      ii_(ii),
      n_(static_cast<int>(graph.ops.size())),
      laws_(laws),
      arcs_(Arcs(graph)),
      owner_(Owners(graph)),
      widths_(Widths(graph)) {
  AddRoles();
  AddRoutes();
  AddTimes();
  for (const Law& law : laws_) AddLaw(law);
}

bool Encoding::Has(Kind kind) const {
  return std::any_of(laws_.begin(), laws_.end(), [&](const Law& law) { return law.kind == kind; });
}

// Roles of one width are numbered by their first ops: role i holds no op before some op is in role
// i − 1. Every schedule can be numbered so.
void Encoding::AddRoles() {
  in_.resize(n_);
  for (const Width& width : widths_) {
    for (size_t i = 0; i < width.ops.size(); ++i) {
      const int v = width.ops[i];
      std::vector<Lit> some;
      for (int r = 0; r < width.roles; ++r) {
        const Lit lit = width.roles == 1 ? kTrue : clauses_.NewBool();
        in_[v].push_back({r, lit});
        some.push_back(lit);
        if (r == 0) continue;
        for (int q = 0; q < r; ++q) clauses_.Add({-lit, -in_[v][q].lit});
        std::vector<Lit> earlier = {-lit};
        for (size_t j = 0; j < i; ++j) earlier.push_back(in_[width.ops[j]][r - 1].lit);
        clauses_.Add(earlier);
      }
      clauses_.Add(some);
    }
  }
  for (int v = 0; v < n_; ++v)
    if (g_.ops[v].routed) in_[v] = in_[owner_[v]];
  AddWarps();
  if (Has(Kind::kIssueSum)) AddIssueSums();
}

void Encoding::AddWarps() {
  int64_t most = 0;
  std::vector<std::pair<Lit, int64_t>> terms;
  for (size_t w = 0; w < widths_.size(); ++w) most += int64_t{widths_[w].roles} * widths_[w].warps;
  const int64_t room = g_.machine.max_warps - LoadWarps(g_);
  if (most <= room) return;
  for (size_t w = 0; w < widths_.size(); ++w)
    for (int r = 0; r < widths_[w].roles; ++r) terms.emplace_back(Used(w, r), widths_[w].warps);
  clauses_.AtMost(kFalse, terms, room);
}

// A role issues for no more than a period, so the ops of a width need so many roles.
void Encoding::AddIssueSums() {
  int64_t load = 0;
  for (const GraphOp& op : g_.ops) load += op.variable_latency ? op.issue : 0;
  if (load > ii_) clauses_.Add({});
  for (size_t w = 0; w < widths_.size(); ++w) {
    int64_t issue = 0;
    for (int v : widths_[w].ops) issue += g_.ops[v].issue;
    const int64_t needed = (issue + ii_ - 1) / ii_;
    if (needed > widths_[w].roles)
      clauses_.Add({});
    else if (needed > 1)
      clauses_.Add({Used(w, static_cast<int>(needed) - 1)});
  }
}

Lit Encoding::Used(size_t width, int role) {
  auto [it, fresh] = used_.try_emplace({width, role}, 0);
  if (!fresh) return it->second;
  if (role == 0) return it->second = kTrue;  // a width is that of some op
  const Lit used = it->second = clauses_.NewBool();
  std::vector<Lit> some = {-used};
  for (int v : widths_[width].ops) {
    clauses_.Add({used, -in_[v][role].lit});
    some.push_back(in_[v][role].lit);
  }
  clauses_.Add(some);
  return used;
}

Lit Encoding::Same(int a, int b) {
  const int u = std::min(owner_[a], owner_[b]), v = std::max(owner_[a], owner_[b]);
  const GraphOp &x = g_.ops[u], &y = g_.ops[v];
  if (u == v) return kTrue;
  if (x.variable_latency || y.variable_latency)
    return x.variable_latency && y.variable_latency ? kTrue : kFalse;
  if (x.warps != y.warps) return kFalse;
  if (in_[u].size() <= 1) return kTrue;
  auto [it, fresh] = same_.try_emplace({u, v}, 0);
  if (!fresh) return it->second;
  const Lit same = it->second = clauses_.NewBool();
  for (size_t r = 0; r < in_[u].size(); ++r) {
    const Lit p = in_[u][r].lit, q = in_[v][r].lit;
    clauses_.Add({same, -p, -q});
    clauses_.Add({-same, -p, q});
    clauses_.Add({-same, p, -q});
  }
  return same;
}

// A load exists where the ends of its edge are apart, a store where those of any of its edges are.
void Encoding::AddRoutes() {
  absent_.assign(n_, kFalse);
  std::map<int, std::vector<Lit>> together;
  for (const scheduler::GraphEdge& e : g_.edges) {
    if (e.store < 0) continue;
    absent_[e.load] = Same(e.from, e.to);
    together[e.store].push_back(Same(e.from, e.to));
  }
  for (const auto& [store, all] : together) {
    const Lit absent = absent_[store] = clauses_.NewBool();
    std::vector<Lit> some = {absent};
    for (Lit lit : all) {
      clauses_.Add({-absent, lit});
      some.push_back(-lit);
    }
    clauses_.Add(some);
  }
}

void Encoding::AddTimes() {
  const int64_t reach = StageReach(g_, ii_);
  const bool pinned = PinsTime(g_);
  int root = -1;
  int64_t most = -1;
  for (int v = 0; v < n_ && !pinned; ++v) {
    if (g_.ops[v].routed || g_.ops[v].variable_latency) continue;
    for (const UnitUse& use : g_.ops[v].uses)
      if (use.cycles > most) most = use.cycles, root = v;
  }
  if (root < 0 && !pinned) root = 0;
  for (int v = 0; v < n_; ++v) {
    stage_.push_back(v == root ? clauses_.NewInt(0, 0)
                               : clauses_.NewInt(pinned ? 0 : -reach, reach));
    slot_.push_back(clauses_.NewInt(0, v == root ? 0 : ii_ - 1));
  }
}

// With c = m·II + ρ and slots less than II apart: stages m apart need slots ρ apart, stages m + 1
// apart need slots ρ − II apart, more than that is enough.
void Encoding::Apart(std::vector<Lit> unless, int x, int y, int64_t c) {
  const int64_t m = FloorDiv(c, ii_), rho = c - m * ii_;
  auto stages = [&](int64_t by) { return clauses_.Difference(stage_[x], stage_[y], by); };
  auto slots = [&](int64_t by) { return clauses_.Difference(slot_[x], slot_[y], by); };
  auto add = [&](std::initializer_list<Lit> more) {
    std::vector<Lit> clause = unless;
    clause.insert(clause.end(), more);
    clauses_.Add(clause);
  };
  if (std::find(unless.begin(), unless.end(), kTrue) != unless.end()) return;
  if (x == y) {
    if (c > 0) add({});
    return;
  }
  add({stages(m)});
  add({stages(m + 1), slots(rho)});
  if (rho > 1) add({stages(m + 2), slots(rho - ii_)});
}

Lit Encoding::Off(const Arc& arc) {
  switch (arc.when) {
    case When::kAlways: return kFalse;
    case When::kTogether: return -Same(arc.first, arc.second);
    case When::kApart: return Same(arc.first, arc.second);
  }
  return kFalse;
}

void Encoding::AddLaw(const Law& law) {
  switch (law.kind) {
    case Kind::kApart: return clauses_.Add({-Same(law.index, law.other)});
    case Kind::kDependence:
    case Kind::kTransfer: {
      const Arc& arc = arcs_[law.index];
      const bool always = law.kind == Kind::kDependence || arc.when != When::kAlways;
      return Apart({Off(arc), always ? kFalse : Same(arc.from, arc.to)}, arc.to, arc.from,
                   arc.delay + (always ? 0 : arc.transfer) - arc.distance * ii_);
    }
    case Kind::kCarriedRole:
    case Kind::kSameRole: return clauses_.Add({Same(arcs_[law.index].from, arcs_[law.index].to)});
    case Kind::kUnit: return AddUnit(law.index);
    case Kind::kIssue: return AddIssue();
    case Kind::kRegisters: return AddAccumulators();
    case Kind::kSmem: return AddSmem();
    case Kind::kPinDepth: {
      const Graph::Pin& pin = g_.pins[law.index];
      return clauses_.Add({RingWithin(law.ops[0], pin.depth)});
    }
    case Kind::kPinCycle:
    case Kind::kPinStage: return AddPinTime(law);
    case Kind::kPinRole: return clauses_.Add({Same(law.ops[0], law.ops[1])});
    case Kind::kRegisterPool:  // by covers
    case Kind::kTmem:
    case Kind::kIssueSum:  // with the roles
    case Kind::kRoles: return;
  }
}

void Encoding::AddPinTime(const Law& law) {
  const Graph::Pin& pin = g_.pins[law.index];
  auto fix = [&](int x, int64_t value) {
    const int constant = clauses_.NewInt(value, value);
    clauses_.Add({clauses_.Difference(x, constant, 0)});
    clauses_.Add({clauses_.Difference(constant, x, 0)});
  };
  const int v = law.ops[0];
  if (law.kind == Kind::kPinStage) return fix(stage_[v], pin.stage);
  fix(stage_[v], pin.cycle / ii_);
  fix(slot_[v], pin.cycle % ii_);
}

// u's slot comes before v's: [slot(u), slot(u) + du) ends before v's begins, and v's, which may
// wrap, before u's next.
void Encoding::Exclude(const Exclusive& pair) {
  auto [unless, u, v, du, dv] = pair;
  if (du == 0 || dv == 0) return;
  auto add = [&](Lit condition, int x, int y, int64_t c) {
    std::vector<Lit> clause = unless;
    clause.push_back(-condition);
    clause.push_back(clauses_.Difference(slot_[x], slot_[y], c));
    clauses_.Add(clause);
  };
  const Lit before = Before(u, v);
  add(before, v, u, du);
  add(before, u, v, dv - ii_);
  add(-before, u, v, dv);
  add(-before, v, u, du - ii_);
}

Lit Encoding::Before(int u, int v) {
  if (u > v) return -Before(v, u);
  auto [it, fresh] = before_.try_emplace({u, v}, 0);
  if (fresh) it->second = clauses_.NewBool();
  return it->second;
}

void Encoding::AddUnit(int unit) {
  const int64_t capacity = g_.units[unit].capacity;
  std::vector<std::pair<int, int64_t>> users;
  std::vector<std::pair<Lit, int64_t>> busy;
  bool short_ones = true;
  for (int v = 0; v < n_; ++v)
    for (const UnitUse& use : g_.ops[v].uses) {
      if (use.unit != unit || use.cycles == 0) continue;
      users.emplace_back(v, use.cycles);
      busy.emplace_back(-absent_[v], use.cycles);
      short_ones = short_ones && use.cycles < ii_;
    }
  if (g_.units[unit].fluid) return clauses_.AtMost(kFalse, busy, capacity * ii_);
  if (capacity > 1 || !short_ones) return CountAtIssues(unit);
  for (size_t i = 0; i < users.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      Exclude({{absent_[users[i].first], absent_[users[j].first]},
               users[j].first,
               users[i].first,
               users[j].second,
               users[i].second});
}

// Arcs on a circle overlap most where one of them begins. Whole periods count once each, always.
void Encoding::CountAtIssues(int unit) {
  for (int e = 0; e < n_; ++e) {
    std::vector<std::pair<Lit, int64_t>> terms;
    bool uses = false;
    for (int v = 0; v < n_; ++v)
      for (const UnitUse& use : g_.ops[v].uses) {
        if (use.unit != unit || use.cycles == 0) continue;
        uses = uses || v == e;
        const int64_t rest = use.cycles % ii_;
        terms.emplace_back(-absent_[v], use.cycles / ii_);
        if (rest == 0) continue;
        if (v == e) {
          terms.emplace_back(-absent_[v], 1);
          continue;
        }
        // Inside: slot(e) − slot(v) is less than `rest` modulo II.
        const Lit inside = clauses_.NewBool();
        clauses_.Add({absent_[v], inside, clauses_.Difference(slot_[e], slot_[v], rest - ii_)});
        clauses_.Add({absent_[v], inside, clauses_.Difference(slot_[e], slot_[v], rest),
                      clauses_.Difference(slot_[v], slot_[e], 1)});
        terms.emplace_back(inside, 1);
      }
    if (uses) clauses_.AtMost(absent_[e], terms, g_.units[unit].capacity);
  }
}

void Encoding::AddIssue() {
  for (int v = 0; v < n_; ++v) {
    if (g_.ops[v].issue > ii_) clauses_.Add({absent_[v]});
    for (int u = 0; u < v; ++u)
      if (Same(u, v) != kFalse)
        Exclude({{-Same(u, v), absent_[u], absent_[v]}, u, v, g_.ops[u].issue, g_.ops[v].issue});
  }
}

Placement Encoding::Decode(const std::vector<bool>& assignment) const {
  Placement p;
  auto is = [&](Lit lit) { return lit > 0 ? assignment[lit] : !assignment[-lit]; };
  for (int v = 0; v < n_; ++v) {
    p.cycle.push_back(clauses_.Value(stage_[v], assignment) * ii_ +
                      clauses_.Value(slot_[v], assignment));
    int role = g_.ops[owner_[v]].variable_latency ? -1 : 0;
    for (const Member& member : in_[v])
      if (is(member.lit)) role = member.role;
    p.role.push_back(role);
    p.present.push_back(!is(absent_[v]));
  }
  return p;
}

}  // namespace tilec::certify
