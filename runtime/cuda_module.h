// What a device on silicon hands out: a module whose functions are looked up once, a stopwatch of
// events, and the scope in which the context of the GPU is current. The context is pushed for the
// length of each call and popped after, so the host program's own current context is never
// disturbed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda_api.h"
#include "runtime/device.h"
#include "runtime/diagnostics.h"

namespace tilec::runtime::cuda {

class ContextScope {
 public:
  ContextScope(const Api& api, CUcontext context) : api_(api) { api_.cuCtxPushCurrent(context); }
  ~ContextScope() {
    CUcontext popped = nullptr;
    api_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Api& api_;
};

class CudaModule final : public Module {
 public:
  CudaModule(const Api& api, CUcontext context, CUmodule module, std::vector<std::string> entries)
      : api_(api), context_(context), module_(module), entries_(std::move(entries)) {}
  ~CudaModule() override {
    ContextScope scope(api_, context_);
    api_.cuModuleUnload(module_);
  }
  std::vector<std::string> entries() const override { return entries_; }

  struct Function {
    CUfunction handle = nullptr;
    uint64_t smem_allowed = 48 * 1024;
    bool wide_cluster = false;
  };
  // The named function with `smem_bytes` of dynamic shared memory allowed. The context is current.
  Result<CUfunction> Get(const std::string& entry, const LaunchConfig& config, const char** call,
                         CUresult* error, DiagSink& diags) const {
    std::lock_guard<std::mutex> lock(mutex_);
    Function& f = functions_[entry];
    if (!f.handle) {
      if (std::find(entries_.begin(), entries_.end(), entry) == entries_.end())
        return diags.Report(kUnknownEntry, Span{}, "the module", entry);
      *call = "cuModuleGetFunction";
      *error = api_.cuModuleGetFunction(&f.handle, module_, entry.c_str());
      if (*error != kSuccess) f.handle = nullptr;
    }
    if (*error == kSuccess && config.smem_bytes > f.smem_allowed) {
      *call = "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)";
      *error =
          api_.cuFuncSetAttribute(f.handle, kMaxDynamicShared, static_cast<int>(config.smem_bytes));
      if (*error == kSuccess) f.smem_allowed = config.smem_bytes;
    }
    if (*error == kSuccess && !f.wide_cluster &&
        config.cluster[0] * config.cluster[1] * config.cluster[2] > 8) {
      *call = "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)";
      *error = api_.cuFuncSetAttribute(f.handle, kNonPortableCluster, 1);
      f.wide_cluster = *error == kSuccess;
    }
    return f.handle;
  }

 private:
  const Api& api_;
  CUcontext context_;
  CUmodule module_;
  std::vector<std::string> entries_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Function> functions_;
};

class CudaStopwatch final : public Stopwatch {
 public:
  using StreamOf = std::function<Result<CUstream>(StreamId, DiagSink&)>;
  CudaStopwatch(const Api& api, CUcontext context, StreamOf stream_of)
      : api_(api), context_(context), stream_of_(std::move(stream_of)) {}
  ~CudaStopwatch() override {
    ContextScope scope(api_, context_);
    if (from_) api_.cuEventDestroy(from_);
    if (to_) api_.cuEventDestroy(to_);
  }

  Result<> Start(StreamId id, DiagSink& diags) override {
    TRY(const CUstream stream, stream_of_(id, diags));
    ContextScope scope(api_, context_);
    if (!from_) TRY_VOID(Ok(api_.cuEventCreate(&from_, 0), "cuEventCreate", diags));
    if (!to_) TRY_VOID(Ok(api_.cuEventCreate(&to_, 0), "cuEventCreate", diags));
    return Ok(api_.cuEventRecord(from_, stream), "cuEventRecord", diags);
  }
  Result<double> Stop(StreamId id, DiagSink& diags) override {
    TRY(const CUstream stream, stream_of_(id, diags));
    ContextScope scope(api_, context_);
    float ms = 0;
    TRY_VOID(Ok(api_.cuEventRecord(to_, stream), "cuEventRecord", diags));
    TRY_VOID(Ok(api_.cuEventSynchronize(to_), "cuEventSynchronize", diags));
    TRY_VOID(Ok(api_.cuEventElapsedTime(&ms, from_, to_), "cuEventElapsedTime", diags));
    return static_cast<double>(ms);
  }

 private:
  Result<> Ok(CUresult r, const char* call, DiagSink& diags) const {
    if (r == kSuccess) return Done();
    return diags.Report(kDriverCall, Span{}, call, api_.ErrorText(r), api_.ErrorName(r));
  }

  const Api& api_;
  CUcontext context_;
  StreamOf stream_of_;
  CUevent from_ = nullptr, to_ = nullptr;
};

}  // namespace tilec::runtime::cuda
