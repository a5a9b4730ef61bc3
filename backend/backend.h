// The back end: one function of the warp level becomes PTX and the data a launcher needs.
//
// LLVM is behind this header; nothing of it shows. Compile is deterministic and re-entrant (its own
// LLVMContext per call), so kernels may be compiled on several threads.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "backend/kernel_image.h"
#include "ir/function.h"
#include "ir/target.h"
#include "support/diag.h"
#include "support/result.h"
#include "support/source.h"

namespace tilec::backend {

struct BackendOptions {
  explicit BackendOptions(const ir::Target& on) : target(on.arch), machine(&on) {}
  std::string target;  // the architecture
  const ir::Target* machine;
  bool line_info = true;  // .loc directives and KernelImage::lines
  // What the output calls source files, by id; their paths where one is missing. Paths say where
  // the files lie on this machine, which the bytes of a kernel should not depend on.
  std::map<int32_t, std::string> file_names;
  // If set, they receive the LLVM IR as generated and after optimisation (--emit=llvm).
  std::string* llvm_ir = nullptr;
  std::string* llvm_ir_optimized = nullptr;
};

// `fn` is a verified function of Level::kWarp.
Result<KernelImage> Compile(const ir::Function& fn, const SourceMap& sources,
                            const BackendOptions& options, DiagSink& diags);

// Why no code is generated for an architecture; empty: it is.
std::string WhyNotEmitted(const std::string& arch);

// "LLVM 19.1.7": part of the cache key.
std::string BackendVersion();

}  // namespace tilec::backend
