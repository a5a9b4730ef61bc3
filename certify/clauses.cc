// Plain and slow on purpose: every clause can be read against the comment above it.
//
// SPDX-License-Identifier: Apache-2.0
#include "certify/clauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

namespace tilec::certify {

std::string ToDimacs(const Cnf& cnf) {
  std::string out = fmt::format("p cnf {} {}\n", cnf.variables, cnf.clauses.size());
  for (const std::vector<Lit>& clause : cnf.clauses) {
    for (Lit lit : clause) fmt::format_to(std::back_inserter(out), "{} ", lit);
    out += "0\n";
  }
  return out;
}

bool Clauses::Room(int64_t clauses) {
  constexpr int64_t kMost = 12'000'000;
  too_large_ = too_large_ || clauses > kMost || std::ssize(cnf_.clauses) + clauses > kMost;
  return !too_large_;
}

int Clauses::NewInt(int64_t low, int64_t high) {
  ints_.push_back({low, high});
  return static_cast<int>(ints_.size()) - 1;
}

// [x >= a]
Lit Clauses::AtLeast(int x, int64_t a) {
  Integer& i = ints_[x];
  if (a <= i.low) return kTrue;
  if (a > i.high) return kFalse;
  if (i.first == 0) {
    if (!Room(i.high - i.low)) return kTrue;
    i.first = cnf_.variables + 1;
    cnf_.variables += static_cast<int>(i.high - i.low);
    for (int64_t b = i.low + 2; b <= i.high; ++b) {  // x >= b implies x >= b − 1
      const Lit here = i.first + static_cast<int>(b - i.low - 1);
      cnf_.clauses.push_back({-here, here - 1});
    }
  }
  return i.first + static_cast<int>(a - i.low - 1);
}

Lit Clauses::Difference(int x, int y, int64_t c) {
  if (x == y) return c <= 0 ? kTrue : kFalse;
  const Integer X = ints_[x], Y = ints_[y];
  if (X.low - Y.high >= c) return kTrue;
  if (X.high - Y.low < c) return kFalse;
  auto [it, fresh] = differences_.try_emplace({x, y, c}, 0);
  if (!fresh) return it->second;
  const Lit p = it->second = NewBool();
  if (!Room(Y.high - Y.low)) return p;
  // p and y >= a imply x >= a + c, for each value of y.
  for (int64_t a = Y.low; a <= Y.high; ++a) {
    const Lit least = AtLeast(x, a + c);
    if (least == kTrue) continue;
    Add({-p, -AtLeast(y, a), least});
    if (least == kFalse) break;  // y stays below a, and with it below everything larger
  }
  return p;
}

void Clauses::Add(const std::vector<Lit>& clause) {
  std::vector<Lit> kept;
  for (Lit lit : clause) {
    if (lit == kTrue) return;
    if (lit != kFalse) kept.push_back(lit);
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  for (Lit lit : kept)
    if (std::binary_search(kept.begin(), kept.end(), -lit)) return;
  cnf_.clauses.push_back(std::move(kept));
}

// A diagram over the terms, heaviest first: `room` is what the rest may weigh. The literal of a
// node, where true, makes the terms from there on weigh no more than its room.
void Clauses::AtMost(Lit unless, std::vector<std::pair<Lit, int64_t>> terms, int64_t bound) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<int64_t> rest(terms.size() + 1, 0);
  for (size_t i = terms.size(); i-- > 0;) rest[i] = rest[i + 1] + terms[i].second;
  std::map<std::pair<size_t, int64_t>, Lit> nodes;
  std::function<Lit(size_t, int64_t)> node = [&](size_t i, int64_t room) -> Lit {
    if (room < 0) return kFalse;
    if (rest[i] <= room) return kTrue;
    if (auto it = nodes.find({i, room}); it != nodes.end()) return it->second;
    const auto [lit, weight] = terms[i];
    Lit self;
    if (lit == kTrue || lit == kFalse || weight == 0) {
      self = node(i + 1, room - (lit == kTrue ? weight : 0));
    } else {
      const Lit with = node(i + 1, room - weight), without = node(i + 1, room);
      self = NewBool();
      Add({-self, without});
      Add({-self, -lit, with});
    }
    return nodes[{i, room}] = self;
  };
  Add({unless, node(0, bound)});
}

int64_t Clauses::Value(int x, const std::vector<bool>& assignment) const {
  const Integer& i = ints_[x];
  if (i.first == 0) return i.low;
  int64_t value = i.low;
  while (value < i.high && assignment[i.first + static_cast<int>(value - i.low)]) ++value;
  return value;
}

}  // namespace tilec::certify
