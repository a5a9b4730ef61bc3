// SPDX-License-Identifier: Apache-2.0
#include "scheduler/formula.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace tilec::scheduler {

Formulas::Formulas() {
  true_ = NewBool();
  clauses_.push_back({true_});
}

Lit Formulas::NewBool() {
  atoms_.push_back({});
  return Lit{2 * static_cast<int>(atoms_.size() - 1)};
}

IntVar Formulas::NewInt() { return IntVar{num_ints_++}; }

Lit Formulas::AtLeast(IntVar x, IntVar y, int64_t c) {
  if (x == y) return c <= 0 ? True() : False();
  // Canonical: the smaller index first. x − y >= c is ¬(y − x >= 1 − c).
  const bool flip = x.index > y.index;
  const std::tuple<int, int, int64_t> key =
      flip ? std::tuple(y.index, x.index, 1 - c) : std::tuple(x.index, y.index, c);
  auto [it, fresh] = atom_index_.try_emplace(key, static_cast<int>(atoms_.size()));
  if (fresh) atoms_.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key)});
  const Lit lit{2 * it->second};
  return flip ? ~lit : lit;
}

void Formulas::Add(Clause clause) {
  std::sort(clause.begin(), clause.end());
  clause.erase(std::unique(clause.begin(), clause.end()), clause.end());
  Clause kept;
  for (size_t i = 0; i < clause.size(); ++i) {
    if (clause[i] == True()) return;
    if (clause[i] == False()) continue;
    if (i + 1 < clause.size() && clause[i + 1] == ~clause[i]) return;
    kept.push_back(clause[i]);
  }
  clauses_.push_back(std::move(kept));
}

void Formulas::Add(Lit guard, Clause clause) {
  clause.push_back(~guard);
  Add(std::move(clause));
}

void Formulas::AddWeighted(Lit guard, std::vector<std::pair<Lit, int64_t>> terms, int64_t bound) {
  int64_t base = 0;
  std::vector<std::pair<Lit, int64_t>> open;
  for (const auto& [lit, weight] : terms) {
    if (weight == 0 || lit == False()) continue;
    if (lit == True())
      base += weight;
    else
      open.emplace_back(lit, weight);
  }
  bound -= base;
  if (bound < 0) return Add(guard, {});
  std::stable_sort(open.begin(), open.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  int64_t gcd = 0;
  for (const auto& term : open) gcd = std::gcd(gcd, term.second);
  if (gcd > 1) {
    for (auto& term : open) term.second /= gcd;
    bound /= gcd;
  }
  std::vector<int64_t> rest(open.size() + 1, 0);
  for (size_t i = open.size(); i-- > 0;) rest[i] = rest[i + 1] + open[i].second;
  // node(i, room): true implies that terms i… weigh at most `room`.
  std::map<std::pair<size_t, int64_t>, Lit> nodes;
  std::function<Lit(size_t, int64_t)> node = [&](size_t i, int64_t room) -> Lit {
    if (room < 0) return False();
    if (rest[i] <= room) return True();
    if (auto it = nodes.find({i, room}); it != nodes.end()) return it->second;
    const Lit without = node(i + 1, room);
    const Lit with = node(i + 1, room - open[i].second);
    const Lit self = NewBool();
    Add({~self, without});
    Add({~self, ~open[i].first, with});
    nodes[{i, room}] = self;
    return self;
  };
  Add(guard, {node(0, bound)});
}

}  // namespace tilec::scheduler
