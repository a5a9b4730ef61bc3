// A CUDA graph of kernels in a row, whose arguments may be replaced. Instantiated when it first
// runs; a replacement changes the instance, never the graph.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "runtime/cuda_api.h"
#include "runtime/device.h"

namespace tilec::runtime::cuda {

// What a graph asks its device for.
struct GraphOwner {
  const Api* api = nullptr;
  CUcontext context = nullptr;
  std::function<Result<CUfunction>(const Module&, const std::string& entry, const LaunchConfig&,
                                   DiagSink&)>
      function;
  std::function<Result<CUstream>(StreamId, DiagSink&)> stream;
};

std::unique_ptr<LaunchGraph> NewCudaGraph(GraphOwner owner);

}  // namespace tilec::runtime::cuda
