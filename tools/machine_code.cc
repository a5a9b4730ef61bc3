// SPDX-License-Identifier: Apache-2.0
#include "tools/machine_code.h"

#include <cstdlib>

namespace tilec::tools {

std::string Nvdisasm(const Options& options, const std::string& ptxas) {
  const auto text = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  return sass::FindNvdisasm({options.nvdisasm.empty() ? text("NVDISASM") : options.nvdisasm,
                             text("CUDA_HOME"), ptxas, text("PATH")});
}

Result<MachineCode> ReadBack(const backend::KernelImage& image, const backend::PtxasReport& report,
                             const std::string& ptxas, const std::string& nvdisasm,
                             DiagSink& diags) {
  TRY(const std::string bytes, sass::CodeOf(report.cubin, diags));
  TRY(const std::string text, sass::Disassemble(bytes, image.target, nvdisasm, diags));
  TRY(const sass::Listing in_ptx, sass::ReadPtx(image.ptx, diags));
  TRY(const sass::Listing in_sass, sass::ReadSass(text, bytes, diags));
  MachineCode code;
  code.report = sass::Compare(in_ptx, in_sass);
  code.assembly = {backend::PtxasVersion(ptxas), report.registers,
                   report.spill_store_bytes + report.spill_load_bytes, report.pipeline};
  return code;
}

}  // namespace tilec::tools
