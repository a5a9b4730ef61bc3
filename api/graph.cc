// The public Graph: bound launches in a row.
//
// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "api/resolved.h"
#include "api/status.h"
#include "runtime/diagnostics.h"

namespace tilec {

struct GraphState {
  struct Item {
    std::shared_ptr<const BoundState> bound;
    std::shared_ptr<const runtime::LoadedKernel::Ready> ready;
    size_t number = 0;  // in `graph`
  };
  std::shared_ptr<DeviceState> device;  // outlives the graph and the modules
  std::mutex mutex;
  std::vector<Item> items;
  std::unique_ptr<runtime::LaunchGraph> graph;  // null: items are launched one by one
  size_t in_graph = 0;                          // empty grids are in no graph
};

namespace {

Result<> Move(GraphState& g, size_t number, std::span<const uint64_t> addresses, DiagSink& diags) {
  if (number >= g.items.size())
    return diags.Report(runtime::kNoSuchLaunch, Span{}, g.items.size(), number);
  GraphState::Item& item = g.items[number];
  const Resolved& r = *item.bound->resolved;
  auto moved = std::make_shared<runtime::LoadedKernel::Ready>();
  TRY(*moved, r.loaded->Move(*item.ready, addresses, diags));
  if (g.graph && !moved->plan->nothing_to_do) {
    const size_t own = moved->before.size();
    for (size_t i = 0; i < own; ++i)
      TRY_VOID(g.graph->Replace(item.number + i, moved->before[i].args, diags));
    TRY_VOID(g.graph->Replace(item.number + own, moved->args, diags));
  }
  item.ready = std::move(moved);
  return Done();
}

}  // namespace

Graph Graph::On(const Device& device) {
  auto state = std::make_shared<GraphState>();
  state->device = device.state();
  state->graph = state->device->device->NewGraph();
  return Graph(std::move(state));
}

Expected<size_t> Graph::Add(const Bound& bound) {
  GraphState& g = *state_;
  const std::lock_guard<std::mutex> lock(g.mutex);
  DiagSink diags;
  if (bound.state_->device != g.device) {
    diags.Report(runtime::kOtherDevice, Span{}, g.items.size());
    return api::MakeStatus(diags);
  }
  const Resolved& r = *bound.state_->resolved;
  auto ready = g.graph ? r.loaded->Apart(r.ready, diags) : r.ready;
  if (!ready.ok() || (g.graph && !r.loaded->AddTo(*g.graph, **ready, diags).ok()))
    return api::MakeStatus(diags);
  g.items.push_back({bound.state_, *ready, g.in_graph});
  g.in_graph += (*ready)->launches();
  return g.items.size() - 1;
}

Status Graph::MoveTo(size_t number, const uint64_t* addresses, size_t count) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  DiagSink diags;
  (void)Move(*state_, number, {addresses, count}, diags).ok();
  return api::MakeStatus(diags);
}

Status Graph::Launch(Stream stream) {
  GraphState& g = *state_;
  const std::lock_guard<std::mutex> lock(g.mutex);
  DiagSink diags;
  if (g.graph) {
    (void)g.graph->Run(stream, diags).ok();
    return api::MakeStatus(diags);
  }
  for (const GraphState::Item& item : g.items)
    if (!item.bound->resolved->loaded->Launch(*item.ready, stream, nullptr, diags).ok()) break;
  return api::MakeStatus(diags);
}

}  // namespace tilec
