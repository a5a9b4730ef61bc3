// What every asynchronous copy checks and signals. Everything a copy will touch is checked when it
// is issued, whenever it lands: nobody else, the judge's shadow memory least of all, is told of an
// address or a size before it is known to lie inside of what the program owns.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mbarrier.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

inline bool CompleteTx(Warp& w, const Inst& i, int lane, Cta& cta, uint32_t offset,
                       uint32_t bytes) {
  auto it = cta.mbarriers.find(offset);
  if (it == cta.mbarriers.end()) {
    FailText(
        w, i, kBadBarrier,
        fmt::format("`{}`: no mbarrier was initialised at shared offset {}", TextOf(w, i), offset),
        lane);
    return false;
  }
  // A transaction larger than the counter's range cannot come from one copy of shared memory.
  MBarrierStep step = it->second.CompleteTx(bytes);
  if (!step.ok()) {
    BarrierFault(w, i, lane, offset, it->second, step.error);
    return false;
  }
  ++cta.progress;
  if (step.completed)
    if (judge::Judge* j = JudgeOf(cta)) j->PhaseDone(cta.rank, offset);
  return true;
}

inline bool SharedRange(Warp& w, const Inst& i, int lane, uint32_t address, uint64_t bytes,
                        uint32_t align, const char* what, Cta** cta, uint32_t* offset) {
  *cta = ResolveShared(w, address, offset);
  if (*cta == nullptr || *offset > (*cta)->smem_bytes || bytes > (*cta)->smem_bytes - *offset) {
    FailLane(w, i, lane, kSharedOutOfBounds, what, bytes, *offset,
             *cta == nullptr ? 0 : (*cta)->smem_bytes);
    return false;
  }
  if (*offset % align != 0) {
    FailLane(w, i, lane, kMisaligned, what, bytes, *offset, align);
    return false;
  }
  return true;
}

inline bool GlobalRange(Warp& w, const Inst& i, int lane, uint64_t address, uint64_t bytes,
                        uint32_t align, bool write, const char* what) {
  if (address % align != 0) {
    FailLane(w, i, lane, kMisaligned, what, bytes, address, align);
    return false;
  }
  if (bytes == 0 || CheckGlobal(w, address, bytes, write)) return true;
  FailLane(w, i, lane, kGlobalOutOfBounds, what, bytes, address);
  return false;
}

inline bool Poisons(const Warp& w) {
  return w.cta->cluster->launch->options->landing == Landing::kPoison;
}

// Must a box be checked before it moves? Where it moves at once and nobody is told, the copy's own
// check of every row is enough.
inline bool LooksAhead(const Warp& w) {
  return w.judge != nullptr || w.cta->cluster->launch->options->landing != Landing::kEarly;
}

// Of the lanes of `mask` below l: those that give the instruction the same operands as l.
template <typename Same>
uint32_t Twins(uint32_t mask, int l, Same&& same) {
  uint32_t twins = 0;
  for (uint32_t m = mask & ((1u << l) - 1); m != 0; m &= m - 1)
    if (const int o = __builtin_ctz(m); same(o)) twins |= 1u << o;
  return twins;
}

}  // namespace tilec::runtime::emulator
