// Tensors while a kernel runs: clipped loads and stores, atomics, and the watch over instances of
// `parallel` that touch the same element. Included by ir/interpret*.cc only.
//
// Every element of a written tensor has a claim: the instance that stored it. Claims are taken by
// compare-and-swap before the element is written, so two instances never write one element, and a
// lost claim is a conflict. Tensors that are read as well as written in one kernel also remember
// their readers; such kernels, and those with atomics, run on one thread, in instance order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "ir/interpret.h"
#include "ir/interpret_internal.h"

namespace tilec::ir::interpret_internal {

inline constexpr uint32_t kNobody = 0;
inline constexpr uint32_t kSeveral = 0x7FFFFFFF;
inline constexpr uint32_t kAtomicBit = 0x80000000;

// What atomic adds have done to one element.
struct AtomicSum {
  double r = 0, magnitude = 0, spread = 0;
  int64_t terms = 0;
  bool started = false;
  bool integral = true;
};

// Elements of one tensor that atomics of several instances met at, or several elements of one
// atomic: what such an atomic finds hangs on the order, which nobody knows before all have run.
struct Meetings {
  std::vector<uint8_t> met;     // by element; empty: none
  std::vector<uint64_t> turns;  // by element: number of the last atomic there; 0: none
  bool At(size_t element) const { return !met.empty() && met[element]; }
};

struct Tensor {
  const Param* param = nullptr;
  TensorValue* value = nullptr;
  std::vector<int64_t> strides;
  bool written = false;
  bool read = false;
  std::vector<std::atomic<uint32_t>> claims;  // of written tensors
  std::vector<uint32_t> readers;              // of tensors read and written
  std::vector<AtomicSum> sums;                // of targets of floating-point atomic adds
  Meetings meetings;                          // of targets of atomics that give back
  const Meetings* known = nullptr;            // the same, of a run before this one
  std::atomic<bool> scattered{false};         // stored at undecided positions

  bool is_float() const { return IsFloat(value->dtype); }
};

// Conflicts found by one thread: per tensor the first element and who met there.
struct Conflicts {
  struct Meeting {
    int64_t element = -1;
    std::set<uint32_t> instances;  // claims: instance + 1
    void Add(int64_t at, uint32_t a, uint32_t b);
  };
  std::map<int32_t, Meeting> stores;  // by the tensor's value
  std::map<int32_t, Meeting> reads;
};

struct AccessContext {
  uint32_t claim = kNobody;  // instance + 1; kNobody outside parallel
  bool tainted = false;      // control was undecided: everything stored is
  Conflicts* conflicts = nullptr;
  int64_t* undecided_stores = nullptr;
  Dice* dice = nullptr;      // of a perturbed run
  uint64_t* turn = nullptr;  // numbers the atomics of a run
};

// `operands`: indices (and fill) as tiles, after the tensor (load) or the value (store, atomic).
void Load(const Op& op, Tensor& tensor, std::span<const Tile* const> operands,
          const AccessContext& context, Tile& out);
void Store(const Op& op, Tensor& tensor, const Tile& value, std::span<const Tile* const> operands,
           const AccessContext& context, Tile* found = nullptr);
// With the attribute `kind`: an atomic; `found` receives what it finds.

// Makes e and undecided of written tensors dense before, and drops what stayed 0 after a run. If
// only a sample of the grid ran, elements count that one of its instances stored, not atomically.
// `bounds`: errors are counted, those of flushed subnormals included.
void Prepare(Tensor& tensor, bool bounds);
void Settle(Tensor& tensor, bool sampled);

}  // namespace tilec::ir::interpret_internal
