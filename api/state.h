// What the public handles stand for. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/call.h"
#include "api/pipeline.h"
#include "api/stdlib.h"
#include "include/tilec/tilec.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "runtime/launch.h"

namespace tilec {

struct DeviceState {
  std::unique_ptr<runtime::Device> device;
};

struct CompilerState {
  api::PipelineOptions options;
  api::StandardLibrary library;
  std::optional<runtime::KernelCache> cache;
};

// One specialisation: an image, and where it is loaded. Compiling and loading are done once, by
// whoever comes first, while later comers of the same key wait.
struct Specialisation {
  std::mutex mutex;
  std::optional<backend::KernelImage> image;
  struct On {
    std::shared_ptr<DeviceState> device;  // before the kernel: outlives it
    std::unique_ptr<runtime::LoadedKernel> kernel;
  };
  std::map<const DeviceState*, On> loaded;
};

struct KernelState {
  std::shared_ptr<CompilerState> compiler;
  api::Loaded loaded;
  frontend::Signature signature;
  api::RuntimeSignature runtime_signature;

  // What the last launch resolved to: a launch like it skips the binding.
  struct Last {
    Args args;
    const DeviceState* device = nullptr;
    runtime::LaunchArgs launch;
    runtime::LoadedKernel* kernel = nullptr;
  };
  std::mutex mutex;  // of the two below
  std::map<std::string, std::shared_ptr<Specialisation>> specialisations;
  std::shared_ptr<const Last> last;
};

}  // namespace tilec
