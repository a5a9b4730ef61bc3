// SPDX-License-Identifier: Apache-2.0
#include "scheduler/role_guess.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "ir/event_graph.h"
#include "scheduler/objective.h"
#include "scheduler/role_sets.h"
#include "scheduler/routes.h"

namespace tilec::scheduler {

namespace {

constexpr size_t kMostGuesses = 48;

using Parts = std::vector<std::vector<int>>;  // of ops of one width, in order of their first op

Parts Sorted(Parts parts) {
  for (std::vector<int>& part : parts) std::sort(part.begin(), part.end());
  std::sort(parts.begin(), parts.end());
  return parts;
}

class Guesser {
 public:
  Guesser(const Graph& graph, const SolveOptions& options, int64_t comfortable)
      : g_(graph), options_(options), comfortable_(comfortable), sets_(graph) {
    if (!options.cross_role_transfers)
      for (const GraphEdge& e : graph.edges)
        if (e.kind == EdgeKind::kRegister && !graph.ops[e.from].variable_latency &&
            graph.ops[e.from].warps == graph.ops[e.to].warps)
          sets_.Join(e.from, e.to);
  }

  std::vector<RoleGuess> Run() {
    std::map<int, std::vector<int>, std::greater<>> by_width;
    bool load = false;
    for (int v = 0; v < static_cast<int>(g_.ops.size()); ++v) {
      if (g_.ops[v].variable_latency)
        load = true;
      else
        by_width[g_.ops[v].warps].push_back(v);
    }
    std::vector<std::pair<int, std::vector<Parts>>> widths;
    for (const auto& [width, ops] : by_width) {
      const int most =
          static_cast<int>((g_.machine.max_warps - (load ? LoadWarps(g_) : 0)) / width);
      if (most < 1) return {};
      widths.emplace_back(width, Divisions(ops, most));
    }
    std::vector<RoleGuess> guesses;
    std::vector<const Parts*> chosen(widths.size(), nullptr);
    std::function<void(size_t)> choose = [&](size_t i) {
      if (i < widths.size()) {
        for (const Parts& parts : widths[i].second) {
          chosen[i] = &parts;
          choose(i + 1);
        }
        return;
      }
      RoleGuess guess;
      guess.offer.load = load;
      guess.group.assign(g_.ops.size(), 0);
      int warps = load ? LoadWarps(g_) : 0;
      for (size_t w = 0; w < widths.size(); ++w)
        for (const std::vector<int>& part : *chosen[w]) {
          for (int v : part) guess.group[v] = guess.offer.Groups();
          guess.offer.widths.push_back(widths[w].first);
          warps += widths[w].first;
        }
      const int roles = guess.offer.Groups();
      const int compute = static_cast<int>(guess.offer.widths.size());
      if (warps > g_.machine.max_warps) return;
      if (options_.max_roles > 0 && roles > options_.max_roles) return;
      if (options_.fixed_compute_roles && compute > *options_.fixed_compute_roles) return;
      Rate(&guess);
      guesses.push_back(std::move(guess));
    };
    choose(0);
    std::stable_sort(guesses.begin(), guesses.end(), [](const RoleGuess& a, const RoleGuess& b) {
      auto key = [](const Objective& o) {
        return std::tuple(o.compute_groups, o.warps, o.cross_bytes, o.waits);
      };
      return key(a.objective) < key(b.objective);
    });
    if (guesses.size() > kMostGuesses) guesses.resize(kMostGuesses);
    return guesses;
  }

 private:
  int64_t Issue(const std::vector<int>& part) const {
    int64_t sum = 0;
    for (int v : part) sum += g_.ops[v].routed ? 0 : g_.ops[v].issue;
    return sum;
  }

  // What a hand-off between two parts would cost.
  int64_t Affinity(const std::vector<int>& a, const std::vector<int>& b) const {
    int64_t sum = 0;
    for (const GraphEdge& e : g_.edges) {
      auto in = [](const std::vector<int>& part, int v) {
        return std::binary_search(part.begin(), part.end(), v);
      };
      if ((in(a, e.from) && in(b, e.to)) || (in(b, e.from) && in(a, e.to)))
        sum += 1 + e.transfer * (e.kind == EdgeKind::kRegister ? 4 : 1) +
               (e.HasRoute() ? g_.ops[e.store].issue + g_.ops[e.load].issue : 0);
    }
    return sum;
  }

