// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/random_schedule.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/row_classes.h"
#include "scheduler/check.h"
#include "scheduler/program_cut.h"
#include "scheduler/routes.h"
#include "scheduler/scheduler.h"
#include "tests/fuzz/random_roles.h"
#include "tests/fuzz/tile_expr.h"

namespace tilec::fuzz {
namespace {

using scheduler::Graph;
using scheduler::GraphEdge;
using scheduler::GraphOp;

constexpr int kMoves = 60;

int64_t FloorMod(int64_t a, int64_t n) { return (a % n + n) % n; }

class Shaker {
 public:
  Shaker(const Graph& graph, ir::Schedule schedule, int slices, Rng& rng)
      : graph_(graph), s_(std::move(schedule)), slices_(slices), rng_(rng) {
    for (size_t v = 0; v < graph.ops.size(); ++v)
      for (size_t i = 0; i < s_.ops.size(); ++i)
        if (s_.ops[i].name == graph.ops[v].name) place_[v] = i;
  }

  // Its roles are as they are.
  ir::Schedule Shaken() {
    for (int i = 0; i < kMoves; ++i) Move();
    return s_;
  }

  std::optional<ir::Schedule> Run() {
    if (!OneRoleEach()) return std::nullopt;
    const int64_t ii = s_.ii;
    const int percent[] = {0, 0, 5, 20, 50, 100};
    for (int tries = 0; tries < 4; ++tries) {
      Stretch(ii + ii * (tries == 0 ? percent[rng_.Below(6)] : 60 * tries) / 100);
      if (Lawful()) break;
      if (tries == 3) return std::nullopt;
    }
    for (int i = 0; i < kMoves; ++i) Move();
    if (rng_.Chance(50)) {
      const ir::Schedule without = s_;
      Tokens();
      if (!Lawful()) s_ = without;
    }
    return s_;
  }

 private:
  int64_t& Cycle(size_t v) { return s_.ops[place_.at(v)].cycle; }
  int& RoleOf(size_t v) { return s_.ops[place_.at(v)].role; }

  // The lowering knows one compute role per row slice.
  bool OneRoleEach() {
    std::map<int, int> role_of;
    for (size_t v = 0; v < graph_.ops.size(); ++v) {
      const GraphOp& op = graph_.ops[v];
      if (op.variable_latency) continue;
      const int slice = slices_ == 1 ? 0 : op.slice;
      if (slice < 0) continue;
      RoleOf(v) = role_of.try_emplace(slice, RoleOf(v)).first->second;
    }
    std::vector<ir::ScheduledRole> roles;
    std::map<int, int> renamed;
    for (size_t r = 0; r < s_.roles.size(); ++r) {
      const bool used = std::any_of(s_.ops.begin(), s_.ops.end(), [&](const ir::ScheduledOp& op) {
        return op.role == static_cast<int>(r);
      });
      if (!used) continue;
      renamed[static_cast<int>(r)] = static_cast<int>(roles.size());
      roles.push_back(s_.roles[r]);
    }
    for (ir::ScheduledOp& op : s_.ops) op.role = renamed.at(op.role);
    s_.roles = std::move(roles);
    return true;
  }

  void Stretch(int64_t ii) {
    for (ir::ScheduledOp& op : s_.ops) op.cycle = op.cycle / s_.ii * ii + op.cycle % s_.ii;
    s_.ii = ii;
  }

  void Channels() {
    s_.channels.clear();
    for (size_t v = 0; v < graph_.ops.size(); ++v) {
      if (graph_.ops[v].smem_bytes == 0) continue;
      int64_t life = 1;
      for (const GraphEdge& e : graph_.edges)
        if (e.from == static_cast<int>(v) && e.kind != scheduler::EdgeKind::kOrder)
          life = std::max(
              life, Cycle(static_cast<size_t>(e.to)) + e.distance * s_.ii + e.hold - Cycle(v));
      const int64_t depth = std::max<int64_t>(1, (life + s_.ii - 1) / s_.ii);
      s_.channels.push_back({graph_.ops[v].name, "smem", static_cast<int>(depth)});
    }
  }
  bool Lawful() {
    Channels();
    return scheduler::Check(graph_, s_).violations.empty();
  }

