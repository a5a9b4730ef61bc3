// The machine that --target, or CompilerOptions::target, means: read once, then shared by all that
// is compiled with the same options.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "ir/target.h"
#include "runtime/machine_limits.h"
#include "support/diag.h"
#include "support/result.h"
#include "support/source.h"

namespace tilec::api {

using Machine = std::shared_ptr<const ir::Target>;

// `said`: a name, an architecture or a file (ir::ReadTarget); a file becomes a source of `sources`.
Result<Machine> ReadMachine(const std::string& said, SourceMap& sources, DiagSink& diags);
// Can code be generated for it? Says what is missing: of the architecture, or of the products.
Result<> CheckCompiles(const ir::Target& machine, DiagSink& diags);
// What the emulator enforces when it stands for the machine.
runtime::MachineLimits LimitsOf(const ir::Target& machine);
// The machine that stands for what a PTX text is for, whoever wrote it; null: none does.
Machine MachineOfText(const std::string& ptx);
// Names of the machines that pass.
std::vector<std::string> CompiledMachines();

}  // namespace tilec::api
