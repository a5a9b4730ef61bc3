// SPDX-License-Identifier: Apache-2.0
#include "shim/nodes.h"

#include <algorithm>
#include <cstring>

namespace tilec::shim {

Code FromDriver(Process& p, const DriverKernelNode* params, KernelWork* out) {
  if (params == nullptr) return kInvalidValue;
  void* handle = params->function != nullptr ? params->function : params->kernel;
  Function* f = p.FunctionOf(handle);
  if (f == nullptr) return kInvalidHandle;
  const uint32_t grid[3] = {params->grid.x, params->grid.y, params->grid.z};
  const uint32_t block[3] = {params->block.x, params->block.y, params->block.z};
  memcpy(out->config.grid, grid, sizeof grid);
  memcpy(out->config.block, block, sizeof block);
  out->config.smem_bytes = params->smem_bytes;
  return p.Arguments(f, params->parameters, params->extra, out);
}

Code FromNode(const MemsetNode* fill, FillWork* out) {
  if (fill == nullptr) return kInvalidValue;
  *out = {fill->to, fill->pitch, fill->width, fill->height, fill->value, fill->element_bytes};
  return kOk;
}

Code AddTo(Process& p, void** node, void* graph, const void* const* after, size_t count,
           Work work) {
  Graph* g = p.graphs.Find(graph);
  if (g == nullptr) return kInvalidHandle;
  if (node == nullptr) return kInvalidValue;
  Node* made = nullptr;
  const Code code = p.AddNode(g, std::move(work), after, count, &made);
  *node = made;
  return code;
}

Code AddEdges(Process& p, void* graph, const void* const* from, const void* const* to,
              size_t count) {
  if (count != 0 && (from == nullptr || to == nullptr)) return kInvalidValue;
  const Graph* g = p.graphs.Find(graph);
  if (g == nullptr) return kInvalidHandle;
  for (size_t k = 0; k < count; ++k) {
    Node *a = p.FindNode(from[k]), *b = p.FindNode(to[k]);
    if (a == nullptr || b == nullptr || a->graph != g || b->graph != g || a == b)
      return kInvalidValue;
    b->after.push_back(a);
  }
  return kOk;
}

Code RemoveNode(Node* node) {
  auto& nodes = node->graph->nodes;
  for (const auto& n : nodes) std::erase(n->after, node);
  std::erase_if(nodes, [&](const auto& n) { return n.get() == node; });
  return kOk;
}

Code ListNodes(Process& p, void* graph, void** nodes, size_t* count, bool roots) {
  const Graph* g = p.graphs.Find(graph);
  if (g == nullptr || count == nullptr) return kInvalidHandle;
  size_t k = 0;
  for (const auto& n : g->nodes) {
    if (roots && !n->after.empty()) continue;
    if (nodes != nullptr && k < *count) nodes[k] = n.get();
    ++k;
  }
  *count = nodes != nullptr ? std::min(*count, k) : k;
  return kOk;
}

int TypeOf(const Node& node) {
  // CUgraphNodeType: kernel 0, memcpy 1, memset 2, host 3, graph 4, empty 5, wait 6, record 7.
  if (const auto* e = std::get_if<EventWork>(&node.work)) return e->record ? 7 : 6;
  constexpr int kTypes[] = {5, 0, 1, 2, 3, 7, 4};
  return kTypes[node.work.index()];
}

std::shared_ptr<Graph> CloneGraph(const Graph& graph) {
  auto clone = std::make_shared<Graph>();
  std::map<const Node*, Node*> twin;
  for (const auto& n : graph.nodes) {
    auto copy = std::make_unique<Node>(*n);
    copy->graph = clone.get();
    twin[n.get()] = copy.get();
    clone->nodes.push_back(std::move(copy));
  }
  for (const auto& n : clone->nodes)
    for (Node*& a : n->after) a = twin.at(a);
  return clone;
}

namespace {

Code Replace(const Process& p, Work* at, Work work) {
  if (at->index() != work.index()) return kInvalidValue;
  if (auto* fresh = std::get_if<KernelWork>(&work)) {
    const auto& old = std::get<KernelWork>(*at);
    memcpy(fresh->config.cluster, old.config.cluster, sizeof fresh->config.cluster);
    fresh->config.dependent = old.config.dependent;
    fresh->cooperative = old.cooperative;
  }
  *at = std::move(work);
  p.Remember(at);
  return kOk;
}

}  // namespace

Code SetWork(const Process& p, Node* node, Work work) {
  return node == nullptr ? kInvalidHandle : Replace(p, &node->work, std::move(work));
}

Code SetStep(const Process& p, GraphExec* exec, const void* node, Work work) {
  if (exec == nullptr) return kInvalidHandle;
  for (GraphExec::Step& step : exec->steps)
    if (step.origin == node) return Replace(p, &step.work, std::move(work));
  return kInvalidValue;
}

Code Enable(GraphExec* exec, const void* node, bool enabled) {
  if (exec == nullptr) return kInvalidHandle;
  for (GraphExec::Step& step : exec->steps)
    if (step.origin == node) return step.enabled = enabled, kOk;
  return kInvalidValue;
}

Code NodeAttribute(Process& p, Node* node, int attribute, const void* value) {
  if (node == nullptr || value == nullptr) return kInvalidHandle;
  auto* work = std::get_if<KernelWork>(&node->work);
  if (work == nullptr) return kInvalidValue;
  LaunchAttribute a = {};
  a.id = attribute;
  memcpy(&a.value, value,
         attribute == LaunchAttribute::kClusterDimension ? sizeof(Dim3) : sizeof(int));
  return p.Attributes(&a, 1, work);
}

Code KernelParams(Node* node, RuntimeKernelNode* out) {
  if (node == nullptr) return kInvalidHandle;
  auto* work = std::get_if<KernelWork>(&node->work);
  if (work == nullptr) return kInvalidValue;
  std::vector<void*> pointers;
  for (runtime::KernelArg& a : work->arguments) pointers.push_back(a.bytes.data());
  node->graph->pointers.push_back(std::move(pointers));
  const runtime::LaunchConfig& c = work->config;
  *out = {work->function,
          {c.grid[0], c.grid[1], c.grid[2]},
          {c.block[0], c.block[1], c.block[2]},
          static_cast<uint32_t>(c.smem_bytes),
          node->graph->pointers.back().data(),
          nullptr};
  return kOk;
}

}  // namespace tilec::shim
