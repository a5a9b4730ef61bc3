// The laws that a refutation of settled.h rests on, as few as can be left out one by one: first
// that a role issues one instruction at a time, then all that speak of an op, units, and all
// between two ops. A solver that learns from what it tried names them itself; this search is asked
// again instead.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "scheduler/model.h"
#include "scheduler/settled.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kCoreWork = 6'000'000;  // of one question

using Pair = std::pair<int, int>;

// Which laws are kept.
struct Kept {
  bool issue = true;  // one instruction stream per role
  std::vector<bool> op, unit;
  std::set<Pair> timed, tied;  // between two ops: cycles; one role for both
};

class Minimizer {
 public:
  Minimizer(const Graph& graph, const SolveOptions& options, const RoleOffer& offer, int64_t ii)
      : g_(graph), options_(options), offer_(offer), ii_(ii) {
    all_.op.assign(graph.ops.size(), true);
    all_.unit.assign(graph.units.size(), true);
    for (const GraphEdge& e : graph.edges) {
      all_.timed.emplace(e.from, e.to);
      all_.tied.emplace(e.from, e.to);
    }
  }

  std::optional<Kept> Run() const {
    Kept kept = all_;
    if (!Refuted(kept)) return std::nullopt;
    const auto drop = [&](auto&& change) {
      Kept less = kept;
      change(&less);
      if (Refuted(less)) kept = std::move(less);
    };
    drop([](Kept* less) { less->issue = false; });
    for (size_t v = 0; v < kept.op.size(); ++v)
      drop([&](Kept* less) {
        less->op[v] = false;
        const auto touches = [&](const Pair& p) {
          return p.first == static_cast<int>(v) || p.second == static_cast<int>(v);
        };
        std::erase_if(less->timed, touches);
        std::erase_if(less->tied, touches);
      });
    for (size_t f = 0; f < kept.unit.size(); ++f) drop([&](Kept* less) { less->unit[f] = false; });
    for (const Pair& p : std::set<Pair>(kept.timed))
      drop([&](Kept* less) { less->timed.erase(p); });
    for (const Pair& p : std::set<Pair>(kept.tied)) drop([&](Kept* less) { less->tied.erase(p); });
    return kept;
  }

 private:
  bool Refuted(const Kept& kept) const {
    Graph timed = g_, ties = g_;
    timed.pins.clear();
    for (size_t v = 0; v < timed.ops.size(); ++v) {
      GraphOp& op = timed.ops[v];
      if (!kept.op[v] || !kept.issue) op.issue = 0;
      std::erase_if(op.uses,
                    [&](const UnitUse& use) { return !kept.op[v] || !kept.unit[use.unit]; });
    }
    std::erase_if(timed.edges, [&](const GraphEdge& e) {
      return kept.timed.count({e.from, e.to}) == 0;
    });
    std::erase_if(ties.edges, [&](const GraphEdge& e) {
      return kept.tied.count({e.from, e.to}) == 0;
    });
    SettledQuestion question{ii_, {}, {}, {}, {}, {}};
    int64_t work = kCoreWork;
    return AskSettled({timed, ties, options_, offer_}, question, &work, true).answer ==
           Answer::kUnsat;
  }

  const Graph& g_;
  const SolveOptions& options_;
  const RoleOffer& offer_;
  const int64_t ii_;
  Kept all_;
};

}  // namespace

std::vector<CoreItem> SettledCore(const Graph& graph, const SolveOptions& options,
                                  const RoleOffer& offer, int64_t ii) {
  std::vector<CoreItem> items;
  const std::optional<Kept> kept = Minimizer(graph, options, offer, ii).Run();
  if (!kept) return items;
  const auto between = [](const std::set<Pair>& pairs, const std::vector<int>& ops) {
    return ops.size() == 2 && pairs.count({ops[0], ops[1]}) > 0;
  };
  const Model model(graph, ii, offer, options);
  for (const Model::Guard& guard : model.guards()) {
    bool needed = false;
    switch (guard.law) {
      case Law::kDependence:
      case Law::kTransfer: needed = between(kept->timed, guard.ops); break;
      case Law::kCarriedRole:
      case Law::kSameRole: needed = between(kept->tied, guard.ops); break;
      case Law::kUnit:
        for (int v : guard.ops)
          for (const UnitUse& use : graph.ops[v].uses)
            needed = needed || (kept->op[v] && kept->unit[use.unit] &&
                                guard.text.ends_with(" " + graph.units[use.unit].name));
        break;
      case Law::kIssue: needed = kept->issue; break;
      case Law::kPin:
      case Law::kApart: needed = true; break;
      case Law::kNoTransfer:
      case Law::kLoadRole:
      case Law::kWidth:
      case Law::kWarps:
      case Law::kRegisters:
      case Law::kRegisterPool:
      case Law::kSmem:
      case Law::kTmem:
      case Law::kStages:
      case Law::kRoles: break;
    }
    if (needed) items.push_back({LawName(guard.law), guard.text, guard.ops, guard.at});
  }
  return items;
}

}  // namespace tilec::scheduler
