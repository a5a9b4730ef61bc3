// Machine code for a GPU by a `ptxas` beside the compiler, where there is one.
//
// A driver assembles one program at a time, whoever asks: on an H200 the 121 programs of a server's
// sizes took 33 s, by however many threads. Processes do not wait for each other, and what they
// made is kept on disk beside the programs, so that the next process assembles nothing. Who
// assembles changes no choice: the model is asked as if there were no ptxas.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel_image.h"
#include "runtime/device.h"
#include "runtime/kernel_cache.h"
#include "support/diag.h"

namespace tilec::api {

// Of an image, as LoadedKernel::Load takes it; "": the driver assembles.
struct MachineCode {
  std::string cubin;
  std::vector<std::string> before;
};

// Thread-safe.
class Assembler {
 public:
  // What CompilerOptions::ptxas says: "auto", "off" or a file, which must be there.
  Result<> Use(const std::string& option, DiagSink& diags);

  // Code of all launches of the image for the device, assembled beside each other, or none: without
  // a ptxas, where it fails, and for what is no GPU. `cache` may be null.
  MachineCode CodeOf(const backend::KernelImage& image, const runtime::Device& device,
                     const runtime::KernelCache* cache, DiagSink& diags);
  // Nothing is assembled from here on: the driver takes no such code, or ptxas no such text.
  void Stop() { stopped_ = true; }
  const std::string& ptxas() const { return ptxas_; }

 private:
  // `failed`: what ptxas said, where it was asked and failed.
  std::string Assemble(const backend::KernelImage& launch, const std::string& isa,
                       const runtime::KernelCache* cache, std::string* failed, DiagSink& diags);

  std::string ptxas_;  // "": there is none
  std::string stamp_;  // of that file: another version's code is not taken for its own
  std::atomic<bool> stopped_{false};

  // What was made, by its text: classes of sizes whose choices differ may have one program, and so
  // may two handles of a kernel.
  std::optional<std::string> Made(const std::string& key);
  void Keep(const std::string& key, const std::string& cubin);
  static constexpr size_t kMostBytes = size_t{32} << 20;
  std::mutex mutex_;  // of what follows
  std::map<std::string, std::string> made_;
  size_t made_bytes_ = 0;
};

}  // namespace tilec::api
