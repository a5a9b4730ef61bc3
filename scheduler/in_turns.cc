// SPDX-License-Identifier: Apache-2.0
#include "scheduler/in_turns.h"

#include <algorithm>
#include <map>

#include "scheduler/check.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

// t(to) ≥ t(from) + least. Node 0 is the origin, then ops, then the beginnings of roles' turns.
struct Step {
  size_t from, to;
  int64_t least;
};

class Turns {
 public:
  Turns(const Graph& graph, const ir::Schedule& solved, const std::vector<TurnPlace>& places)
      : graph_(graph), solved_(solved), places_(places), at_(graph.ops.size(), nullptr) {
    for (const ir::ScheduledOp& op : solved.ops)
      if (const int v = graph.FindOp(op.name); v >= 0) at_[static_cast<size_t>(v)] = &op;
    for (size_t v = 0; v < places.size(); ++v)
      if (places[v].role >= 0) roles_[places[v].role].push_back(v);
    for (auto& [role, ops] : roles_)
      std::sort(ops.begin(), ops.end(),
                [&](size_t a, size_t b) { return places[a].rank < places[b].rank; });
  }

  // `near`: no earlier than solved. Loads keep their cycles.
  std::optional<ir::Schedule> At(int64_t ii, bool near) const {
    std::vector<Step> steps;
    for (size_t v = 0; v < at_.size(); ++v) {
      if (at_[v] == nullptr) continue;
      const int64_t cycle = Cycle(v, ii);
      if (near || places_[v].role < 0) steps.push_back({0, Node(v), cycle});
      if (places_[v].role < 0 && near) steps.push_back({Node(v), 0, -cycle});
    }
    for (const GraphEdge& e : graph_.edges) {
      const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
      if (at_[from] == nullptr || at_[to] == nullptr || from == to) continue;
      const int64_t transfer = at_[from]->role == at_[to]->role ? 0 : e.transfer;
      steps.push_back({Node(from), Node(to), e.delay + transfer - e.distance * ii});
    }
    size_t begin = at_.size() + 1;
    for (const auto& [role, ops] : roles_) {
      Role(ii, begin, ops, &steps);
      ++begin;
    }
    // What a role begins with is as early as its ops allow: least solution of all.
    std::vector<int64_t> least(begin, near ? INT64_MIN / 4 : 0);
    least[0] = 0;
    for (size_t round = 0;; ++round) {
      bool changed = false;
      for (const Step& s : steps)
        if (least[s.from] + s.least > least[s.to]) {
          least[s.to] = least[s.from] + s.least;
          changed = true;
        }
      if (!changed) break;
      if (round > 2 * begin || least[0] > 0) return std::nullopt;
    }
    ir::Schedule out = solved_;
    out.ii = ii;
    for (ir::ScheduledOp& op : out.ops)
      if (const int v = graph_.FindOp(op.name); v >= 0)
        op.cycle = least[Node(static_cast<size_t>(v))];
    return out;
  }

 private:
  static size_t Node(size_t op) { return op + 1; }

  // As solved, at another II: the stage and the slot stay.
  int64_t Cycle(size_t v, int64_t ii) const {
    const int64_t stage = FloorDiv(at_[v]->cycle, solved_.ii);
    return at_[v]->cycle + stage * (ii - solved_.ii);
  }

  // One op after the other within a turn, and all of it in front of the next.
  void Role(int64_t ii, size_t begin, const std::vector<size_t>& ops,
            std::vector<Step>* steps) const {
    std::map<int, size_t> last;  // of each unit of one instance: who used it last in the turn
    std::map<int, size_t> first;
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t v = ops[i];
      const int64_t shift = places_[v].stage * ii;
      const GraphOp& op = graph_.ops[v];
      steps->push_back({begin, Node(v), shift});
      int64_t in_turn = std::max<int64_t>(op.issue, 1);
      if (places_[v].done) in_turn = std::max(in_turn, op.latency);
      steps->push_back({Node(v), begin, in_turn - ii - shift});
      if (i > 0) After(ops[i - 1], v, graph_.ops[ops[i - 1]].issue, ii, steps);
      for (const UnitUse& use : op.uses) {
        const Unit& unit = graph_.units[static_cast<size_t>(use.unit)];
        if (unit.fluid || unit.capacity != 1 || use.cycles == 0) continue;
        first.try_emplace(use.unit, v);
        if (const auto before = last.find(use.unit); before != last.end())
          After(before->second, v, UseOf(before->second, use.unit), ii, steps);
        last[use.unit] = v;
      }
    }
    // Around the end of a turn: as if the first stood in the next one.
    for (const auto& [unit, v] : last) After(v, first.at(unit), UseOf(v, unit) - ii, ii, steps);
  }
  void After(size_t a, size_t b, int64_t least, int64_t ii, std::vector<Step>* steps) const {
    steps->push_back({Node(a), Node(b), least + (places_[b].stage - places_[a].stage) * ii});
  }
  int64_t UseOf(size_t v, int unit) const {
    int64_t cycles = 0;
    for (const UnitUse& use : graph_.ops[v].uses)
      if (use.unit == unit) cycles = std::max(cycles, use.cycles);
    return cycles;
  }

  const Graph& graph_;
  const ir::Schedule& solved_;
  const std::vector<TurnPlace>& places_;
  std::vector<const ir::ScheduledOp*> at_;  // by op; null: it is not there (a route)
  std::map<int, std::vector<size_t>> roles_;
};

}  // namespace

std::optional<ir::Schedule> InTurns(const Graph& graph, const ir::Schedule& solved,
                                    const std::vector<TurnPlace>& places, int64_t ii) {
  const Turns turns(graph, solved, places);
  for (const bool near : {true, false})
    if (const auto out = turns.At(ii, near); out && Check(graph, *out).violations.empty())
      return out;
  return std::nullopt;
}

std::optional<int64_t> PeriodInTurns(const Graph& graph, const ir::Schedule& solved,
                                     const std::vector<TurnPlace>& places, int64_t most) {
  const Turns turns(graph, solved, places);
  int64_t low = solved.ii, high = most * solved.ii;  // it runs at `high`
  if (!turns.At(high, false)) return std::nullopt;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (turns.At(middle, false))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

}  // namespace tilec::scheduler
