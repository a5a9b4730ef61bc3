// Why II is what it is: bounds with the numbers that add up to them, and refutations as sentences.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "explain/internal.h"
#include "scheduler/model.h"

namespace tilec::explain {

namespace {

using scheduler::Bound;
using scheduler::CoreItem;
using scheduler::Graph;
using scheduler::GraphEdge;
using scheduler::Law;

constexpr size_t kMostTerms = 6;

const char* SentenceOf(const std::string& law) {
#define LAW(name, id, sentence, source) \
  if (law == id) return sentence;
#include "scheduler/constraints.def"
#undef LAW
  return "";
}

// "QK0 512 + PV0 512", or where that would be long "4 × 391 (QK0 PV0 QK1 PV1) + …", largest first;
// the sum in *total.
std::string Shares(const Graph& graph, int unit, int64_t* total) {
  std::map<int64_t, std::vector<int>, std::greater<>> by_cycles;
  std::string each;
  size_t terms = 0;
  *total = 0;
  for (int v = 0; v < static_cast<int>(graph.ops.size()); ++v)
    for (const scheduler::UnitUse& use : graph.ops[v].uses) {
      if (use.unit != unit || use.cycles == 0) continue;
      *total += use.cycles;
      by_cycles[use.cycles].push_back(v);
      each += fmt::format("{}{} {}", ++terms > 1 ? " + " : "", graph.ops[v].name, use.cycles);
    }
  if (terms <= kMostTerms) return each;
  std::string text;
  for (const auto& [cycles, ops] : by_cycles)
    text += fmt::format("{}{} × {} ({})", text.empty() ? "" : " + ", ops.size(), cycles,
                        Names(graph, ops, " ", kMostTerms));
  return text;
}

std::string UnitText(const Graph& graph, int unit, int64_t ii) {
  int64_t total = 0;
  const std::string shares = Shares(graph, unit, &total);
  const scheduler::Unit& u = graph.units[unit];
  std::string text = fmt::format("unit {} has {} to do in an iteration ({})", u.name,
                                 Count(total, "cycle"), shares);
  const int64_t room = u.capacity * ii;
  if (ii > 0 && total > room)
    text += fmt::format(" and a period of {} offers {}", ii, room);
  else if (ii > 0 && !u.fluid)
    text +=
        fmt::format(", one op at a time{}; a period of {} offers {}",
                    u.capacity > 1 ? fmt::format(" on each of its {}", u.capacity) : "", ii, room);
  return text;
}

// "A → B → C: 568 + 290 cycles = 858".
std::string ChainText(const Graph& graph, const std::vector<int>& edges, bool circle) {
  std::string names = graph.ops[graph.edges[edges.front()].from].name, times;
  int64_t delay = 0, distance = 0;
  for (int i : edges) {
    const GraphEdge& edge = graph.edges[i];
    names +=
        fmt::format(" → {}{}", graph.ops[edge.to].name,
                    edge.distance == 0   ? ""
                    : edge.distance == 1 ? " of the next iteration"
                                         : fmt::format(" of {} iterations later", edge.distance));
    times += fmt::format("{}{}", times.empty() ? "" : " + ", edge.delay);
    delay += edge.delay;
    distance += edge.distance;
  }
  if (edges.size() > 1) times += fmt::format(" = {}", delay);
  std::string text = fmt::format("{} takes {} {}", names, times, delay == 1 ? "cycle" : "cycles");
  if (circle && distance > 1) text += fmt::format(" for {} iterations", distance);
  return text;
}

// The unit a core's text is about: the longest of the graph's names that stands in it as a word.
int UnitIn(const Graph& graph, const std::string& text) {
  int best = -1;
  for (int f = 0; f < static_cast<int>(graph.units.size()); ++f) {
    const std::string word = "unit " + graph.units[f].name;
    const size_t at = text.find(word);
    if (at == std::string::npos) continue;
    const size_t end = at + word.size();
    if (end < text.size() && text[end] != ' ') continue;
    if (best < 0 || graph.units[f].name.size() > graph.units[best].name.size()) best = f;
  }
  return best;
}

// The edge a dependence of a core is about; −1: not found.
int EdgeOf(const Graph& graph, const CoreItem& item, const std::set<int>& taken) {
  if (item.ops.size() != 2) return -1;
  for (int i = 0; i < static_cast<int>(graph.edges.size()); ++i) {
    const GraphEdge& edge = graph.edges[i];
    if (edge.from == item.ops[0] && edge.to == item.ops[1] && taken.count(i) == 0 &&
        item.text.find(fmt::format(": {} cycles", edge.delay)) != std::string::npos)
      return i;
  }
  return -1;
}

// Edges that follow each other, as chains, in the order of their first edge.
std::vector<std::vector<int>> Chains(const Graph& graph, std::vector<int> edges) {
  std::vector<std::vector<int>> chains;
  while (!edges.empty()) {
    std::vector<int> chain = {edges.front()};
    edges.erase(edges.begin());
    for (bool grown = true; grown;) {
      grown = false;
      for (size_t i = 0; i < edges.size() && !grown; ++i) {
        if (graph.edges[edges[i]].from == graph.edges[chain.back()].to)
          chain.push_back(edges[i]);
        else if (graph.edges[edges[i]].to == graph.edges[chain.front()].from)
          chain.insert(chain.begin(), edges[i]);
        else
          continue;
        edges.erase(edges.begin() + static_cast<int64_t>(i));
        grown = true;
      }
    }
    chains.push_back(std::move(chain));
  }
  return chains;
}

// The law as a sentence with its instances; instances of one law become one reason.
void Add(const CoreItem& item, std::vector<Reason>* reasons,
         std::map<std::string, size_t>* by_law) {
  const auto [at, first] = by_law->emplace(item.law, reasons->size());
  if (first) {
    const std::string sentence = SentenceOf(item.law);
    reasons->push_back({(sentence.empty() ? item.law : sentence) + ": " + item.text, item.ops});
    return;
  }
  Reason& reason = (*reasons)[at->second];
  reason.text += "; " + item.text;
  for (int v : item.ops)
    if (std::find(reason.ops.begin(), reason.ops.end(), v) == reason.ops.end())
      reason.ops.push_back(v);
}

std::string MoreThan(int64_t more, int64_t than) {
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(more) /
                                     static_cast<double>(std::max<int64_t>(1, than)));
}

void Judge(Explanation* e, const Proof& proof) {
  Verdict& v = e->verdict;
  const int64_t ii = e->schedule.ii;
  const Bound& best = e->bounds.front();
  v.lower_bound = std::max(best.ii, proof.lower_bound);
  const int64_t least = e->certificate ? e->certificate->ii : ii;
  const std::string why =
      proof.unlike.empty() ? " for the sake of its objective" : ", " + proof.unlike;
  const std::string longer = ii > least ? fmt::format("; this schedule takes {} ({} longer){}", ii,
                                                      MoreThan(ii - least, least), why)
                                        : "";
  if (v.lower_bound >= least) {
    v.kind = Verdict::Kind::kSmallest;
    v.text = fmt::format("II {} is the smallest possible{}", least, longer);
  } else {
    v.kind = proof.lower_bound > best.ii ? Verdict::Kind::kGap : Verdict::Kind::kUnproved;
    v.text = fmt::format(
        "II {} may not be the smallest: below {} nothing exists, {}…{} is open "
        "({}){}",
        least, v.lower_bound, v.lower_bound, least - 1,
        MoreThan(least - v.lower_bound, v.lower_bound), longer);
  }
  const bool by_core = e->certificate && e->certificate->proof == scheduler::Proof::kRefuted &&
                       !e->certificate->core.empty();
  if (by_core) {
    v.reasons = Shown(*e, Sentences(e->problem, e->certificate->core, least - 1));
    return;
  }
  // Every elementary bound that reaches the best one binds.
  for (const Bound& bound : e->bounds)
    if (bound.ii == best.ii) v.reasons.push_back({BoundText(e->graph, bound), bound.ops});
}

}  // namespace

