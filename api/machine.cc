// SPDX-License-Identifier: Apache-2.0
#include "api/machine.h"

#include <fmt/format.h>

#include "api/diagnostics.h"
#include "backend/backend.h"
#include "runtime/ptx_text.h"

namespace tilec::api {

Result<Machine> ReadMachine(const std::string& said, SourceMap& sources, DiagSink& diags) {
  TRY(ir::Target target, ir::ReadTarget(said, sources, diags));
  return std::make_shared<const ir::Target>(std::move(target));
}

Result<> CheckCompiles(const ir::Target& machine, DiagSink& diags) {
  const std::string why = backend::WhyNotEmitted(machine.arch);
  if (why.empty()) return Done();
  return diags.Report(kTargetNotCompiled, Span{}, machine.name, machine.arch, why)
      .Help(fmt::format("compile for {}; `tilec schedule` and `tilec explain` take any machine",
                        fmt::join(CompiledMachines(), ", ")));
}

runtime::MachineLimits LimitsOf(const ir::Target& machine) {
  const ir::TargetLimits& has = machine.limits;
  runtime::MachineLimits limits;
  limits.name = machine.name;
  limits.arch = machine.arch;
  limits.smem_bytes = static_cast<uint64_t>(has.smem_bytes);
  limits.smem_bytes_per_sm = static_cast<uint64_t>(has.smem_bytes_per_sm);
  limits.smem_reserved_bytes = static_cast<uint64_t>(has.smem_reserved_bytes);
  limits.registers = static_cast<uint64_t>(has.registers);
  limits.regs_per_thread = static_cast<uint32_t>(has.regs_per_thread);
  limits.named_barriers = static_cast<uint32_t>(has.named_barriers);
  limits.threads_per_sm = static_cast<uint32_t>(has.max_threads_per_sm);
  limits.ctas_per_sm = static_cast<uint32_t>(has.max_ctas_per_sm);
  limits.sms = static_cast<uint32_t>(has.sms);
  limits.clusters = machine.Has("clusters");
  return limits;
}

Machine MachineOfText(const std::string& ptx) {
  bool ignored = false;
  const int capability = ir::CapabilityOf(runtime::PtxTarget(ptx), &ignored);
  for (const std::string& name : ir::BuiltinMachines()) {
    DiagSink quiet;
    Result<ir::Target> machine = ir::LoadBuiltinTarget(name, quiet);
    if (machine.ok() && machine->stands_for_arch && capability > 0 &&
        ir::CapabilityOf(machine->arch, &ignored) == capability)
      return std::make_shared<const ir::Target>(*std::move(machine));
  }
  return nullptr;
}

std::vector<std::string> CompiledMachines() {
  std::vector<std::string> names;
  for (const std::string& name : ir::BuiltinMachines()) {
    DiagSink quiet;
    const Result<ir::Target> machine = ir::LoadBuiltinTarget(name, quiet);
    if (machine.ok() && backend::WhyNotEmitted(machine->arch).empty()) names.push_back(name);
  }
  return names;
}

}  // namespace tilec::api
