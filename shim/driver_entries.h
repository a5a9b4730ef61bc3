// Entries of the driver's interface that the runtime's calls.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim/types.h"

extern "C" {
int cuDeviceGetDefaultMemPool(void** pool, int device);
int cuDeviceGetMemPool(void** pool, int device);
int cuDeviceSetMemPool(int, void* pool);
int cuEventCreate(void** event, unsigned flags);
int cuEventDestroy_v2(void* event);
int cuEventElapsedTime(float* milliseconds, void* from, void* to);
int cuEventQuery(void* event);
int cuEventRecord(void* event, void* stream);
int cuEventRecordWithFlags(void* event, void* stream, unsigned);
int cuEventSynchronize(void* event);
int cuGraphAddChildGraphNode(void** node, void* graph, const void* const* after, size_t count,
                             void* child);
int cuGraphAddDependencies_v2(void* graph, const void* const* from, const void* const* to,
                              const void*, size_t count);
int cuGraphAddEmptyNode(void** node, void* graph, const void* const* after, size_t count);
int cuGraphAddEventRecordNode(void** node, void* graph, const void* const* after, size_t count,
                              void* event);
int cuGraphAddEventWaitNode(void** node, void* graph, const void* const* after, size_t count,
                            void* event);
int cuGraphAddHostNode(void** node, void* graph, const void* const* after, size_t count,
                       const tilec::shim::HostNode* host);
int cuGraphAddMemsetNode(void** node, void* graph, const void* const* after, size_t count,
                         const tilec::shim::MemsetNode* fill, void*);
int cuGraphClone(void** out, void* graph);
int cuGraphCreate(void** graph, unsigned);
int cuGraphDestroy(void* graph);
int cuGraphDestroyNode(void* node);
int cuGraphExecDestroy(void* exec);
int cuGraphExecHostNodeSetParams(void* exec, void* node, const tilec::shim::HostNode* host);
int cuGraphExecMemsetNodeSetParams(void* exec, void* node, const tilec::shim::MemsetNode* fill,
                                   void*);
int cuGraphExecUpdate_v2(void* exec, void* graph, void* result);
int cuGraphGetNodes(void* graph, void** nodes, size_t* count);
int cuGraphGetRootNodes(void* graph, void** nodes, size_t* count);
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long);
int cuGraphInstantiateWithParams(void** exec, void* graph, void*);
int cuGraphKernelNodeSetAttribute(void* node, int attribute, const void* value);
int cuGraphLaunch(void* exec, void* stream);
int cuGraphNodeGetType(void* node, int* type);
int cuGraphNodeSetEnabled(void* exec, void* node, unsigned enabled);
int cuGraphUpload(void*, void*);
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data);
int cuLibraryEnumerateKernels(void** kernels, unsigned count, void* handle);
int cuLibraryGetGlobal(uint64_t* address, size_t* bytes, void* library, const char* name);
int cuLibraryGetKernel(void** kernel, void* library, const char* name);
int cuLibraryGetKernelCount(unsigned* count, void* library);
int cuLibraryGetManaged(uint64_t* address, size_t* bytes, void* library, const char* name);
int cuLibraryLoadData(void** library, const void* image, int*, void**, unsigned, int*, void**,
                      unsigned);
int cuLibraryLoadFromFile(void** library, const char* path, int*, void**, unsigned, int*, void**,
                          unsigned);
int cuLibraryUnload(void* library);
int cuMemAdvise_v2(uint64_t, size_t, int, uint64_t);
int cuMemAllocAsync(uint64_t* address, size_t bytes, void*);
int cuMemAllocFromPoolAsync(uint64_t* address, size_t bytes, void* pool, void* stream);
int cuMemAllocHost_v2(void** out, size_t bytes);
int cuMemAllocPitch_v2(uint64_t* address, size_t* pitch, size_t width, size_t height, unsigned);
int cuMemFreeAsync(uint64_t address, void*);
int cuMemFreeHost(void* address);
int cuMemFree_v2(uint64_t address);
int cuMemGetInfo_v2(size_t* free, size_t* total);
int cuMemHostAlloc(void** out, size_t bytes, unsigned);
int cuMemHostGetDevicePointer_v2(uint64_t* out, void* host, unsigned);
int cuMemHostGetFlags(unsigned* flags, void*);
int cuMemHostRegister_v2(void*, size_t, unsigned);
int cuMemHostUnregister(void*);
int cuMemPoolCreate(void** pool, const void*);
int cuMemPoolDestroy(void* pool);
int cuMemPoolGetAttribute(void* pool, int attribute, void* value);
int cuMemPoolSetAccess(void* pool, const void*, size_t);
int cuMemPoolSetAttribute(void* pool, int, void*);
int cuMemPoolTrimTo(void* pool, size_t);
int cuMemPrefetchAsync_v2(uint64_t, size_t, uint64_t, unsigned, void*);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream);
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes);
int cuMemsetD2D8Async(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height,
                      void* stream);
int cuMemsetD2D8_v2(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height);
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void* stream);
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count);
int cuPointerGetAttribute(void* value, int attribute, uint64_t address);
int cuStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data, unsigned);
int cuStreamAttachMemAsync(void*, uint64_t, size_t, unsigned);
int cuStreamBeginCaptureToGraph(void* stream, void* graph, const void* const* after, const void*,
                                size_t count, int);
int cuStreamBeginCapture_v2(void* stream, int);
int cuStreamCopyAttributes(void*, void*);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority);
int cuStreamDestroy_v2(void* stream);
int cuStreamEndCapture(void* stream, void** graph);
int cuStreamGetAttribute(void* stream, int, void* value);
int cuStreamGetCaptureInfo_v3(void* stream, int* status, unsigned long long* id, void** graph,
                              const void** nodes, const void** edges, size_t* count);
int cuStreamGetDevice(void* stream, int* device);
int cuStreamGetFlags(void* stream, unsigned* flags);
int cuStreamGetId(void* stream, unsigned long long* id);
int cuStreamGetPriority(void* stream, int* priority);
int cuStreamIsCapturing(void* stream, int* status);
int cuStreamQuery(void* stream);
int cuStreamSetAttribute(void* stream, int, const void*);
int cuStreamSynchronize(void* stream);
int cuStreamWaitEvent(void* stream, void* event, unsigned);
int cuThreadExchangeStreamCaptureMode(int* mode);
}
