// A launch that was resolved: the loaded kernel, with arguments that were checked and packed. The
// store keeps the last ones of a kernel or a bundle, so that a launch like one before skips the
// choice, the checks and the packing. Private to api/; needs no compiler.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "api/device_state.h"
#include "include/tilec/tilec.h"
#include "runtime/launch.h"

namespace tilec {

struct Resolved {
  std::string kernel;  // of a bundle; "" where there is one kernel only
  const DeviceState* device = nullptr;
  Args args;
  runtime::LoadedKernel* loaded = nullptr;
  std::shared_ptr<const runtime::LoadedKernel::Ready> ready;
};
using ResolvedPtr = std::shared_ptr<const Resolved>;

// Not thread-safe: its owner locks.
class ResolvedStore {
 public:
  // Beyond this many, the oldest makes room. About two KiB each.
  static constexpr size_t kKept = 4096;

  // Of all that tells one launch from another.
  static uint64_t Hash(const std::string& kernel, const DeviceState* device, const Args& args);
  ResolvedPtr Find(uint64_t hash, const std::string& kernel, const DeviceState* device,
                   const Args& args) const;
  void Keep(uint64_t hash, ResolvedPtr resolved);
  size_t size() const { return by_hash_.size(); }

 private:
  std::multimap<uint64_t, ResolvedPtr> by_hash_;
  std::deque<std::multimap<uint64_t, ResolvedPtr>::iterator> order_;  // oldest first
};

// What a Bound keeps alive: the kernel's or the bundle's state, the device, the packed arguments.
struct BoundState {
  std::shared_ptr<void> owner;
  std::shared_ptr<DeviceState> device;
  ResolvedPtr resolved;
};

}  // namespace tilec
