// Graphs: nodes with what they come after. An executable graph is the list of its nodes in an order
// that respects that; it is run from first to last.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "shim/process.h"

namespace tilec::shim {

Node* Process::FindNode(const void* handle) const {
  for (const auto& [key, graph] : graphs.all())
    for (const auto& node : graph->nodes)
      if (node.get() == handle) return node.get();
  // Of a capture under way.
  for (const auto& [key, stream] : streams.all())
    if (stream->capture != nullptr)
      for (const auto& node : stream->capture->nodes)
        if (node.get() == handle) return node.get();
  return nullptr;
}

Code Process::AddNode(Graph* graph, Work work, const void* const* after, size_t count, Node** out) {
  if (count != 0 && after == nullptr) return kInvalidValue;
  auto node = std::make_unique<Node>();
  node->graph = graph;
  node->work = std::move(work);
  Remember(&node->work);
  for (size_t k = 0; k < count; ++k) {
    const auto it = std::find_if(graph->nodes.begin(), graph->nodes.end(),
                                 [&](const auto& n) { return n.get() == after[k]; });
    if (it == graph->nodes.end()) return kInvalidValue;
    node->after.push_back(it->get());
  }
  *out = node.get();
  graph->nodes.push_back(std::move(node));
  return kOk;
}

Code Process::Instantiate(Graph* graph, GraphExec** out) {
  *out = nullptr;
  // In order of creation, each once all that it comes after are there.
  auto exec = std::make_shared<GraphExec>();
  exec->graph = graphs.Share(graph);
  std::vector<Node*> left;
  for (const auto& node : graph->nodes) left.push_back(node.get());
  std::set<const Node*> done;
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](const Node* n) {
      return std::all_of(n->after.begin(), n->after.end(),
                         [&](const Node* a) { return done.count(a) > 0; });
    });
    if (next == left.end()) {
      Note("a graph has nodes that wait for each other");
      return kInvalidValue;
    }
    exec->steps.push_back({*next, (*next)->work, (*next)->enabled});
    done.insert(*next);
    left.erase(next);
  }
  *out = execs.Add(std::move(exec));
  return kOk;
}

Code Process::RunGraph(const GraphExec& exec) {
  for (const GraphExec::Step& step : exec.steps) {
    if (!step.enabled) continue;
    if (const Code code = Run(step.work); code != kOk) return code;
  }
  return kOk;
}

Code Process::Update(GraphExec* exec, Graph* graph) {
  GraphExec* fresh = nullptr;
  if (const Code code = Instantiate(graph, &fresh); code != kOk) return code;
  const auto held = execs.Share(fresh);
  execs.Remove(fresh);
  if (held->steps.size() != exec->steps.size()) return kGraphUpdateFailed;
  for (size_t k = 0; k < held->steps.size(); ++k)
    if (held->steps[k].work.index() != exec->steps[k].work.index()) return kGraphUpdateFailed;
  // Nodes stay those that it was made of.
  for (size_t k = 0; k < held->steps.size(); ++k) exec->steps[k].work = held->steps[k].work;
  return kOk;
}

}  // namespace tilec::shim
