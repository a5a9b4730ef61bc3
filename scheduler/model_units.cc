// Laws of what ops take from each other: instances of the machine's units, and the one instruction
// stream of a role. Both are arcs on a circle of II slots that may not meet, or not too many of
// them at once.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>

#include "scheduler/model.h"

namespace tilec::scheduler {

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

Model::UnitUsers Model::UsersOf(int unit) const {
  UnitUsers found;
  for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v) {
    std::map<int64_t, int64_t> uses;
    for (const UnitUse& use : graph_.ops[v].uses)
      if (use.unit == unit && use.cycles > 0) {
        if (absent_[v] == formulas_.False())
          found.always += use.cycles / ii_;
        else
          found.sometimes = found.sometimes || use.cycles >= ii_;
        if (use.cycles % ii_ > 0) ++uses[use.cycles % ii_];
        if (found.ops.empty() || found.ops.back() != v) found.ops.push_back(v);
      }
    for (const auto& [cycles, instances] : uses) {
      found.users.push_back({v, cycles, instances});
      found.together += instances;
    }
  }
  return found;
}

// A fluid unit has no instances: the cycles of a period are all that counts.
void Model::AddFluidUnit(int unit, const std::vector<int>& ops) {
  const Unit& of = graph_.units[unit];
  int64_t busy = 0;
  std::vector<std::pair<Lit, int64_t>> terms;
  for (int v = 0; v < static_cast<int>(graph_.ops.size()); ++v)
    for (const UnitUse& use : graph_.ops[v].uses)
      if (use.unit == unit) {
        busy += use.cycles;
        terms.emplace_back(~absent_[v], use.cycles);
      }
  if (busy > of.capacity * ii_)
    formulas_.AddWeighted(
        GuardFor(Law::kUnit, fmt::format("{} cycles of unit {} in a period", busy, of.name), ops),
        std::move(terms), of.capacity * ii_);
}

// Count at every issue: the largest overlap of arcs on a circle is at the start of one.
void Model::CountAtIssues(Lit guard, int unit, const UnitUsers& of) {
  for (int e : of.ops) {
    std::vector<std::pair<Lit, int64_t>> terms;
    for (const UnitUser& user : of.users) {
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
    for (int v : of.ops)
      for (const UnitUse& use : graph_.ops[v].uses)
        if (use.unit == unit && !(absent_[v] == formulas_.False()))
          terms.emplace_back(~absent_[v], use.cycles / ii_);
    formulas_.AddWeighted(guard, std::move(terms), graph_.units[unit].capacity - of.always);
  }
}

void Model::AddUnits() {
  for (int f = 0; f < static_cast<int>(graph_.units.size()); ++f) {
    const UnitUsers of = UsersOf(f);
    if (graph_.units[f].fluid) {
      AddFluidUnit(f, of.ops);
      continue;
    }
    const int64_t capacity = graph_.units[f].capacity - of.always;
    if (of.together <= capacity && !of.sometimes) continue;
    const Lit guard = GuardFor(
        Law::kUnit, fmt::format("{} of unit {}", graph_.units[f].capacity, graph_.units[f].name),
        of.ops);
    const std::vector<UnitUser>& users = of.users;
    if (capacity == 1 && !of.sometimes && users.size() == of.ops.size() &&
        of.together == std::ssize(users)) {
      for (size_t i = 0; i < users.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          AddExclusion(guard, {absent_[users[j].op], absent_[users[i].op]}, users[j].op,
                       users[i].op, users[j].cycles, users[i].cycles);
      continue;
    }
    CountAtIssues(guard, f, of);
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

}  // namespace tilec::scheduler
