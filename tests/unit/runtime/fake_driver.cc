// A stand-in for libcuda.so.1, so that the CUDA device is tested where there is no GPU: memory is
// host memory, "assembling" looks for the word SYNTAX_ERROR, and a launch records what it was given
// in the memory its first argument points to. Built in variants:
//   FAKE_INIT=<result of cuInit>   FAKE_COUNT=<devices>   FAKE_OLD: no cuTensorMapEncodeTiled
//   FAKE_SILENT: a launch records nothing, so that its first argument may be anything, and no
//     map is refused
//   FAKE_TIMED: that, and a clock: a launch takes 10 microseconds and one for each CTA
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/cuda_api.h"

using namespace tilec::runtime::cuda;

#ifndef FAKE_INIT
#define FAKE_INIT 0
#endif
#ifndef FAKE_COUNT
#define FAKE_COUNT 1
#endif

#ifdef FAKE_TIMED
#define FAKE_SILENT
#endif

namespace {
double g_us = 0;  // what launches so far took
void Pass(uint32_t x, uint32_t y, uint32_t z) {
  g_us += 10 + static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
}
thread_local int g_context_depth = 0;  // as the driver: each thread has its own
uint64_t g_smem_allowed = 0;
int g_local = 0;  // bytes of a thread of what was loaded last
CUresult NeedContext() { return g_context_depth > 0 ? 0 : 201; }

struct Node {
  CUkernelNodeParams params;
  uint64_t first;  // bytes of the first argument: the driver copies what it is given
  uint32_t cluster;
};
uint64_t First(const CUkernelNodeParams& p) {
  uint64_t bytes = 0;
  return std::memcpy(&bytes, p.parameters[0], 8), bytes;
}
void Record(uint64_t to, const uint32_t (&seen)[6]) {
#ifndef FAKE_SILENT
  std::memcpy(reinterpret_cast<void*>(to), seen, sizeof seen);
#else
  (void)to, (void)seen;
#endif
}
}  // namespace

