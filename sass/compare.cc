// Loops of the PTX beside those of the SASS, and what stands under each group of products.
//
// Loops belong together whose products are the same in order (shape, operands that lie transposed),
// from some product on: ptxas may turn a loop, so that another product is its first, change the
// order of its versions, or write its body several times. Where several starts or loops fit, what
// stands between the products decides.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

#include "sass/internal.h"

namespace tilec::sass {

namespace {

using Counts = std::array<int, kKinds>;

// A loop with its products in the order of an iteration.
struct Turn {
  const Listing& listing;
  const std::vector<std::set<int>>& in_flight;
  std::vector<int> code;      // instructions
  std::vector<int> products;  // instructions
  Counts all = {};

  Turn(const Listing& l, const std::vector<std::set<int>>& flight, const Loop& loop)
      : listing(l), in_flight(flight) {
    for (int b : loop.blocks)
      for (int i = l.blocks[size_t(b)].begin; i < l.blocks[size_t(b)].end; ++i) {
        code.push_back(i);
        const Instr& in = l.code[size_t(i)];
        if (in.product) products.push_back(i);
        if (in.kind >= 0) ++all[size_t(in.kind)];
      }
  }

  const Instr& At(int i) const { return listing.code[size_t(i)]; }

  // What stands under any of these products, by kind; they themselves do not.
  Counts Under(const std::set<int>& group) const {
    Counts counts = {};
    for (int i : code) {
      const int kind = At(i).kind;
      if (kind < 0 || group.count(i)) continue;
      const std::set<int>& flight = in_flight[size_t(i)];
      if (std::any_of(flight.begin(), flight.end(), [&](int p) { return group.count(p) > 0; }))
        ++counts[size_t(kind)];
    }
    return counts;
  }

  // What stands behind each product until the next, by kind; selections last.
  std::vector<std::array<int, kKinds + 1>> Between() const {
    std::vector<std::array<int, kKinds + 1>> between(products.size());
    size_t next = 0;
    for (int i : code) {
      const Instr& in = At(i);
      if (in.product) ++next;
      if (next == 0) continue;
      if (in.kind >= 0) ++between[next - 1][size_t(in.kind)];
      if (in.select) ++between[next - 1][kKinds];
    }
    return between;
  }

  // What stands in front of the first of these products, by kind.
  Counts InFrontOf(const std::set<int>& group) const {
    Counts counts = {};
    for (int i : code) {
      if (group.count(i)) break;
      if (At(i).kind >= 0) ++counts[size_t(At(i).kind)];
    }
    return counts;
  }

