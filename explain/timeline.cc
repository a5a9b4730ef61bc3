// SPDX-License-Identifier: Apache-2.0
#include "explain/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tilec::explain {

namespace {

// More than this many rows says no more than this many.
constexpr int kMostRows = 6;

void Sort(std::vector<Bar>* bars) {
  std::stable_sort(bars->begin(), bars->end(), [](const Bar& a, const Bar& b) {
    return std::tie(a.begin, a.iteration, a.op) < std::tie(b.begin, b.iteration, b.op);
  });
}

// Bars that overlap go to different rows, the lowest that is free.
void Stack(Lane* lane) {
  std::vector<int64_t> free;
  for (Bar& bar : lane->bars) {
    int row = 0;
    while (row < static_cast<int>(free.size()) && free[row] > bar.begin) ++row;
    row = std::min(row, kMostRows - 1);
    if (row >= static_cast<int>(free.size())) free.resize(row + 1, 0);
    free[row] = std::max(free[row], bar.end);
    bar.row = row;
  }
  lane->rows = std::max<int>(1, static_cast<int>(free.size()));
}

class Layout {
 public:
  Layout(const Explanation& e, int iterations) : e_(e) {
    t_.ii = e.schedule.ii;
    t_.iterations = iterations;
    t_.stages = e.report.stages;
    for (int r = 0; r < static_cast<int>(e.roles.size()); ++r) Role(r);
    for (int f = 0; f < static_cast<int>(e.units.size()); ++f)
      if (!e.units[f].ops.empty()) e.graph.units[f].fluid ? Shared(f) : Unit(f);
    for (const Lane& lane : t_.lanes)
      for (const Bar& bar : lane.bars) t_.end = std::max(t_.end, bar.end);
    t_.steady_begin = std::min<int64_t>(t_.stages - 1, iterations) * t_.ii;
    t_.steady_end = std::max(t_.steady_begin, int64_t{iterations} * t_.ii);
    t_.end = std::max(t_.end, t_.steady_end);
  }

  Timeline Take() { return std::move(t_); }

 private:
  int64_t Begin(int op, int64_t iteration) const {
    return e_.ops[op].cycle + (iteration - e_.first_stage) * t_.ii;
  }

  void Add(Lane* lane, int op, int64_t cycles) const {
    if (cycles <= 0) return;
    for (int64_t i = 0; i < t_.iterations; ++i)
      lane->bars.push_back({op, i, Begin(op, i), Begin(op, i) + cycles, 0});
  }

  void Role(int r) {
    Lane issue{Lane::Kind::kRole, r, e_.schedule.roles[r].name, {}, 1, {}};
    Lane flight{Lane::Kind::kFlight, r, e_.schedule.roles[r].name, {}, 1, {}};
    for (int v : e_.roles[r].ops) {
      const scheduler::GraphOp& op = e_.graph.ops[v];
      Add(&issue, v, std::max<int64_t>(1, op.issue));
      if (op.async) Add(&flight, v, op.latency);
    }
    Sort(&issue.bars);
    t_.lanes.push_back(std::move(issue));
    if (flight.bars.empty()) return;
    Sort(&flight.bars);
    Stack(&flight);
    t_.lanes.push_back(std::move(flight));
  }

  void Unit(int f) {
    Lane lane{Lane::Kind::kUnit, f, e_.graph.units[f].name, {}, 1, {}};
    for (int v : e_.units[f].ops)
      for (const scheduler::UnitUse& use : e_.graph.ops[v].uses)
        if (use.unit == f) Add(&lane, v, use.cycles);
    Sort(&lane.bars);
    Stack(&lane);
    t_.lanes.push_back(std::move(lane));
  }

  void Shared(int f) {
    Lane lane{Lane::Kind::kShared, f, e_.graph.units[f].name, {}, 1, {}};
    std::map<int64_t, double> change;
    for (int v : e_.units[f].ops)
      for (const scheduler::UnitUse& use : e_.graph.ops[v].uses) {
        if (use.unit != f || use.cycles <= 0) continue;
        const int64_t over = std::max({use.cycles, e_.graph.ops[v].latency, e_.graph.ops[v].issue});
        const double rate = static_cast<double>(use.cycles) / static_cast<double>(over) /
                            static_cast<double>(e_.graph.units[f].capacity);
        for (int64_t i = 0; i < t_.iterations; ++i) {
          change[Begin(v, i)] += rate;
          change[Begin(v, i) + over] -= rate;
        }
      }
    double level = 0;
    for (const auto& [cycle, step] : change) {
      level = std::max(0.0, level + step);
      lane.level.emplace_back(cycle, level);
      t_.end = std::max(t_.end, cycle);
    }
    t_.lanes.push_back(std::move(lane));
  }

  const Explanation& e_;
  Timeline t_;
};

}  // namespace

Timeline MakeTimeline(const Explanation& e, int iterations) { return Layout(e, iterations).Take(); }

Timeline TwoPeriods(const Explanation& e) { return MakeTimeline(e, e.report.stages + 1); }

}  // namespace tilec::explain
