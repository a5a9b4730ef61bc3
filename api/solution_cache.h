// Solved schedules in the cache directory, beside compiled kernels.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/kernel_cache.h"
#include "scheduler/solution_store.h"
#include "support/diag.h"

namespace tilec::api {

class SolutionCache : public scheduler::SolutionStore {
 public:
  // Damaged entries and failures to write are warnings in `diags`.
  SolutionCache(const runtime::KernelCache& cache, DiagSink& diags)
      : cache_(cache), diags_(diags) {}
  std::optional<std::string> Get(const std::string& key) override {
    return cache_.Get(Hex(key), diags_);
  }
  void Put(const std::string& key, const std::string& label, const std::string& solution) override {
    cache_.Put(Hex(key), label, solution, diags_);
  }

 private:
  static std::string Hex(const std::string& key) {
    return runtime::CacheKey().Add("solution", key).Hex();
  }
  const runtime::KernelCache& cache_;
  DiagSink& diags_;
};

}  // namespace tilec::api
