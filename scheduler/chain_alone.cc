// SPDX-License-Identifier: Apache-2.0
#include "scheduler/chain_alone.h"

#include <algorithm>

namespace tilec::scheduler {

namespace {

constexpr int64_t kProducts = 2;  // of more, nothing was measured
// So many times as long as its chain an iteration's loads take at least. (From 1.45 on it was
// measured.)
constexpr double kCovered = 1.4;
// Rows of a product, up to which the queries of a head are one tile: what it reads nobody else
// does.
constexpr int64_t kFewRows = 16;

bool Multiplies(const GraphOp& op, int tensor) {
  return std::any_of(op.uses.begin(), op.uses.end(),
                     [&](const UnitUse& use) { return use.unit == tensor; });
}

// Until memory has what an iteration loads, each SM asking for as much.
double LoadCycles(const ir::Function& fn, const LoopReport& loop, const ir::Target& target) {
  double bytes = 0;
  for (const OpOrigin& origin : loop.extraction.origins)
    for (ir::OpId id : origin.members()) {
      const ir::Op& op = fn.ops[id];
      if (op.kind != ir::OpKind::kLoad) continue;
      const ir::Type& tile = fn.type(op.results[0]);
      bytes += static_cast<double>(tile.elements() * ir::ByteSize(tile.dtype));
    }
  const double per_second = 1e9 * target.model.memory_share * double(target.limits.memory_gbs);
  const double cycles = 1e6 * double(target.limits.clock_mhz) * double(target.limits.sms);
  return per_second > 0 ? bytes * cycles / per_second : 0;
}

// Has each product so many rows at most?
bool OfRows(int64_t most, const ir::Function& fn, const LoopReport& loop) {
  for (const OpOrigin& origin : loop.extraction.origins)
    for (ir::OpId id : origin.members())
      if (fn.ops[id].kind == ir::OpKind::kDot && fn.type(fn.ops[id].results[0]).shape[0] > most)
        return false;
  return true;
}

}  // namespace

bool OfOneWarpgroup(const ir::Function& fn, const std::vector<OpOrigin>& origins) {
  for (const OpOrigin& origin : origins)
    for (const OriginStep& step : origin.steps)
      if (step.kind == StepKind::kOp && fn.ops[step.op].kind == ir::OpKind::kDot &&
          fn.type(fn.ops[step.op].results[0]).shape[0] > kWholeRows)
        return false;
  return true;
}

bool Chained(const Graph& graph, int tensor) {
  std::vector<bool> behind(graph.ops.size());  // a product
  for (bool changed = true; changed;) {
    changed = false;
    for (const GraphEdge& e : graph.edges) {
      const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
      if (e.distance > 0 || behind[to] || (!behind[from] && !Multiplies(graph.ops[from], tensor)))
        continue;
      if (Multiplies(graph.ops[to], tensor)) return true;
      behind[to] = changed = true;
    }
  }
  return false;
}

int64_t ChainOf(const Graph& graph) {
  std::vector<int64_t> start(graph.ops.size(), 0);
  int64_t length = 0;
  for (size_t round = 0; round < graph.ops.size(); ++round) {
    bool changed = false;
    for (const GraphEdge& e : graph.edges) {
      const int64_t at = start[static_cast<size_t>(e.from)] + e.delay;
      if (e.distance > 0 || at <= start[static_cast<size_t>(e.to)]) continue;
      start[static_cast<size_t>(e.to)] = at;
      changed = true;
    }
    if (!changed) break;
  }
  for (size_t v = 0; v < graph.ops.size(); ++v)
    length = std::max(length, start[v] + graph.ops[v].latency);
  return length;
}

bool IterationsOverlap(const ir::Function& fn, const CutProgram& cut, const LoopReport& loop,
                  const ir::Target& target) {
  if (cut.at_once || target.unit().completion != ir::Completion::kGroups) return false;
  if (cut.schedule.slices > 1 || cut.schedule.warpgroups > 1) return false;
  const Graph& graph = loop.extraction.graph;
  const int tensor = graph.FindUnit("tensor");
  const auto products = std::count_if(graph.ops.begin(), graph.ops.end(),
                                      [&](const GraphOp& op) { return Multiplies(op, tensor); });
  return products == kProducts && !OfRows(kWholeRows - 1, fn, loop);
}

bool StaysInOrder(const CutProgram& cut, const LoopReport& loop, const ir::Target& target) {
  if (cut.given || cut.at_once || cut.in_place || cut.in_flight.empty()) return false;
  if (cut.schedule.slices > 1 || cut.schedule.apart || cut.schedule.warpgroups > 1) return false;
  const Graph& graph = loop.extraction.graph;
  const int tensor = graph.FindUnit("tensor");
  const auto products = std::count_if(graph.ops.begin(), graph.ops.end(),
                                      [&](const GraphOp& op) { return Multiplies(op, tensor); });
  if (tensor < 0 || products != kProducts || !Chained(graph, tensor)) return false;
  if (!OfRows(kFewRows, cut.fn, loop)) return false;
  const double chain = double(ChainOf(graph) * target.model.chain_percent) / 100;
  return kCovered * chain <= LoadCycles(cut.fn, loop, target);
}

}  // namespace tilec::scheduler
