// The driver's interface: graphs and capture.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "shim/api.h"
#include "shim/copies.h"
#include "shim/nodes.h"

using namespace tilec::shim;  // NOLINT: entries have C names

SHIM_API int cuGraphCreate(void** graph, unsigned) {
  Call c;
  if (graph == nullptr) return kInvalidValue;
  *graph = c->graphs.Add(std::make_shared<Graph>());
  return kOk;
}
SHIM_API int cuGraphDestroy(void* graph) {
  Call c;
  return c->graphs.Remove(graph) ? kOk : kInvalidHandle;
}
SHIM_API int cuGraphClone(void** out, void* graph) {
  Call c;
  Graph* from = c->graphs.Find(graph);
  if (from == nullptr || out == nullptr) return kInvalidHandle;
  *out = c->graphs.Add(CloneGraph(*from));
  return kOk;
}
SHIM_API int cuGraphAddKernelNode_v2(void** node, void* graph, const void* const* after,
                                     size_t count, const DriverKernelNode* params) {
  Call c;
  KernelWork work;
  if (Code e = FromDriver(*c, params, &work)) return e;
  return AddTo(*c, node, graph, after, count, std::move(work));
}
SHIM_API int cuGraphAddMemcpyNode(void** node, void* graph, const void* const* after, size_t count,
                                  const DriverCopy3D* copy, void*) {
  Call c;
  CopyWork work;
  if (Code e = FromDriver(*c, copy, &work)) return e;
  return AddTo(*c, node, graph, after, count, work);
}
SHIM_API int cuGraphAddMemsetNode(void** node, void* graph, const void* const* after, size_t count,
                                  const MemsetNode* fill, void*) {
  Call c;
  FillWork work;
  if (Code e = FromNode(fill, &work)) return e;
  return AddTo(*c, node, graph, after, count, work);
}
SHIM_API int cuGraphAddHostNode(void** node, void* graph, const void* const* after, size_t count,
                                const HostNode* host) {
  Call c;
  if (host == nullptr) return kInvalidValue;
  return AddTo(*c, node, graph, after, count, HostWork{host->function, host->data});
}
SHIM_API int cuGraphAddEmptyNode(void** node, void* graph, const void* const* after, size_t count) {
  Call c;
  return AddTo(*c, node, graph, after, count, std::monostate());
}
SHIM_API int cuGraphAddChildGraphNode(void** node, void* graph, const void* const* after,
                                      size_t count, void* child) {
  Call c;
  Graph* from = c->graphs.Find(child);
  if (from == nullptr) return kInvalidHandle;
  return AddTo(*c, node, graph, after, count, GraphWork{CloneGraph(*from)});
}
SHIM_API int cuGraphAddEventRecordNode(void** node, void* graph, const void* const* after,
                                       size_t count, void* event) {
  Call c;
  Event* e = c->events.Find(event);
  if (e == nullptr) return kInvalidHandle;
  return AddTo(*c, node, graph, after, count, EventWork{e, true});
}
SHIM_API int cuGraphAddEventWaitNode(void** node, void* graph, const void* const* after,
                                     size_t count, void* event) {
  Call c;
  Event* e = c->events.Find(event);
  if (e == nullptr) return kInvalidHandle;
  return AddTo(*c, node, graph, after, count, EventWork{e, false});
}
SHIM_API int cuGraphAddDependencies(void* graph, const void* const* from, const void* const* to,
                                    size_t count) {
  Call c;
  return AddEdges(*c, graph, from, to, count);
}
SHIM_API int cuGraphAddDependencies_v2(void* graph, const void* const* from, const void* const* to,
                                       const void*, size_t count) {
  return cuGraphAddDependencies(graph, from, to, count);
}
SHIM_API int cuGraphDestroyNode(void* node) {
  Call c;
  Node* n = c->FindNode(node);
  return n == nullptr ? kInvalidHandle : RemoveNode(n);
}
SHIM_API int cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  Call c;
  return ListNodes(*c, graph, nodes, count, false);
}
SHIM_API int cuGraphGetRootNodes(void* graph, void** nodes, size_t* count) {
  Call c;
  return ListNodes(*c, graph, nodes, count, true);
}
SHIM_API int cuGraphNodeGetType(void* node, int* type) {
  Call c;
  Node* n = c->FindNode(node);
  if (n == nullptr || type == nullptr) return kInvalidHandle;
  *type = TypeOf(*n);
  return kOk;
}
SHIM_API int cuGraphNodeGetDependencies(void* node, void** after, size_t* count) {
  Call c;
  Node* n = c->FindNode(node);
  if (n == nullptr || count == nullptr) return kInvalidHandle;
  if (after != nullptr) {
    *count = std::min(*count, n->after.size());
    std::copy_n(n->after.begin(), *count, after);
  } else {
    *count = n->after.size();
  }
  return kOk;
}
SHIM_API int cuGraphKernelNodeSetParams_v2(void* node, const DriverKernelNode* params) {
  Call c;
  KernelWork work;
  if (Code e = FromDriver(*c, params, &work)) return e;
  return SetWork(*c, c->FindNode(node), std::move(work));
}
SHIM_API int cuGraphKernelNodeGetParams_v2(void* node, DriverKernelNode* params) {
  Call c;
  RuntimeKernelNode found = {};
  if (params == nullptr) return kInvalidValue;
  if (Code e = KernelParams(c->FindNode(node), &found)) return e;
  *params = {found.function,   found.grid,  found.block, found.smem_bytes,
             found.parameters, found.extra, nullptr,     nullptr};
  return kOk;
}
SHIM_API int cuGraphKernelNodeSetAttribute(void* node, int attribute, const void* value) {
  Call c;
  return NodeAttribute(*c, c->FindNode(node), attribute, value);
}
SHIM_API int cuGraphNodeSetEnabled(void* exec, void* node, unsigned enabled) {
  Call c;
  return Enable(c->execs.Find(exec), node, enabled != 0);
}

