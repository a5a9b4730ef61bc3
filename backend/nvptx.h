// LLVM's NVPTX target behind one small interface: verify, optimise, print PTX.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llvm {
class Module;
}

namespace tilec::backend {

struct NvptxError {
  bool no_target = false;
  std::string text;
};

// Sets triple and data layout of a module about to be filled.
bool PrepareModule(llvm::Module& module, const std::string& target, NvptxError* error);
// Verifies, runs the optimisation pipeline, prints PTX. If `optimized` is set it receives the IR
// after optimisation.
bool EmitPtx(llvm::Module& module, const std::string& target, std::string* optimized,
             std::string* ptx, NvptxError* error);
std::string LlvmVersion();

}  // namespace tilec::backend