  void Move() {
    const ir::Schedule before = s_;
    const size_t v = static_cast<size_t>(rng_.Below(static_cast<int>(graph_.ops.size())));
    s_.order.clear();
    const int reach =
        static_cast<int>(std::min<int64_t>(s_.ii * (rng_.Chance(30) ? 2 : 1), 1 << 20));
    Cycle(v) += rng_.Below(2 * reach + 1) - reach;
    if (Cycle(v) < 0 || Cycle(v) > 6 * s_.ii || !Lawful()) s_ = before;
  }

  // Products of different roles take turns.
  void Tokens() {
    for (const scheduler::Unit& unit : graph_.units) {
      if (unit.capacity != 1 || unit.fluid) continue;
      std::vector<size_t> users;
      for (size_t v = 0; v < graph_.ops.size(); ++v)
        for (const scheduler::UnitUse& use : graph_.ops[v].uses)
          if (graph_.units[static_cast<size_t>(use.unit)].name == unit.name && use.cycles > 0)
            users.push_back(v);
      std::stable_sort(users.begin(), users.end(), [&](size_t a, size_t b) {
        return FloorMod(Cycle(a), s_.ii) < FloorMod(Cycle(b), s_.ii);
      });
      for (size_t i = 0; users.size() > 1 && i < users.size(); ++i) {
        const size_t a = users[i], b = users[(i + 1) % users.size()];
        if (RoleOf(a) != RoleOf(b) && graph_.ops[a].async && graph_.ops[b].async)
          s_.order.push_back({graph_.ops[a].name, graph_.ops[b].name, unit.name, true});
      }
    }
  }

  const Graph& graph_;
  ir::Schedule s_;
  int slices_;
  Rng& rng_;
  std::map<size_t, size_t> place_;  // op of the graph → of the schedule
};

}  // namespace

std::string RandomSchedules(const ir::Function& fn, int slices, const ir::Target& target,
                            uint64_t seed, bool crossing) {
  Rng rng(seed * 31 + 17);
  const std::vector<int> choices = ir::RowClasses(fn).Choices();
  if (std::find(choices.begin(), choices.end(), slices) == choices.end()) return "";
  std::optional<scheduler::CutProgram> cut = scheduler::CutRows(fn, slices, target, crossing);
  if (!cut) return "";
  scheduler::SolveOptions quick;  // any answer will do
  quick.resource_limit = 200'000;
  quick.total_limit = 200'000;
  quick.optimize_secondary = false;
  std::string text;
  for (const scheduler::LoopReport& loop : cut->schedule.loops) {
    if (!loop.extracted()) continue;
    const Graph& graph = loop.extraction.graph;
    if (crossing) {
      std::optional<ir::Schedule> apart = WithRandomRoles(graph, rng);
      if (!apart) return "";
      // Moves are judged on the graph as these roles make it, where routes are ops and edges.
      const uint64_t hash = apart->graph_hash;
      const Graph plain = scheduler::RoutedBy(graph, *apart);
      *apart = Shaker(plain, std::move(*apart), slices, rng).Shaken();
      apart->graph_hash = hash;
      if (!scheduler::Check(graph, *apart).violations.empty()) return "";
      text += ir::ToText(*apart);
      continue;
    }
    DiagSink attempt;
    Result<scheduler::Solution> first = scheduler::Solve(graph, quick, attempt);
    if (!first.ok()) return "";
    const auto shaken = Shaker(graph, std::move(first->schedule), slices, rng).Run();
    if (!shaken) return "";
    text += ir::ToText(*shaken);
  }
  return text;
}

}  // namespace tilec::fuzz
