// The driver's interface: launches, streams, events.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/api.h"

using namespace tilec::shim;  // NOLINT: entries have C names

// ---- launches ----
SHIM_API int cuLaunchKernelEx(const DriverLaunchConfig* config, void* function, void** parameters,
                              void** extra) {
  Call c;
  if (config == nullptr) return kInvalidValue;
  Function* f = c->FunctionOf(function);
  if (f == nullptr) return kInvalidHandle;
  KernelWork work;
  const Dim3 g = config->grid, b = config->block;
  for (int k = 0; k < 3; ++k) {
    work.config.grid[k] = k == 0 ? g.x : k == 1 ? g.y : g.z;
    work.config.block[k] = k == 0 ? b.x : k == 1 ? b.y : b.z;
  }
  work.config.smem_bytes = config->smem_bytes;
  if (Code e = c->Attributes(config->attributes, config->attribute_count, &work)) return e;
  if (Code e = c->Arguments(f, parameters, extra, &work)) return e;
  return c->Submit(config->stream, std::move(work));
}
SHIM_API int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned smem_bytes, void* stream,
                            void** parameters, void** extra) {
  const DriverLaunchConfig config = {{gx, gy, gz}, {bx, by, bz}, smem_bytes, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, function, parameters, extra);
}
SHIM_API int cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned smem_bytes,
                                       void* stream, void** parameters) {
  LaunchAttribute cooperative = {};
  cooperative.id = LaunchAttribute::kCooperative;
  cooperative.value.flag = 1;
  const DriverLaunchConfig config = {{gx, gy, gz}, {bx, by, bz}, smem_bytes,
                                     stream,       &cooperative, 1};
  return cuLaunchKernelEx(&config, function, parameters, nullptr);
}
SHIM_API int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  Call c;
  return c->Submit(stream, HostWork{function, data});
}

// ---- streams ----
SHIM_API int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  Call c;
  if (stream == nullptr || flags > 1) return kInvalidValue;
  auto made = std::make_shared<Stream>();
  made->flags = flags;
  made->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  static uint64_t next = 1;
  made->id = ++next;
  *stream = c->streams.Add(std::move(made));
  return kOk;
}
SHIM_API int cuStreamCreate(void** stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}
SHIM_API int cuStreamDestroy_v2(void* stream) {
  Call c;
  return c->streams.Remove(stream) ? kOk : kInvalidHandle;
}
SHIM_API int cuStreamSynchronize(void* stream) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  return s->capture != nullptr ? kCaptureUnsupported : c->sticky();
}
SHIM_API int cuStreamQuery(void* stream) { return cuStreamSynchronize(stream); }
SHIM_API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  Call c;
  return c->WaitEvent(stream, event);
}
SHIM_API int cuStreamGetPriority(void* stream, int* priority) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  return priority == nullptr ? kInvalidValue : (*priority = s->priority, kOk);
}
SHIM_API int cuStreamGetFlags(void* stream, unsigned* flags) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  return flags == nullptr ? kInvalidValue : (*flags = s->flags, kOk);
}
SHIM_API int cuStreamGetId(void* stream, unsigned long long* id) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  return id == nullptr ? kInvalidValue : (*id = s->id, kOk);
}
SHIM_API int cuStreamGetCtx(void* stream, void** context) {
  Call c;
  if (c->FindStream(stream) == nullptr) return kInvalidHandle;
  return context == nullptr ? kInvalidValue : (*context = TheContext(), kOk);
}
SHIM_API int cuStreamGetDevice(void* stream, int* device) {
  Call c;
  if (c->FindStream(stream) == nullptr) return kInvalidHandle;
  return device == nullptr ? kInvalidValue : (*device = 0, kOk);
}
SHIM_API int cuStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data,
                                 unsigned) {
  Call c;
  Stream* s = c->FindStream(stream);
  if (s == nullptr) return kInvalidHandle;
  if (function == nullptr) return kInvalidValue;
  if (s->capture != nullptr) return kCaptureUnsupported;
  function(stream, c->sticky(), data);
  return kOk;
}
SHIM_API int cuStreamAttachMemAsync(void*, uint64_t, size_t, unsigned) { return kOk; }
SHIM_API int cuStreamCopyAttributes(void*, void*) { return kOk; }
SHIM_API int cuStreamSetAttribute(void* stream, int, const void*) {
  Call c;
  return c->FindStream(stream) == nullptr ? kInvalidHandle : kOk;
}
SHIM_API int cuStreamGetAttribute(void* stream, int, void* value) {
  Call c;
  if (c->FindStream(stream) == nullptr) return kInvalidHandle;
  if (value == nullptr) return kInvalidValue;
  memset(value, 0, 64);
  return kOk;
}

// ---- events ----
SHIM_API int cuEventCreate(void** event, unsigned flags) {
  Call c;
  if (event == nullptr) return kInvalidValue;
  auto made = std::make_shared<Event>();
  made->flags = flags;
  *event = c->events.Add(std::move(made));
  return kOk;
}
SHIM_API int cuEventDestroy_v2(void* event) {
  Call c;
  return c->events.Remove(event) ? kOk : kInvalidHandle;
}
SHIM_API int cuEventRecord(void* event, void* stream) {
  Call c;
  return c->RecordEvent(event, stream);
}
SHIM_API int cuEventRecordWithFlags(void* event, void* stream, unsigned) {
  return cuEventRecord(event, stream);
}
SHIM_API int cuEventSynchronize(void* event) {
  Call c;
  return c->events.Find(event) == nullptr ? kInvalidHandle : c->sticky();
}
SHIM_API int cuEventQuery(void* event) { return cuEventSynchronize(event); }
SHIM_API int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  Call c;
  const Event *a = c->events.Find(from), *b = c->events.Find(to);
  if (a == nullptr || b == nullptr || !a->recorded || !b->recorded) return kInvalidHandle;
  if (milliseconds == nullptr) return kInvalidValue;
  *milliseconds = static_cast<float>(b->milliseconds - a->milliseconds);
  return kOk;
}
SHIM_API int cuEventElapsedTime_v2(float* milliseconds, void* from, void* to) {
  return cuEventElapsedTime(milliseconds, from, to);
}
