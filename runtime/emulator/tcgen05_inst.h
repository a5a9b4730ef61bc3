// What is known of a tcgen05 instruction when the program is loaded, and the tensor memory of a CTA
// while it runs: who allocates, what was issued and has not happened yet.
//
// Asynchronous operations of one thread happen in the order of their issue (docs/blackwell.md says
// what that assumes); a thread's commits are part of its queue, so that an arrival stands for all
// that was issued before it. When the next of a queue happens is up to the execution schedule, as
// for copies: each queue entry is one copy in flight.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/emulator/tcgen05_mma.h"

namespace tilec::runtime::emulator {

// Qualifiers of one instruction; which of them mean anything depends on it.
struct TensorInst {
  uint8_t group = 1;
  MmaForm form;
  uint32_t scale_c = 0;
  bool masked = false;  // has a vector of lanes that keep what they have
  TensorTransfer transfer;
  TensorCopy copy;
};

struct TensorQueue {
  std::deque<std::function<bool()>> ops;
  bool Step() {
    if (ops.empty()) return true;
    const std::function<bool()> op = std::move(ops.front());
    ops.pop_front();
    return op();
  }
};

// A load or store of tensor memory by a warp that was issued and has not happened.
struct PendingMove {
  bool done = false;
  std::function<void()> apply;
  void Apply() {
    if (!done) apply();
    done = true;
  }
};

// Two CTAs do it together: what the first to come wants.
struct PairMeeting {
  bool open = false;
  uint32_t rank = 0, warp = 0, line = 0, slot = 0;
  uint8_t act = 0;
  uint32_t column = 0, columns = 0;
  uint64_t generation = 0;
};

struct TensorCta {
  TensorMemory memory;
  uint32_t last_columns = 0;  // of the CTA's last allocation
  bool relinquished = false;
  int last_line = 0, relinquished_line = 0;
  PairMeeting meeting;                                     // of a pair: in its even CTA
  std::map<std::pair<uint32_t, int>, TensorQueue> queues;  // by warp and lane
  std::map<uint32_t, std::vector<std::shared_ptr<PendingMove>>> stores, loads;  // by warp
  std::vector<uint16_t> poisoned;  // per word: results in flight (Landing::kPoison alone)
};

}  // namespace tilec::runtime::emulator
