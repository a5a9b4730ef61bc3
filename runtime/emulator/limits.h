// Does a program fit a machine? Asked where a module is loaded (its architecture and instructions)
// and where it is launched (registers, clusters, shared memory). docs/emulator.md lists the checks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/device.h"
#include "runtime/emulator/ptx_ast.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime::emulator {

struct Program;

// "sm_90a": 90 and true. 0: it is no architecture.
int CapabilityOf(std::string_view arch, bool* specific);

// The machine can run the module's `.target`, and that has the instructions of its entries.
Result<> CheckFeatures(const PtxModule& module, const MachineLimits& machine,
                       const PtxPlaces& places, DiagSink& diags);

// What a launch asks for beyond the machine; "": nothing.
std::string Exceeds(const MachineLimits& machine, const Program& program,
                    const LaunchConfig& config);

// Registers of a thread of a launch: what the program says, or as many as its threads leave.
uint32_t RegistersAtLaunch(const MachineLimits& machine, uint32_t maxnreg, uint64_t threads);

// Clusters that run at the same time, all SMs together; at least 1.
uint64_t ResidentClusters(const MachineLimits& machine, const LaunchConfig& config,
                          uint64_t smem_bytes, uint32_t maxnreg);

}  // namespace tilec::runtime::emulator
