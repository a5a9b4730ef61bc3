// Memory and modules of the emulated device. Device memory is host memory, in blocks with redzones
// around them, so that an address is a host pointer and a stray one is outside every entry of the
// table. Heap and modules share their State, so that either may go first.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <shared_mutex>

#include "runtime/device.h"
#include "runtime/emulator/decode.h"
#include "runtime/emulator/fences.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/inspect.h"
#include "runtime/emulator/judge/global.h"
#include "runtime/emulator/services.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

constexpr uint64_t kRedzone = 512;
constexpr uint64_t kWorkspace = 256;  // of a grid whose CTAs meet: %envreg1 and %envreg2
constexpr uint64_t kAlign = 256;

struct Heap {
  struct Block {
    HostMemory bytes;
    uint64_t size;
    bool read_only;
  };
  std::map<uint64_t, Block> blocks;  // by address
  uint64_t used = 0;

  // The address; a diagnostic where that is more than `limit` together, or than the host has.
  Result<uint64_t> Add(uint64_t size, bool read_only, uint64_t limit, DiagSink& diags) {
    if (size > limit || used > limit - size)
      return diags.Report(kOutOfMemory, {}, size, used, limit);
    HostMemory bytes(size + 2 * kRedzone, kAlign);
    if (!bytes.ok()) return diags.Report(kNoHostMemory, {}, size);
    uint64_t address = reinterpret_cast<uint64_t>(bytes.data()) + kRedzone;
    FenceOff(bytes.data(), kRedzone);
    FenceOff(bytes.data() + kRedzone + size, kRedzone);
    blocks.emplace(address, Block{std::move(bytes), size, read_only});
    used += size;
    return address;
  }
  void Remove(uint64_t address) {
    auto it = blocks.find(address);
    if (it == blocks.end()) return;
    used -= it->second.size;
    blocks.erase(it);
  }
  bool Contains(uint64_t address, uint64_t bytes) const {
    auto it = blocks.upper_bound(address);
    if (it == blocks.begin()) return false;
    --it;
    uint64_t offset = address - it->first;
    return offset <= it->second.size && bytes <= it->second.size - offset;
  }
};

// Shared by the device and its modules, so that either may go first.
struct State {
  std::shared_mutex mutex;
  Heap heap;
  // What the judge knows of memory between launches; one checked launch at a time.
  std::mutex judge_mutex;
  judge::WrittenRanges written;
  DeviceHeap device_heap;  // of malloc in kernels; made when a program asks
};

class EmuModule : public Module {
 public:
  ~EmuModule() override {
    std::unique_lock lock(state->mutex);
    for (uint64_t address : variables) state->heap.Remove(address);
  }
  std::vector<std::string> entries() const override {
    std::vector<std::string> names;
    for (const auto& p : programs) names.push_back(p->name);
    return names;
  }
  const Program* Find(const std::string& entry) const {
    for (const auto& p : programs)
      if (p->name == entry) return p.get();
    return nullptr;
  }

  std::shared_ptr<State> state;
  std::vector<uint64_t> variables;
  std::vector<VariableFacts> facts;  // of the variables that the text names
  uint64_t workspace = 0;            // of cooperative launches, zero when a grid begins
  PtxPlaces places;
  std::vector<std::unique_ptr<Program>> programs;
};

}  // namespace tilec::runtime::emulator
