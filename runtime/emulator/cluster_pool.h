// The clusters of a launch on a pool of threads. They are independent; one that spends its budget
// without finishing makes room for the next, so kernels whose CTAs wait for each other make
// progress. The fault of the smallest cluster number is reported, whatever the number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

// Runs every cluster of a launch. Returns the faulted cluster, if any.
class Pool {
 public:
  // `memory`: what the clusters of one thread may take.
  Pool(Launch* launch, uint64_t clusters, int threads, uint64_t memory)
      : launch_(launch), clusters_(clusters), threads_(threads), memory_(memory) {}

  Execution& execution() { return execution_; }

  bool Run(Fault* fault);

 private:
  void Work();
  // A cluster is over: its fault, if it is the first, its decisions, its memory for the next one.
  void End(std::unique_ptr<Cluster> c, std::vector<std::unique_ptr<Cluster>>* spare, bool started);

  Launch* launch_;
  uint64_t clusters_;
  int threads_;
  uint64_t memory_;
  std::mutex mutex_;
  Fault fault_;
  Execution execution_;
  bool failed_ = false;
};

}  // namespace tilec::runtime::emulator
