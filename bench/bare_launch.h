// A kernel loaded and launched by the driver's own calls and nothing else: what launch_bench holds
// our launches against. The arguments are planned and packed once, outside of every clock.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/kernel_image.h"
#include "include/tilec/tilec.h"
#include "runtime/cuda_api.h"
#include "runtime/launch.h"

namespace tilec::bench {

class BareDriver {
 public:
  // Makes the primary context of the first GPU current.
  static Result<std::unique_ptr<BareDriver>> Open(DiagSink& diags);

  // Packs the arguments of a launch of `image`.
  Result<> Plan(const backend::KernelImage& image, const Args& args, DiagSink& diags);
  // The driver's calls from an image in memory to a kernel that may be launched. `code` is PTX,
  // which ends with a zero, or a cubin. False: the driver refused.
  bool Load(const std::string& code);
  bool Launch();
  void Wait() { api_->cuCtxSynchronize(); }
  void Unload();

 private:
  struct alignas(128) Slot {  // a tensor map is the largest argument, 128 bytes at 64
    uint8_t bytes[128];
  };

  std::unique_ptr<runtime::cuda::Api> api_;
  std::unique_ptr<runtime::Device> device_;  // encodes tensor maps
  std::string entry_;
  runtime::cuda::CUlaunchConfig config_ = {};
  runtime::cuda::CUlaunchAttribute cluster_ = {};
  std::vector<Slot> storage_;
  std::vector<void*> params_;
  runtime::cuda::CUmodule module_ = nullptr;
  runtime::cuda::CUfunction function_ = nullptr;
};

}  // namespace tilec::bench
