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
#include "api/resolved.h"
#include "api/stdlib.h"
#include "api/tune_memory.h"
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

  std::mutex mutex;  // of what follows
  struct Tuned {
    frontend::Values values;  // of tunes
    int64_t split = 1;        // CTAs for each tile
    int64_t pack = 1;         // instances whose rows are one tile
    bool share_copies = false;
    bool stays = false;
  };
  std::map<std::string, Tuned> tunes;  // chosen so far, by the sizes of the launch or their class
  struct Memory {
    std::mutex mutex;
    api::TuneMemory tunes;
  };
  static constexpr size_t kMemories = 4;                    // some ten megabytes each
  std::map<std::string, std::shared_ptr<Memory>> memories;  // by facts and what is compiled in
  std::map<std::string, std::shared_ptr<Specialisation>> specialisations;
  ResolvedStore resolved;
};

}  // namespace tilec
