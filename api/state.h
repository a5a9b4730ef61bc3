// What the public handles stand for. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/device_state.h"
#include "api/pipeline.h"
#include "api/stdlib.h"
#include "include/tilec/tilec.h"
#include "runtime/kernel_cache.h"
#include "runtime/launch.h"

namespace tilec {

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

  // What a launch resolved to: a launch like it skips binding, checking and packing. Host programs
  // rotate among a few buffers, so several are kept and the oldest makes room.
  struct Resolved {
    uint64_t hash = 0;
    Args args;
    const DeviceState* device = nullptr;
    runtime::LoadedKernel* kernel = nullptr;
    std::shared_ptr<const runtime::LoadedKernel::Ready> ready;
  };
  static constexpr size_t kKept = 64;
  std::mutex mutex;  // of what follows
  struct Tuned {
    frontend::Values values;  // of tunes
    int64_t split = 1;        // CTAs for each tile
  };
  std::map<std::string, Tuned> tunes;  // chosen so far, by the sizes of the launch
  std::map<std::string, std::shared_ptr<Specialisation>> specialisations;
  std::vector<std::shared_ptr<const Resolved>> resolved;
  size_t oldest = 0;
};

}  // namespace tilec
