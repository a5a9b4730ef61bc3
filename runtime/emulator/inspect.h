// What a host that did not compile a kernel has to ask about it: parameters, memory, variables; and
// the settings of the next launches. For hosts that stand in for a driver (shim/).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device.h"

namespace tilec::runtime {

struct EntryFacts {
  std::vector<std::pair<uint32_t, uint32_t>> parameters;  // offset, bytes
  uint64_t shared_bytes = 0;                              // without the dynamic ones
  uint64_t local_bytes = 0;                               // of a thread
  uint32_t required_block[3] = {}, most_block[3] = {}, required_cluster[3] = {};  // 0: not said
  uint32_t registers = 0;  // of a thread; 0: not said
};
// nullopt: no module of the emulator, or it has no such entry.
std::optional<EntryFacts> FactsOf(const Module& module, const std::string& entry);

struct VariableFacts {
  std::string name;
  DeviceAddress address = 0;
  uint64_t bytes = 0;
  bool constant = false;
};
// Of global and constant memory, in the order of the text.
std::vector<VariableFacts> VariablesOf(const Module& module);

// Settings of later launches. Machine, report and limits of memory should stay what they are.
// False: no device of the emulator.
bool ChangeOptions(Device& device, const EmulatorOptions& options);

}  // namespace tilec::runtime
