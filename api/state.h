// What the public handles stand for. Private to api/.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/assembler.h"
#include "api/call.h"
#include "api/device_state.h"
#include "api/improve.h"
#include "api/known_classes.h"
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
  api::Assembler assembler;
  std::mutex measuring;  // one measurement at a time: they would slow each other down
  std::unique_ptr<api::Improver> improver;  // null: nobody asked; the last, so that it ends first
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
  std::optional<api::ClassReader> reader;  // none: launches are not told by their class

  std::mutex mutex;  // of what follows
  struct Tuned {
    frontend::Values values;  // of tunes
    int64_t split = 1;        // CTAs for each tile
    int64_t pack = 1;         // instances whose rows are one tile
    bool share_copies = false;
    bool stays = false;
    std::string schedule = {};  // "": as the options say
    bool operator==(const Tuned&) const = default;
  };
  std::map<std::string, Tuned> tunes;  // chosen so far, by the sizes of the launch or their class
  static constexpr size_t kMemories = 4;  // some ten megabytes each
  std::map<std::string, std::shared_ptr<api::TuneMemory>>
      memories;  // by facts and what is compiled in
  std::map<std::string, std::shared_ptr<Specialisation>> specialisations;
  ResolvedStore resolved;
  api::KnownClasses classes;
  // What was found since the last launch that was resolved (api/improve.h): a note each. `resolved`
  // begins anew then, and what was resolved by choices of before is not kept.
  struct Improved {
    std::string sizes, what;
    double us = 0, before_us = 0;
  };
  std::vector<Improved> improved;
  std::set<std::string> asked;  // keys of `tunes` that were given to the improver
  uint64_t generation = 0;
};

}  // namespace tilec