extern "C" {
// How much was asked of the driver: maps encoded, maps moved, launches, graphs instantiated, nodes
// whose parameters were replaced, graphs launched, modules loaded, those of machine code, functions
// brought to the device.
uint64_t fake_counts[9] = {};
CUresult cuInit(unsigned) { return FAKE_INIT; }
CUresult cuDriverGetVersion(int* v) { return *v = 12040, 0; }
CUresult cuGetErrorName(CUresult e, const char** t) {
  *t = e == 222   ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
       : e == 218 ? "CUDA_ERROR_INVALID_PTX"
                  : "CUDA_ERROR_FAKE";
  return 0;
}
CUresult cuGetErrorString(CUresult, const char** t) { return *t = "a fake error", 0; }
CUresult cuDeviceGetCount(int* n) { return *n = FAKE_COUNT, 0; }
CUresult cuDeviceGet(CUdevice* d, int ordinal) { return *d = ordinal, 0; }
CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  return std::snprintf(name, static_cast<size_t>(length), "Fake GPU"), 0;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { return *bytes = size_t{8} << 30, 0; }
CUresult cuDeviceGetAttribute(int* v, int a, CUdevice) {
  *v = a == kCapabilityMajor       ? 9
       : a == kMultiprocessors     ? 4
       : a == kSharedPerBlockOptin ? 232448
                                   : 0;
  return 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice) {
  return *c = reinterpret_cast<CUcontext>(uintptr_t{16}), 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return 0; }
CUresult cuCtxPushCurrent_v2(CUcontext) { return ++g_context_depth, 0; }
CUresult cuCtxPopCurrent_v2(CUcontext*) { return --g_context_depth, 0; }
CUresult cuCtxGetCurrent(CUcontext* c) { return *c = nullptr, 0; }
CUresult cuCtxSynchronize() { return NeedContext(); }
CUresult cuMemAlloc_v2(CUdeviceptr* p, size_t n) {
  if (n > (size_t{1} << 32)) return 2;
  return *p = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (n + 255) / 256 * 256)),
         NeedContext();
}
CUresult cuMemFree_v2(CUdeviceptr p) {
  return std::free(reinterpret_cast<void*>(p)), NeedContext();
}
CUresult cuMemGetInfo_v2(size_t* f, size_t* t) { return *f = *t = 0, NeedContext(); }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
  return std::memcpy(reinterpret_cast<void*>(to), from, n), NeedContext();
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
  return std::memcpy(to, reinterpret_cast<void*>(from), n), NeedContext();
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char b, size_t n) {
  return std::memset(reinterpret_cast<void*>(to), b, n), NeedContext();
}
CUresult cuModuleLoadDataEx(CUmodule* m, const void* image, unsigned n, int* options,
                            void** values) {
  const char* text = static_cast<const char*>(image);
  if (std::strstr(text, ".version 99")) return 222;
  g_local = std::strstr(text, "SPILLS") ? 96 : 0;
  if (std::strstr(text, "SYNTAX_ERROR")) {
    for (unsigned i = 0; i < n; ++i)
      if (options[i] == kErrorLogBuffer)
        std::strcpy(static_cast<char*>(values[i]),
                    "ptxas kernel.ptx, line 7; error : Parsing error\n");
    return 218;
  }
  __atomic_fetch_add(&fake_counts[6], 1, __ATOMIC_RELAXED);
  if (text[0] == 0x7f) __atomic_fetch_add(&fake_counts[7], 1, __ATOMIC_RELAXED);
  return *m = reinterpret_cast<CUmodule>(uintptr_t{32}), NeedContext();
}
CUresult cuModuleUnload(CUmodule) { return NeedContext(); }
CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char*) {
  return *f = reinterpret_cast<CUfunction>(uintptr_t{48}), NeedContext();
}
CUresult cuFuncLoad(CUfunction) {
  __atomic_fetch_add(&fake_counts[8], 1, __ATOMIC_RELAXED);
  return NeedContext();
}
CUresult cuFuncGetAttribute(int* v, int a, CUfunction) {
  *v = a == kLocalSize ? g_local : a == kRegisters ? 168 : 0;
  return 0;
}
CUresult cuFuncSetAttribute(CUfunction, int a, int v) {
  if (a == kMaxDynamicShared && static_cast<uint64_t>(v) > g_smem_allowed)
    g_smem_allowed = static_cast<uint64_t>(v);
  return NeedContext();
}
CUresult cuStreamCreate(CUstream* s, unsigned) {
  return *s = reinterpret_cast<CUstream>(uintptr_t{64}), NeedContext();
}
CUresult cuStreamDestroy_v2(CUstream) { return NeedContext(); }
CUresult cuStreamSynchronize(CUstream) { return NeedContext(); }
CUresult cuStreamGetCtx(CUstream, CUcontext* c) { return *c = nullptr, 0; }
#ifdef FAKE_TIMED
CUresult cuEventCreate(CUevent* e, unsigned) {
  return *e = reinterpret_cast<CUevent>(new double(0)), NeedContext();
}
CUresult cuEventDestroy_v2(CUevent e) { return delete reinterpret_cast<double*>(e), NeedContext(); }
CUresult cuEventRecord(CUevent e, CUstream) {
  return *reinterpret_cast<double*>(e) = g_us, NeedContext();
}
CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  const double us = *reinterpret_cast<double*>(to) - *reinterpret_cast<double*>(from);
  return *ms = static_cast<float>(1e-3 * us), 0;
}
#else
CUresult cuEventCreate(CUevent* e, unsigned) { return *e = nullptr, NeedContext(); }
CUresult cuEventDestroy_v2(CUevent) { return NeedContext(); }
CUresult cuEventRecord(CUevent, CUstream) { return NeedContext(); }
CUresult cuEventElapsedTime(float* ms, CUevent, CUevent) { return *ms = 1.5f, 0; }
#endif
CUresult cuEventSynchronize(CUevent) { return NeedContext(); }
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction, void** params, void**) {
  if (c->smem_bytes > 49152 && c->smem_bytes > g_smem_allowed) return 1;
  Pass(c->grid_x, c->grid_y, c->grid_z);
  ++fake_counts[2];
  uint64_t to = 0;
  std::memcpy(&to, params[0], 8);
  Record(to, {c->grid_x, c->block_x, c->smem_bytes, c->attribute_count,
              c->attribute_count ? c->attributes[0].value.cluster.x : 0,
              c->attribute_count == 1 && c->attributes[0].id == kProgrammaticStreamSerialization &&
                  c->attributes[0].value.dependent});
  return NeedContext();
}
CUresult cuGraphCreate(CUgraph* g, unsigned) {
  return *g = reinterpret_cast<CUgraph>(new std::vector<Node*>()), NeedContext();
}
CUresult cuGraphDestroy(CUgraph g) {
  auto* nodes = reinterpret_cast<std::vector<Node*>*>(g);
  for (Node* n : *nodes) delete n;
  return delete nodes, NeedContext();
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* n, CUgraph g, const CUgraphNode* after, size_t count,
                                 const CUkernelNodeParams* p) {
  auto* nodes = reinterpret_cast<std::vector<Node*>*>(g);
  if (count != (nodes->empty() ? 0 : 1)) return 1;
  if (count && reinterpret_cast<Node*>(*after) != nodes->back()) return 1;
  nodes->push_back(new Node{*p, First(*p), 1});
  return *n = reinterpret_cast<CUgraphNode>(nodes->back()), NeedContext();
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode n, int a, const void* value) {
  if (a != kClusterDimension) return 1;
  return std::memcpy(&reinterpret_cast<Node*>(n)->cluster, value, 4), NeedContext();
}
// An instance is a copy of the nodes, each beside the node that it is of.
using Instance = std::vector<std::pair<Node*, Node>>;
CUresult cuGraphInstantiateWithFlags(CUgraphExec* e, CUgraph g, unsigned long long) {
  auto* made = new Instance();
  for (Node* n : *reinterpret_cast<std::vector<Node*>*>(g)) made->emplace_back(n, *n);
  ++fake_counts[3];
  return *e = reinterpret_cast<CUgraphExec>(made), NeedContext();
}
CUresult cuGraphExecDestroy(CUgraphExec e) {
  return delete reinterpret_cast<Instance*>(e), NeedContext();
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode n,
                                           const CUkernelNodeParams* p) {
  for (auto& [node, copy] : *reinterpret_cast<Instance*>(e))
    if (node == reinterpret_cast<Node*>(n)) {
      ++fake_counts[4];
      copy.params = *p, copy.first = First(*p);
      return NeedContext();
    }
  return 1;
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream) {
  ++fake_counts[5];
  for (const auto& [node, copy] : *reinterpret_cast<Instance*>(e)) {
    Pass(copy.params.grid_x, copy.params.grid_y, copy.params.grid_z);
    Record(copy.first,
           {copy.params.grid_x, copy.params.block_x, copy.params.smem_bytes, 1, copy.cluster, 0});
  }
  return NeedContext();
}
CUresult cuTensorMapReplaceAddress(CUtensorMap* m, void* base) {
  ++fake_counts[1];
  m->opaque[1] = reinterpret_cast<uint64_t>(base);
  return NeedContext();
}
#ifndef FAKE_OLD
CUresult cuTensorMapEncodeTiled(CUtensorMap* m, int dtype, uint32_t rank, void* base,
                                const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*,
                                int, int swizzle, int l2, int) {
#ifndef FAKE_SILENT
  if (rank == 5) return 1;
#endif
  ++fake_counts[0];
  m->opaque[1] = reinterpret_cast<uint64_t>(base);
  m->opaque[0] = static_cast<uint64_t>(dtype) | static_cast<uint64_t>(rank) << 8 |
                 static_cast<uint64_t>(swizzle) << 16 | static_cast<uint64_t>(l2) << 24;
  return NeedContext();
}
#endif
}  // extern "C"