// ---- executable graphs ----
SHIM_API int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  Call c;
  Graph* from = c->graphs.Find(graph);
  if (from == nullptr || exec == nullptr) return kInvalidHandle;
  GraphExec* made = nullptr;
  const Code code = c->Instantiate(from, &made);
  *exec = made;
  return code;
}
SHIM_API int cuGraphInstantiate_v2(void** exec, void* graph, void** node, char* log, size_t bytes) {
  if (node != nullptr) *node = nullptr;
  if (log != nullptr && bytes > 0) *log = '\0';
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
SHIM_API int cuGraphInstantiateWithParams(void** exec, void* graph, void*) {
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}
SHIM_API int cuGraphExecDestroy(void* exec) {
  Call c;
  return c->execs.Remove(exec) ? kOk : kInvalidHandle;
}
SHIM_API int cuGraphLaunch(void* exec, void* stream) {
  Call c;
  const auto graph = c->execs.Share(exec);
  Stream* s = c->FindStream(stream);
  if (graph == nullptr || s == nullptr) return kInvalidHandle;
  if (s->capture != nullptr) return c->Refuse("cuGraphLaunch into a stream that is captured");
  return c->RunGraph(*graph);
}
SHIM_API int cuGraphUpload(void*, void*) { return kOk; }
SHIM_API int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node,
                                               const DriverKernelNode* params) {
  Call c;
  KernelWork work;
  if (Code e = FromDriver(*c, params, &work)) return e;
  return SetStep(*c, c->execs.Find(exec), node, std::move(work));
}
SHIM_API int cuGraphExecMemcpyNodeSetParams(void* exec, void* node, const DriverCopy3D* copy,
                                            void*) {
  Call c;
  CopyWork work;
  if (Code e = FromDriver(*c, copy, &work)) return e;
  return SetStep(*c, c->execs.Find(exec), node, work);
}
SHIM_API int cuGraphExecMemsetNodeSetParams(void* exec, void* node, const MemsetNode* fill, void*) {
  Call c;
  FillWork work;
  if (Code e = FromNode(fill, &work)) return e;
  return SetStep(*c, c->execs.Find(exec), node, work);
}
SHIM_API int cuGraphExecHostNodeSetParams(void* exec, void* node, const HostNode* host) {
  Call c;
  if (host == nullptr) return kInvalidValue;
  return SetStep(*c, c->execs.Find(exec), node, HostWork{host->function, host->data});
}
// The result: what, and the nodes that do not fit.
SHIM_API int cuGraphExecUpdate_v2(void* exec, void* graph, void* result) {
  Call c;
  GraphExec* e = c->execs.Find(exec);
  Graph* g = c->graphs.Find(graph);
  if (e == nullptr || g == nullptr) return kInvalidHandle;
  const Code code = c->Update(e, g);
  if (result != nullptr) {
    memset(result, 0, 24);
    const int what = code == kOk ? 0 : 2;  // the topology changed
    memcpy(result, &what, sizeof what);
  }
  return code;
}

// ---- capture ----
SHIM_API int cuStreamBeginCapture_v2(void* stream, int) {
  Call c;
  return c->BeginCapture(stream, nullptr, {});
}
SHIM_API int cuStreamBeginCaptureToGraph(void* stream, void* graph, const void* const* after,
                                         const void*, size_t count, int) {
  Call c;
  const auto into = c->graphs.Share(graph);
  if (into == nullptr || (after == nullptr && count != 0)) return kInvalidHandle;
  std::vector<Node*> last;
  for (size_t k = 0; k < count; ++k) {
    Node* n = c->FindNode(after[k]);
    if (n == nullptr || n->graph != into.get()) return kInvalidValue;
    last.push_back(n);
  }
  return c->BeginCapture(stream, into, std::move(last));
}
SHIM_API int cuStreamEndCapture(void* stream, void** graph) {
  Call c;
  if (graph == nullptr) return kInvalidValue;
  Graph* made = nullptr;
  const Code code = c->EndCapture(stream, &made);
  *graph = made;
  return code;
}
SHIM_API int cuStreamIsCapturing(void* stream, int* status) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  return status == nullptr ? kInvalidValue : (*status = s->capture != nullptr, kOk);
}
SHIM_API int cuStreamGetCaptureInfo_v3(void* stream, int* status, unsigned long long* id,
                                       void** graph, const void** nodes, const void** edges,
                                       size_t* count) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  if (status == nullptr) return kInvalidValue;
  *status = s->capture != nullptr;
  if (s->capture == nullptr) return kOk;
  if (id != nullptr) *id = s->capture_id;
  if (graph != nullptr) *graph = s->capture.get();
  if (nodes != nullptr) *nodes = s->last.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = s->last.size();
  return kOk;
}
SHIM_API int cuStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id,
                                       void** graph, const void** nodes, size_t* count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, nullptr, count);
}
SHIM_API int cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int now = 0;
  if (mode == nullptr) return kInvalidValue;
  std::swap(*mode, now);
  return kOk;
}