std::string BoundText(const Graph& graph, const Bound& bound) {
  if (bound.kind == Bound::Kind::kUnit && bound.unit >= 0 &&
      bound.unit < static_cast<int>(graph.units.size()))
    return UnitText(graph, bound.unit, 0);
  if (bound.kind == Bound::Kind::kRecurrence && !bound.edges.empty())
    return "every iteration waits for the one before it: " + ChainText(graph, bound.edges, true);
  return bound.text;
}

std::vector<Reason> Sentences(const Graph& graph, const std::vector<CoreItem>& core, int64_t ii) {
  std::vector<Reason> reasons;
  std::map<std::string, size_t> by_law;
  std::vector<int> dependences;
  std::set<int> taken;
  for (const CoreItem& item : core) {
    if (item.law == scheduler::LawName(Law::kDependence)) {
      if (const int edge = EdgeOf(graph, item, taken); edge >= 0) {
        taken.insert(edge);
        dependences.push_back(edge);
        continue;
      }
    }
    if (item.law == scheduler::LawName(Law::kTransfer)) {
      if (const int edge = EdgeOf(graph, item, {}); edge >= 0) {
        const GraphEdge& e = graph.edges[edge];
        Add({item.law,
             fmt::format("{} → {} {} more", graph.ops[e.from].name, graph.ops[e.to].name,
                         Count(e.transfer, "cycle")),
             item.ops},
            &reasons, &by_law);
        continue;
      }
    }
    if (item.law == scheduler::LawName(Law::kUnit)) {
      if (const int unit = UnitIn(graph, item.text); unit >= 0) {
        reasons.push_back({UnitText(graph, unit, ii), item.ops});
        continue;
      }
    }
    Add(item, &reasons, &by_law);
  }
  for (const std::vector<int>& chain : Chains(graph, dependences)) {
    std::vector<int> ops = {graph.edges[chain.front()].from};
    for (int i : chain) ops.push_back(graph.edges[i].to);
    reasons.push_back({ChainText(graph, chain, false), std::move(ops)});
  }
  return reasons;
}

void ReadReasons(Explanation* e, const Proof& proof) {
  if (e->bounds.empty()) e->bounds = scheduler::AllBounds(e->graph);
  if (e->bounds.empty()) e->bounds.push_back(scheduler::BestBound(e->graph));
  Judge(e, proof);
}

}  // namespace tilec::explain
