// A compiled kernel through ptxas and nvdisasm, and back: what `explain --sass` prints and `build`
// warns of.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/kernel_image.h"
#include "backend/ptxas.h"
#include "sass/sass.h"
#include "tools/options.h"

namespace tilec::tools {

// --nvdisasm, else where $NVDISASM, $CUDA_HOME, ptxas and $PATH lead; "" if there is none.
std::string Nvdisasm(const Options& options, const std::string& ptxas);

struct MachineCode {
  sass::Report report;
  sass::Assembly assembly;
};
// What was assembled already, read back.
Result<MachineCode> ReadBack(const backend::KernelImage& image, const backend::PtxasReport& report,
                             const std::string& ptxas, const std::string& nvdisasm,
                             DiagSink& diags);

}  // namespace tilec::tools
