// Solved schedules in the cache directory, beside compiled kernels. Those of one run are remembered
// besides, and where there is no directory that is all.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runtime/kernel_cache.h"
#include "scheduler/solution_store.h"
#include "support/diag.h"

namespace tilec::api {

class SolutionCache : public scheduler::SolutionStore {
 public:
  // Thread-safe, for launches of one kernel that are made side by side (divided.h), if nobody else
  // has `diags` meanwhile. `cache` may be null. Damaged entries and failures to write are warnings
  // in `diags`.
  SolutionCache(const runtime::KernelCache* cache, DiagSink& diags)
      : cache_(cache), diags_(diags) {}
  SolutionCache(const runtime::KernelCache& cache, DiagSink& diags)
      : SolutionCache(&cache, diags) {}
  std::optional<std::string> Get(const std::string& key) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto it = seen_.find(key); it != seen_.end()) return it->second;
    if (cache_ == nullptr) return std::nullopt;
    return cache_->Get(Hex(key), diags_);
  }
  void Put(const std::string& key, const std::string& label, const std::string& solution) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_[key] = solution;
    if (cache_ != nullptr) cache_->Put(Hex(key), label, solution, diags_);
  }

 private:
  static std::string Hex(const std::string& key) {
    return runtime::CacheKey().Add("solution", key).Hex();
  }
  const runtime::KernelCache* cache_;
  DiagSink& diags_;
  std::mutex mutex_;
  std::map<std::string, std::string> seen_;
};

}  // namespace tilec::api
