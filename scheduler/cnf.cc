// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "scheduler/routes.h"

namespace tilec::scheduler {

std::string ToDimacs(const Cnf& cnf) {
  std::string out = fmt::format("p cnf {} {}\n", cnf.variables, cnf.clauses.size());
  for (const std::vector<int>& clause : cnf.clauses) {
    for (int lit : clause) fmt::format_to(std::back_inserter(out), "{} ", lit);
    out += "0\n";
  }
  return out;
}

namespace {

class Encoder {
 public:
  Encoder(const Formulas& formulas, const std::vector<std::pair<int64_t, int64_t>>& range)
      : formulas_(formulas), range_(range), first_(formulas.num_ints(), 0) {}

  Cnf Run(const std::vector<Lit>& guards, const std::vector<Lit>& assumed) {
    std::vector<bool> is_guard(formulas_.num_bools(), false), on(formulas_.num_bools(), false);
    for (Lit lit : guards) is_guard[lit.var()] = true;
    for (Lit lit : assumed) on[lit.var()] = true;
    for (const Clause& clause : formulas_.clauses()) {
      const bool kept = std::all_of(clause.begin(), clause.end(), [&](Lit lit) {
        return !is_guard[lit.var()] || !lit.negated() || on[lit.var()];
      });
      if (!kept) continue;
      std::vector<int> out;
      for (Lit lit : clause) {
        if (is_guard[lit.var()] && lit.negated()) continue;  // the guard is assumed
        out.push_back(Literal(lit));
      }
      cnf_.clauses.push_back(std::move(out));
    }
    return std::move(cnf_);
  }

 private:
  int Literal(Lit lit) {
    const Atom& atom = formulas_.atoms()[lit.var()];
    if (!atom.is_difference()) {
      auto [it, fresh] = plain_.try_emplace(lit.var(), 0);
      if (fresh) it->second = ++cnf_.variables;
      return lit.negated() ? -it->second : it->second;
    }
    auto [it, fresh] = atoms_.try_emplace(lit.code, 0);
    if (fresh) {
      it->second = ++cnf_.variables;
      // One direction is enough: an atom is only ever needed true, its negation is another atom.
      if (lit.negated())
        Imply(it->second, atom.y, atom.x, 1 - atom.c);
      else
        Imply(it->second, atom.x, atom.y, atom.c);
    }
    return it->second;
  }

  // p → x − y >= c
  void Imply(int p, int x, int y, int64_t c) {
    const auto [low_x, high_x] = range_[x];
    const auto [low_y, high_y] = range_[y];
    // y >= a → x >= a + c, for every a at which that says something new.
    for (int64_t a = std::max(low_y, low_x - c + 1); a <= high_y; ++a) {
      if (a + c > high_x) {
        Add({-p, -AtLeast(y, a)});
        break;
      }
      Add({-p, -AtLeast(y, a), AtLeast(x, a + c)});
    }
  }

  // [x >= a] as a literal, 0-safe only inside Add: kTrue and kFalse are handled there.
  int AtLeast(int x, int64_t a) {
    const auto [low, high] = range_[x];
    if (a <= low) return kTrue;
    if (a > high) return -kTrue;
    if (first_[x] == 0) {
      first_[x] = cnf_.variables + 1;
      cnf_.variables += static_cast<int>(high - low);
      for (int64_t b = low + 2; b <= high; ++b) cnf_.clauses.push_back({-Bit(x, b), Bit(x, b - 1)});
    }
    return Bit(x, a);
  }
  int Bit(int x, int64_t a) const { return first_[x] + static_cast<int>(a - range_[x].first - 1); }

  void Add(std::initializer_list<int> lits) {
    std::vector<int> clause;
    for (int lit : lits) {
      if (lit == kTrue) return;
      if (lit != -kTrue) clause.push_back(lit);
    }
    cnf_.clauses.push_back(std::move(clause));
  }

  static constexpr int kTrue = 1 << 30;
  const Formulas& formulas_;
  const std::vector<std::pair<int64_t, int64_t>>& range_;
  std::vector<int> first_;
  std::map<int, int> plain_, atoms_;
  Cnf cnf_;
};

}  // namespace

Cnf OrderEncode(const Formulas& formulas, const std::vector<Lit>& guards,
                const std::vector<Lit>& assumed,
                const std::vector<std::pair<int64_t, int64_t>>& range) {
  return Encoder(formulas, range).Run(guards, assumed);
}

int64_t StageSpread(const Graph& graph, int64_t ii) {
  int64_t gap = ii;
  for (const RoutedEdge& e : AllEdges(graph))
    gap = std::max({gap, e.edge.delay + e.edge.transfer + ii, e.edge.distance * ii});
  const int64_t ops = static_cast<int64_t>(graph.ops.size());
  return (ops * (gap + 1) + ii - 1) / ii + 1;
}

}  // namespace tilec::scheduler
