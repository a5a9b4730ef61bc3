// Nodes of graphs, as both interfaces make, ask and change them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim/process.h"

namespace tilec::shim {

Code FromDriver(Process& p, const DriverKernelNode* params, KernelWork* out);
Code FromNode(const MemsetNode* fill, FillWork* out);
Code AddTo(Process& p, void** node, void* graph, const void* const* after, size_t count, Work work);
Code AddEdges(Process& p, void* graph, const void* const* from, const void* const* to,
              size_t count);
Code RemoveNode(Node* node);
Code ListNodes(Process& p, void* graph, void** nodes, size_t* count, bool roots);
int TypeOf(const Node& node);
std::shared_ptr<Graph> CloneGraph(const Graph& graph);
// Null or of another kind: refused. Attributes of a kernel stay.
Code SetWork(const Process& p, Node* node, Work work);
Code SetStep(const Process& p, GraphExec* exec, const void* node, Work work);
Code Enable(GraphExec* exec, const void* node, bool enabled);
Code NodeAttribute(Process& p, Node* node, int attribute, const void* value);
// Pointers in it hold as long as the graph.
Code KernelParams(Node* node, RuntimeKernelNode* out);

}  // namespace tilec::shim
