// Tensor memory as the judge sees it: who touched which 16 lanes of which column last, and in which
// order a thread's tensor operations are known to others.
//
// Operations of one issuing thread (tcgen05.mma, cp, shift, commit) are numbered: who has seen a
// commit knows all numbers up to its own, so one component per issuer describes what is complete.
// Loads and stores are numbered per warp in the same way, by what `tcgen05.wait` has waited for.
//
// Three clocks decide (docs/blackwell.md): `View::generic`, what is ordered by release and acquire;
// `View::tensor`, what is ordered by synchronisation of any strength where the fences of tcgen05
// stand; `LaneGroup::tensor_after`, what of it stands before the thread's last
// `tcgen05.fence::after_thread_sync`.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/emulator/judge/clock.h"

namespace tilec::runtime::judge {

// An access to tensor memory, remembered.
struct TensorMark {
  Component component = 0;
  Epoch number = 0;
  uint32_t pc = 0;
  // What operation: accesses of equal keys, and a copy before a product, are pipelined.
  uint64_t key = 0;
};

// What an operation is, for pipelining (PTX ISA 9.7.16.6.2).
enum class TensorAct : uint8_t { kMma, kCopy, kShift, kLoad, kStore };

struct TensorCell {
  TensorMark write;
  std::vector<TensorMark> reads;  // the last of each component
  bool has_write = false;
};

class TensorShadow {
 public:
  static constexpr uint32_t kLanes = 16, kGroups = 8, kColumns = 512;
  TensorShadow() : cells_(kGroups * kColumns) {}
  TensorCell& at(uint32_t group, uint32_t column) { return cells_[column * kGroups + group]; }

 private:
  std::vector<TensorCell> cells_;
};

// A part of tensor memory, and what the operation does to it.
struct TensorArea {
  uint32_t rank = 0, lane = 0, lanes = 0, column = 0, columns = 0;
  bool write = false;
};

}  // namespace tilec::runtime::judge
