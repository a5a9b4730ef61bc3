// The emulator as a Device: memory and modules. Launches are in device_launch.cc.
//
// Device memory is host memory, in blocks with redzones around them, so that an address is a host
// pointer and a stray one is outside every entry of the table. A launch holds the table: memory
// cannot be freed under a running kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/device_memory.h"
#include "runtime/emulator/emu_device.h"
#include "runtime/emulator/fences.h"
#include "runtime/emulator/inspect.h"
#include "runtime/emulator/limits.h"
#include "runtime/emulator/services.h"

namespace tilec::runtime {
namespace emulator {
namespace {

// Addresses among initial values, now that every variable has its place.
void WriteAddresses(const PtxModule& module) {
  for (const Variable& v : module.variables)
    for (const Variable::Address& a : v.addresses) {
      const uint64_t value =
          a.addend + (a.variable >= 0 ? module.variables[static_cast<size_t>(a.variable)].offset
                                      : FunctionAddress(a.function));
      if (a.at + sizeof value <= v.bytes)
        memcpy(reinterpret_cast<uint8_t*>(v.offset) + a.at, &value, sizeof value);
    }
}

bool NeedsHeap(const PtxModule& module) {
  return std::any_of(module.function_names.begin(), module.function_names.end(),
                     [](const auto& f) { return f.body < 0 && f.name == "malloc"; });
}

}  // namespace

Result<DeviceAddress> EmuDevice::Alloc(uint64_t bytes, DiagSink& diags) {
  std::unique_lock lock(state_->mutex);
  return state_->heap.Add(std::max<uint64_t>(bytes, 1), false, options_.memory_limit_bytes, diags);
}

void EmuDevice::Free(DeviceAddress address) {
  std::unique_lock lock(state_->mutex);
  Forget(address);
  state_->heap.Remove(address);
}

Result<> EmuDevice::CopyIn(DeviceAddress to, const void* from, uint64_t bytes, DiagSink& diags) {
  std::shared_lock lock(state_->mutex);
  if (!state_->heap.Contains(to, bytes))
    return diags.Report(kBadHostCopy, {}, "a copy to the device", bytes, to);
  if (bytes > 0) memcpy(reinterpret_cast<void*>(to), from, bytes);
  Written(to, bytes);
  return Done();
}

Result<> EmuDevice::CopyOut(void* to, DeviceAddress from, uint64_t bytes, DiagSink& diags) {
  std::shared_lock lock(state_->mutex);
  if (!state_->heap.Contains(from, bytes))
    return diags.Report(kBadHostCopy, {}, "a copy from the device", bytes, from);
  if (bytes > 0) memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return Done();
}

Result<> EmuDevice::Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, DiagSink& diags) {
  std::shared_lock lock(state_->mutex);
  if (!state_->heap.Contains(to, bytes)) return diags.Report(kBadHostCopy, {}, "a fill", bytes, to);
  if (bytes > 0) memset(reinterpret_cast<void*>(to), byte, bytes);
  Written(to, bytes);
  return Done();
}

Result<std::unique_ptr<Module>> EmuDevice::Load(const std::string& ptx, const LoadOptions& options,
                                                DiagSink& diags) {
  auto module = std::make_unique<EmuModule>();
  module->state = state_;
  module->places = {options.name, options.lines, options.roles, options.shared};
  TRY(std::unique_ptr<PtxModule> parsed, ParsePtx(ptx, module->places, diags));
  TRY_VOID(CheckFeatures(*parsed, options_.machine, module->places, diags));
  if (module->places.notes.empty()) module->places.notes = std::move(parsed->notes);
  {
    std::unique_lock lock(state_->mutex);
    for (Variable& v : parsed->variables) {
      if (v.space != Space::kGlobal && v.space != Space::kConst) continue;
      TRY(v.offset, state_->heap.Add(std::max<uint64_t>(v.bytes, 1), v.space == Space::kConst,
                                     options_.memory_limit_bytes, diags));
      Written(v.offset, v.bytes);  // zero if nothing else is said
      if (!v.init.empty())
        memcpy(reinterpret_cast<void*>(v.offset), v.init.data(),
               std::min<size_t>(v.init.size(), v.bytes));
      module->variables.push_back(v.offset);
      module->facts.push_back({std::string(v.name), v.offset, v.bytes, v.space == Space::kConst});
    }
    WriteAddresses(*parsed);
    if (NeedsHeap(*parsed) && state_->device_heap.base == 0) {
      TRY(state_->device_heap.base,
          state_->heap.Add(DeviceHeap::kBytes, false, options_.memory_limit_bytes, diags));
    }
    if (ptx.find("%envreg") != std::string::npos) {
      TRY(module->workspace,
          state_->heap.Add(kWorkspace, false, options_.memory_limit_bytes, diags));
      module->variables.push_back(module->workspace);
    }
  }
  for (const Entry& entry : parsed->entries) {
    Decoder decoder(*parsed, entry, module->places, diags);
    auto program = decoder.Run();
    if (!program.ok()) return DiagSink::Propagate();
    module->programs.push_back(std::move(*program));
  }
  return std::unique_ptr<Module>(std::move(module));
}

Result<StreamId> EmuDevice::NewStream(DiagSink&) {
  std::unique_lock lock(state_->mutex);
  return ++streams_;
}

void EmuDevice::Written(uint64_t address, uint64_t bytes) {
  if (!Checks()) return;
  std::lock_guard lock(state_->judge_mutex);
  state_->written.Add(address, address + bytes);
}

void EmuDevice::Forget(uint64_t address) {
  auto it = state_->heap.blocks.find(address);
  if (!Checks() || it == state_->heap.blocks.end()) return;
  std::lock_guard lock(state_->judge_mutex);
  state_->written.Remove(address, address + it->second.size);
}

namespace {

const Program* Find(const Module& module, const std::string& entry) {
  const auto* emu = dynamic_cast<const EmuModule*>(&module);
  return emu == nullptr ? nullptr : emu->Find(entry);
}

}  // namespace
}  // namespace emulator

std::optional<EntryFacts> FactsOf(const Module& module, const std::string& entry) {
  const emulator::Program* p = emulator::Find(module, entry);
  if (p == nullptr) return std::nullopt;
  EntryFacts facts;
  facts.parameters = p->params;
  facts.shared_bytes = p->shared_static;
  facts.local_bytes = p->local_bytes;
  facts.registers = p->maxnreg;
  for (int k = 0; k < 3; ++k) {
    facts.required_block[k] = p->reqntid[k];
    facts.most_block[k] = p->maxntid[k];
    facts.required_cluster[k] = p->reqcluster[k];
  }
  return facts;
}

std::vector<VariableFacts> VariablesOf(const Module& module) {
  const auto* emu = dynamic_cast<const emulator::EmuModule*>(&module);
  return emu == nullptr ? std::vector<VariableFacts>() : emu->facts;
}

bool ChangeOptions(Device& device, const EmulatorOptions& options) {
  auto* emu = dynamic_cast<emulator::EmuDevice*>(&device);
  if (emu == nullptr) return false;
  emu->Change(options);
  return true;
}

std::unique_ptr<Device> OpenEmulator(const EmulatorOptions& options) {
  return std::make_unique<emulator::EmuDevice>(options);
}

}  // namespace tilec::runtime
