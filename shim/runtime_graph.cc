// The runtime's interface: nodes of graphs whose parameters differ from the driver's.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/copies.h"
#include "shim/nodes.h"
#include "shim/runtime_state.h"

using namespace tilec::shim;  // NOLINT: entries have C names

namespace {

Code FromRuntimeNode(Call& c, const RuntimeKernelNode* params, KernelWork* out) {
  if (params == nullptr) return kInvalidValue;
  Function* f = nullptr;
  if (Code e = KernelOf(c, params->function, &f)) return e;
  const DriverKernelNode node = {
      f,       params->grid, params->block, params->smem_bytes, params->parameters, params->extra,
      nullptr, nullptr};
  return FromDriver(*c, &node, out);
}

CopyWork Copy(void* to, const void* from, size_t bytes) {
  CopyWork work;
  work.to = reinterpret_cast<uint64_t>(to);
  work.from = reinterpret_cast<uint64_t>(from);
  work.width = bytes;
  return work;
}

}  // namespace

SHIM_API int cudaGraphAddKernelNode(void** node, void* graph, const void* const* after,
                                    size_t count, const RuntimeKernelNode* params) {
  Call c;
  KernelWork work;
  if (Code e = FromRuntimeNode(c, params, &work)) return Last(e);
  return Last(AddTo(*c, node, graph, after, count, std::move(work)));
}
SHIM_API int cudaGraphKernelNodeSetParams(void* node, const RuntimeKernelNode* params) {
  Call c;
  KernelWork work;
  if (Code e = FromRuntimeNode(c, params, &work)) return Last(e);
  return Last(SetWork(*c, c->FindNode(node), std::move(work)));
}
SHIM_API int cudaGraphKernelNodeGetParams(void* node, RuntimeKernelNode* params) {
  Call c;
  if (params == nullptr) return Last(kInvalidValue);
  return Last(KernelParams(c->FindNode(node), params));
}
SHIM_API int cudaGraphExecKernelNodeSetParams(void* exec, void* node,
                                              const RuntimeKernelNode* params) {
  Call c;
  KernelWork work;
  if (Code e = FromRuntimeNode(c, params, &work)) return Last(e);
  return Last(SetStep(*c, c->execs.Find(exec), node, std::move(work)));
}
SHIM_API int cudaGraphAddMemcpyNode(void** node, void* graph, const void* const* after,
                                    size_t count, const RuntimeCopy3D* copy) {
  Call c;
  CopyWork work;
  if (Code e = FromRuntime(*c, copy, &work)) return Last(e);
  return Last(AddTo(*c, node, graph, after, count, work));
}
SHIM_API int cudaGraphAddMemcpyNode1D(void** node, void* graph, const void* const* after,
                                      size_t count, void* to, const void* from, size_t bytes, int) {
  Call c;
  return Last(AddTo(*c, node, graph, after, count, Copy(to, from, bytes)));
}
SHIM_API int cudaGraphExecMemcpyNodeSetParams(void* exec, void* node, const RuntimeCopy3D* copy) {
  Call c;
  CopyWork work;
  if (Code e = FromRuntime(*c, copy, &work)) return Last(e);
  return Last(SetStep(*c, c->execs.Find(exec), node, work));
}
SHIM_API int cudaGraphExecMemcpyNodeSetParams1D(void* exec, void* node, void* to, const void* from,
                                                size_t bytes, int) {
  Call c;
  return Last(SetStep(*c, c->execs.Find(exec), node, Copy(to, from, bytes)));
}