  // Merges the best connected parts until one is left; every step with few enough parts is a guess.
  void Merge(Parts parts, int most, int64_t limit, std::set<Parts>* out) const {
    while (true) {
      if (static_cast<int>(parts.size()) <= most) out->insert(Sorted(parts));
      if (parts.size() <= 1) return;
      size_t x = 0, y = 0;
      std::tuple<bool, int64_t, int64_t> best;
      for (size_t i = 0; i < parts.size(); ++i)
        for (size_t j = 0; j < i; ++j) {
          const int64_t issue = Issue(parts[i]) + Issue(parts[j]);
          const std::tuple<bool, int64_t, int64_t> rank(issue <= limit,
                                                        Affinity(parts[i], parts[j]), -issue);
          if (x == y || rank > best) best = rank, x = i, y = j;
        }
      parts[y].insert(parts[y].end(), parts[x].begin(), parts[x].end());
      std::sort(parts[y].begin(), parts[y].end());
      parts.erase(parts.begin() + static_cast<int64_t>(x));
    }
  }

  std::vector<Parts> Divisions(const std::vector<int>& ops, int most) {
    std::set<Parts> out;
    std::map<int, std::vector<int>> atoms, slices;
    for (int v : ops) atoms[sets_.Find(v)].push_back(v);
    Parts single;
    for (const auto& [root, atom] : atoms) single.push_back(atom);
    single = Sorted(single);
    Merge(single, most, comfortable_, &out);
    Merge(single, most, INT64_MAX, &out);
    // One role per slice; what belongs to none joins the first.
    for (const std::vector<int>& atom : single) {
      int slice = -1;
      for (int v : atom) slice = std::max(slice, g_.ops[v].slice);
      std::vector<int>& part = slices[slice];
      part.insert(part.end(), atom.begin(), atom.end());
    }
    if (slices.size() > 1 && slices.begin()->first < 0) {
      std::vector<int> shared = slices.begin()->second;
      slices.erase(slices.begin());
      std::vector<int>& first = slices.begin()->second;
      first.insert(first.end(), shared.begin(), shared.end());
    }
    Parts by_slice;
    for (const auto& [slice, part] : slices) by_slice.push_back(part);
    for (std::vector<int>& part : by_slice) std::sort(part.begin(), part.end());
    Merge(by_slice, most, comfortable_, &out);
    return {out.begin(), out.end()};
  }

  void Rate(RoleGuess* guess) const {
    const Graph g = Routed(g_, guess->group);
    guess->objective = ObjectiveOf(
        g, options_, {{std::vector<int64_t>(g.ops.size(), 0), guess->group}, guess->offer, 1});
    guess->objective.stages = guess->objective.smem_bytes = 0;
    std::vector<int64_t> issue(guess->offer.Groups(), 0);
    for (size_t v = 0; v < g.ops.size(); ++v) issue[guess->group[v]] += g.ops[v].issue;
    for (int64_t sum : issue) guess->least_ii = std::max(guess->least_ii, sum);
    ir::EventGraph events;
    events.nodes = static_cast<int>(g.ops.size());
    for (const GraphEdge& e : g.edges)
      events.edges.push_back(
          {e.from, e.to, e.delay + (guess->group[e.from] != guess->group[e.to] ? e.transfer : 0),
           e.distance});
    const ir::Period period = ir::ExactPeriod(events);
    if (!period.circle.empty()) guess->least_ii = std::max(guess->least_ii, period.Ceil());
  }

  const Graph& g_;
  const SolveOptions& options_;
  const int64_t comfortable_;
  RoleSets sets_;
};

}  // namespace

std::vector<RoleGuess> GuessRoles(const Graph& graph, const SolveOptions& options,
                                  int64_t comfortable) {
  if (!options.warp_constraints) {
    RoleGuess one;
    one.offer.widths = {4};
    one.group.assign(graph.ops.size(), 0);
    return {one};
  }
  return Guesser(graph, options, comfortable).Run();
}

}  // namespace tilec::scheduler