  int Waits() const {
    return static_cast<int>(
        std::count_if(code.begin(), code.end(), [&](int i) { return At(i).wait >= 0; }));
  }
};

// The products of a loop by the commit that ends their group, in order.
std::vector<std::vector<size_t>> Groups(const Turn& turn) {
  std::vector<std::vector<size_t>> groups(1);
  size_t next = 0;
  for (int i : turn.code) {
    if (next < turn.products.size() && turn.products[next] == i) groups.back().push_back(next++);
    if (turn.At(i).commit && !groups.back().empty()) groups.emplace_back();
  }
  if (groups.back().empty()) groups.pop_back();
  return groups;
}

// How a loop of the SASS may be one of the PTX.
struct Match {
  int first = -1;  // which product of the PTX comes first; −1: its products are others
  int copies = 1;  // of the PTX's products that it has
  // What stands between products, in other places than in the PTX: of what keeps its side of a
  // wait, and of all.
  std::pair<int, int> apart;
};

Match MatchOf(const Turn& ptx, const Turn& sass) {
  Match best;
  const size_t n = ptx.products.size();
  if (n == 0 || sass.products.size() % n != 0 || sass.products.empty()) return best;
  best.copies = static_cast<int>(sass.products.size() / n);
  const auto wanted = ptx.Between(), seen = sass.Between();
  for (size_t first = 0; first < n; ++first) {
    bool same = true;
    std::pair<int, int> apart;
    for (size_t p = 0; same && p < sass.products.size(); ++p) {
      const size_t q = (first + p) % n;
      const Instr &is = sass.At(sass.products[p]), &was = ptx.At(ptx.products[q]);
      same = is.shape == was.shape && is.turned == was.turned;
      for (size_t kind = 0; kind < seen[p].size(); ++kind) {
        const int by = std::abs(seen[p][kind] - wanted[q][kind]);
        apart.second += by;
        if (kind < kKinds && KeepsItsSide(static_cast<Kind>(kind))) apart.first += by;
      }
    }
    if (!same || (best.first >= 0 && apart >= best.apart)) continue;
    best.first = static_cast<int>(first);
    best.apart = apart;
  }
  return best;
}

bool IsRead(Kind kind) {
  return kind == Kind::kSharedRead || kind == Kind::kGlobalRead || kind == Kind::kAsyncCopy ||
         kind == Kind::kCopy;
}

LoopReport Beside(const Turn& ptx, const Turn* sass, int first, int copies) {
  LoopReport report;
  report.found = sass != nullptr;
  report.ptx_instructions = static_cast<int>(ptx.code.size());
  report.waits = ptx.Waits();
  for (int i : ptx.code)
    if (report.source == 0) report.source = ptx.At(i).source;
  if (sass) {
    report.sass_instructions = static_cast<int>(sass->code.size());
    report.sass_waits = sass->Waits();
    for (int i : sass->code) {
      report.spills += sass->At(i).spill;
      report.idle += sass->in_flight[size_t(i)].empty() && !sass->At(i).product;
    }
  }
  const size_t n = ptx.products.size();
  for (const std::vector<size_t>& members : Groups(ptx)) {
    Group group;
    group.products = static_cast<int>(members.size());
    std::set<int> issued, found;
    for (size_t p : members) {
      const Instr& product = ptx.At(ptx.products[p]);
      issued.insert(ptx.products[p]);
      if (group.shape.empty()) group.shape = product.shape, group.source = product.source;
    }
    if (sass)
      for (size_t p = 0; p < sass->products.size(); ++p)
        if (std::count(members.begin(), members.end(), (size_t(first) + p) % n))
          found.insert(sass->products[p]);
    const Counts claimed = ptx.Under(issued);
    const Counts standing = sass ? sass->Under(found) : Counts{};
    const Counts before = ptx.InFrontOf(issued);
    const Counts in_front = sass ? sass->InFrontOf(found) : Counts{};
    for (size_t kind = 0; kind < claimed.size(); ++kind) {
      Overlap o;
      o.kind = static_cast<Kind>(kind);
      o.claimed = claimed[kind];
      o.in_ptx = ptx.all[kind];
      o.in_sass = sass ? sass->all[kind] : 0;
      o.found = standing[kind];
      o.expected = std::min(o.claimed * copies, o.in_sass);
      if (o.expected == 0) continue;
      const int raised = IsRead(o.kind) ? in_front[kind] - before[kind] * copies : 0;
      o.verdict = o.found >= o.expected            ? Verdict::kStands
                  : o.found + raised >= o.expected ? Verdict::kEarlier
                  : !KeepsItsSide(o.kind)          ? Verdict::kMoved
                  : o.found > 0                    ? Verdict::kPartly
                                                   : Verdict::kLost;
      group.overlaps.push_back(o);
    }
    report.groups.push_back(std::move(group));
  }
  for (Group& group : report.groups)
    for (const Group& other : report.groups) {
      if (group.products != other.products || group.shape != other.shape ||
          group.source != other.source)
        continue;
      group.versions += &group != &other;
      group.version += &other < &group;
    }
  return report;
}

}  // namespace

bool ReadsFromRegisters(const Listing& ptx) {
  return std::any_of(ptx.code.begin(), ptx.code.end(), [](const Instr& in) {
    return in.product && in.shape.find("RS") != std::string::npos;
  });
}

Report Compare(const Listing& ptx, const Listing& sass) {
  Report report;
  report.kernel = ptx.name;
  report.from_registers = ReadsFromRegisters(ptx);
  const std::vector<std::set<int>> in_ptx = InFlight(ptx), in_sass = InFlight(sass);
  std::vector<Turn> turns;
  for (const Loop& loop : sass.loops) turns.emplace_back(sass, in_sass, loop);
  std::vector<bool> taken(turns.size(), false);
  std::vector<Turn> own;
  for (const Loop& loop : ptx.loops) own.emplace_back(ptx, in_ptx, loop);
  std::vector<std::pair<const Turn*, Match>> found(own.size());
  // Those that are nearest first; one that has its products several times only where there is no
  // other.
  while (true) {
    size_t at = own.size(), with = 0;
    Match best;
    const auto cost = [](const Match& m) { return std::make_pair(m.copies != 1, m.apart); };
    for (size_t p = 0; p < own.size(); ++p)
      for (size_t s = 0; s < turns.size() && !found[p].first; ++s) {
        if (taken[s]) continue;
        const Match match = MatchOf(own[p], turns[s]);
        if (match.first < 0 || (at < own.size() && cost(match) >= cost(best))) continue;
        best = match, at = p, with = s;
      }
    if (at == own.size()) break;
    taken[with] = true;
    found[at] = {&turns[with], best};
  }
  for (size_t p = 0; p < own.size(); ++p)
    report.loops.push_back(
        Beside(own[p], found[p].first, found[p].second.first, found[p].second.copies));
  report.loops_besides = static_cast<int>(std::count(taken.begin(), taken.end(), false));
  for (const LoopReport& loop : report.loops)
    for (const Group& group : loop.groups)
      for (const Overlap& o : group.overlaps) {
        if (!KeepsItsSide(o.kind)) {
          ++report.free;
          report.moved += o.verdict == Verdict::kMoved;
          continue;
        }
        ++report.claims;
        report.standing += o.verdict == Verdict::kStands;
        report.earlier += o.verdict == Verdict::kEarlier;
        report.partly += o.verdict == Verdict::kPartly;
        report.lost += o.verdict == Verdict::kLost;
      }
  report.hazards = FindHazards(sass);
  report.unknown = sass.unknown;
  return report;
}

std::vector<Hazard> FindHazards(const Listing& sass) {
  std::vector<Hazard> hazards;
  const std::vector<std::set<int>> in_flight = InFlight(sass);
  for (size_t i = 0; i < sass.code.size(); ++i) {
    const Instr& in = sass.code[i];
    for (int p : in_flight[i]) {
      const Instr& product = sass.code[size_t(p)];
      const auto found = [&](Hazard::What what) {
        hazards.push_back({what, in.line, product.line, in.text, product.text});
      };
      if (in.writes.Meets(product.a)) found(Hazard::What::kOverwritesA);
      if (in.writes.Meets(product.d)) found(Hazard::What::kOverwritesD);
      // Products that add to one result follow each other in order; A is read like by anybody.
      const bool reads = std::any_of(in.reads.begin(), in.reads.end(),
                                     [&](const Registers& r) { return r.Meets(product.d); });
      if (reads || (in.product && in.a.Meets(product.d))) found(Hazard::What::kReadsD);
    }
  }
  return hazards;
}

}  // namespace tilec::sass
