// Launches that were resolved: the loaded kernel, with arguments that were checked and packed. The
// store keeps the last ones of a kernel or a bundle, so that a launch like one before skips the
// choice, the checks and the packing.
//
// Two launches are *alike* if they differ in the addresses of tensors only, and each address is as
// aligned as the other's: what was chosen and checked for one holds for the other, which is made of
// it by writing its addresses. So the store keeps one launch of each kind for long, and launches at
// certain addresses only if they come again.
//
// Private to api/; needs no compiler.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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
  // Beyond so many, the oldest makes room. One is about 2.5 KiB of a kernel with three tensors.
  static constexpr size_t kKindsKept = 1 << 17, kKept = 4096;

  struct Hashes {
    uint64_t alike = 0;  // of what tells one kind from another
    uint64_t same = 0;   // of that and the addresses
  };
  static Hashes Hash(const std::string& kernel, const DeviceState* device, const Args& args);

  // With these very arguments; null: none.
  ResolvedPtr Find(Hashes hashes, const std::string& kernel, const DeviceState* device,
                   const Args& args) const;
  ResolvedPtr FindAlike(Hashes hashes, const std::string& kernel, const DeviceState* device,
                        const Args& args) const;
  // The first of its kind.
  void KeepKind(Hashes hashes, ResolvedPtr resolved);
  // Keeps it if such a launch was made before, as far as is remembered.
  bool KeepIfAgain(Hashes hashes, const std::shared_ptr<Resolved>& resolved, const Args& args);

  size_t kinds() const { return kinds_.map.size(); }
  size_t size() const { return same_.map.size(); }

 private:
  static constexpr size_t kRoom = 4096;  // from the beginning: growing takes a launch's time
  struct Kept {
    std::unordered_multimap<uint64_t, ResolvedPtr> map;
    std::deque<std::pair<uint64_t, const Resolved*>> order;  // oldest first
    void Put(uint64_t hash, ResolvedPtr resolved, size_t most);
  };
  Kept kinds_, same_;
  std::vector<uint64_t> seen_;  // hashes of launches that were moved, by their remainder; see kKept
};

// Finds or makes the launch `args` of what is in the store; null with no error in `diags`: the
// store has none of its kind. Not thread-safe, as the store.
Result<ResolvedPtr> FindOrMove(ResolvedStore& store, ResolvedStore::Hashes hashes,
                               const std::string& kernel, const DeviceState* device,
                               const Args& args, DiagSink& diags);

// What a Bound keeps alive: the kernel's or the bundle's state, the device, the packed arguments.
struct BoundState {
  std::shared_ptr<void> owner;
  std::shared_ptr<DeviceState> device;
  ResolvedPtr resolved;
};

}  // namespace tilec
