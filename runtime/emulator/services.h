// What CUDA's device runtime does for a kernel: printf, assert, malloc and free.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string_view>

#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

enum class Service : uint8_t { kPrintf, kAssert, kMalloc, kFree };

// −1: no function of the runtime.
int32_t ServiceFromName(std::string_view name);

// The memory of malloc. What was given back is not given out again: a use behind its end stays one,
// and nobody's leftovers look like a race. Gone with the device.
struct DeviceHeap {
  static constexpr uint64_t kBytes = 8 << 20;  // CUDA's default
  std::mutex mutex;
  uint64_t base = 0, used = 0;
  std::map<uint64_t, uint64_t> blocks;  // live: address, bytes
};

// Has the call the parameters that its service takes?
bool ServiceFits(const Program::Call& call);

// Does what the function does for the lanes of `mask`.
Step RunService(Warp& w, const Inst& i, uint32_t mask, const Program::Call& call);

// An address in the frame of the function that runs, of one lane.
uint8_t* InFrame(Warp& w, int32_t function, int lane, uint64_t offset);

}  // namespace tilec::runtime::emulator
