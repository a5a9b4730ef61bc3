// tcgen05.alloc, dealloc and relinquish_alloc_permit: columns of tensor memory that warps take,
// await and give back, alone or as a pair of CTAs.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/emulator/exec_tcgen05.h"
#include "runtime/emulator/exec_tcgen05_warp.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

namespace {

bool MayAllocate(Warp& w, const Inst& i, const TensorCta& t, uint32_t n) {
  if (t.relinquished) {
    TensorFault(w, i, Rule::kT1,
                fmt::format("the CTA has relinquished the permit to allocate (line {})",
                            t.relinquished_line));
    return false;
  }
  if (t.last_columns == 0 || n <= t.last_columns) return true;
  TensorFault(
      w, i, Rule::kT1,
      fmt::format("{} columns after an allocation of {} (line {}): allocations of a CTA do not "
                  "grow",
                  n, t.last_columns, t.last_line));
  return false;
}

// The address goes to shared memory by an ordinary store.
bool StoreAddress(Warp& w, const Inst& i, Cta& cta, uint32_t slot, uint32_t column) {
  if (slot % 4 != 0 || slot > cta.smem_bytes || 4 > cta.smem_bytes - slot) {
    FailLane(w, i, 0, kSharedOutOfBounds, "the address of tensor memory", 4, slot, cta.smem_bytes);
    return false;
  }
  memcpy(cta.smem + slot, &column, 4);
  return true;
}

void JudgeSlot(Warp& w, const Inst& i, uint32_t slot) {
  if (w.judge == nullptr) return;
  judge::Touch t;
  t.warp = w.judge_id, t.lanes = ~0u, t.pc = PcOf(w, i), t.write = true;
  uint32_t offsets[32];
  std::fill(offsets, offsets + 32, slot);
  w.judge->Executes(t.warp, t.pc);
  w.judge->SharedAccess(t, w.cta->rank, offsets, 4);
  w.judge->WarpSync(w.judge_id, ~0u);  // the warp goes on when the address is there
}

Step Allocated(Warp& w, const Inst& i, Cta& cta, uint32_t slot, uint32_t column, uint32_t n) {
  TensorCta& t = TensorOf(cta);
  t.last_columns = n;
  t.last_line = i.line;
  return StoreAddress(w, i, cta, slot, column) ? Step::kNext : Step::kError;
}

Step WaitForMemory(Warp& w, Wait::Kind kind, uint32_t id, uint64_t value) {
  w.wait = {};
  w.wait.kind = kind;
  w.wait.id = id;
  w.wait.value = value;
  return Step::kBlock;
}

bool GiveBack(Warp& w, const Inst& i, Cta& cta, uint32_t column, uint32_t n) {
  TensorCta& t = TensorOf(cta);
  if (!t.memory.Free(column, n)) {
    TensorFault(
        w, i, Rule::kT2,
        fmt::format("columns [{}, {}) of CTA ({},{},{}) are no allocation: it has {}", column,
                    column + n, cta.id[0], cta.id[1], cta.id[2], t.memory.Allocations()));
    return false;
  }
  ++cta.progress;
  return true;
}

constexpr uint8_t kAlloc = 0, kDealloc = 1, kRelinquish = 2;

// Both CTAs of the pair are here: it happens in both. `w` is of the second to come.
Step Meet(Warp& w, const Inst& i, PairMeeting& m, uint32_t slot, uint32_t column, uint32_t n) {
  Cta& mine = *w.cta;
  Cta& other = *PeerOf(mine);
  if (m.act != i.u[0] || m.columns != n || m.column != column)
    return TensorFault(
        w, i, i.u[0] == kDealloc ? Rule::kT2 : Rule::kT1,
        fmt::format("the other CTA of the pair is at line {} with {} columns at {}: both "
                    "must do the same",
                    m.line, m.columns, m.column));
  if (i.u[0] == kAlloc) {
    TensorCta &a = TensorOf(mine), &b = TensorOf(other);
    if (a.memory.used() + n > kTensorColumns)
      return WaitForMemory(w, Wait::Kind::kTensorColumns, n, 0);
    const auto here = a.memory.Allocate(n), there = b.memory.Allocate(n);
    if (!here || !there || *here != *there)
      return TensorFault(w, i, Rule::kT1, "the CTAs of the pair have different columns left");
    if (Allocated(w, i, mine, slot, *here, n) == Step::kError ||
        Allocated(w, i, other, m.slot, *there, n) == Step::kError)
      return Step::kError;
  } else if (i.u[0] == kDealloc) {
    if (!GiveBack(w, i, mine, column, n) || !GiveBack(w, i, other, column, n)) return Step::kError;
  }
  m.open = false;
  ++m.generation;
  ++mine.progress, ++other.progress;
  return Step::kNext;
}

// kNext: done by both. Else what the handler must return.
Step AsPair(Warp& w, const Inst& i, uint32_t slot, uint32_t column, uint32_t n) {
  Cta* other = PeerOf(*w.cta);
  if (other == nullptr)
    return TensorFault(w, i, Rule::kT10, "the CTA is in no pair: the cluster needs an even size");
  if (other->live_warps == 0)
    return TensorFault(w, i, Rule::kT10, "the other CTA of the pair has exited");
  PairMeeting& m = TensorOf(w.cta->cluster->ctas[w.cta->rank & ~1u]).meeting;
  if (m.open && m.rank != w.cta->rank) return Meet(w, i, m, slot, column, n);
  if (m.open)
    return TensorFault(
        w, i, Rule::kT1,
        fmt::format("warp {} of this CTA waits at line {} for the other CTA of the pair", m.warp,
                    m.line));
  m.open = true;
  m.rank = w.cta->rank, m.warp = w.index, m.line = static_cast<uint32_t>(i.line);
  m.slot = slot, m.act = i.u[0], m.column = column, m.columns = n;
  return WaitForMemory(w, Wait::Kind::kTensorPair, 0, m.generation);
}

Step Alloc(Warp& w, const Inst& i, bool pair) {
  const uint32_t slot = Row<uint32_t>(w, i.o[0])[0] & ((1u << kRankShift) - 1);
  const uint32_t n = Row<uint32_t>(w, i.o[1])[0];
  TensorCta& t = TensorOf(*w.cta);
  if (!w.resumed) {
    if (!Uniform(w, i, i.o[0], "address") || !Uniform(w, i, i.o[1], "columns") ||
        !ColumnsOk(w, i, n) || !MayAllocate(w, i, t, n))
      return Step::kError;
    if (pair) {
      if (Step s = AsPair(w, i, slot, 0, n); s != Step::kNext) return s;
    } else {
      const auto column = t.memory.Allocate(n);
      if (!column) return WaitForMemory(w, Wait::Kind::kTensorColumns, n, 0);
      if (Allocated(w, i, *w.cta, slot, *column, n) == Step::kError) return Step::kError;
    }
  }
  JudgeSlot(w, i, slot);
  return Step::kNext;
}

Step Dealloc(Warp& w, const Inst& i, bool pair) {
  const TensorAddress at = TensorAddress::Of(Row<uint32_t>(w, i.o[0])[0]);
  const uint32_t n = Row<uint32_t>(w, i.o[1])[0];
  if (w.resumed) {
    if (w.judge != nullptr) w.judge->TensorFree(w.judge_id, PcOf(w, i), w.cta->rank, at.column, n);
    return Step::kNext;
  }
  if (!Uniform(w, i, i.o[0], "address") || !Uniform(w, i, i.o[1], "columns") || !ColumnsOk(w, i, n))
    return Step::kError;
  if (at.lane != 0)
    return TensorFault(w, i, Rule::kT2,
                       fmt::format("lane {}: an allocation has all lanes", at.lane));
  if (pair) {
    if (Step s = AsPair(w, i, 0, at.column, n); s != Step::kNext) return s;
  } else if (!GiveBack(w, i, *w.cta, at.column, n)) {
    return Step::kError;
  }
  if (w.judge != nullptr) w.judge->TensorFree(w.judge_id, PcOf(w, i), w.cta->rank, at.column, n);
  return Step::kNext;
}

}  // namespace

Step RunTensorAlloc(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = StepOfWholeWarp(w, i, mask); s != Step::kNext) return s;
  const bool pair = i.u[1] == 2;
  if (i.u[0] == kAlloc) return Alloc(w, i, pair);
  if (i.u[0] == kDealloc) return Dealloc(w, i, pair);
  if (pair && !w.resumed)
    if (Step s = AsPair(w, i, 0, 0, 0); s != Step::kNext) return s;
  TensorCta& t = TensorOf(*w.cta);
  t.relinquished = true;
  t.relinquished_line = i.line;
  return Step::kNext;
}

void TensorExit(Warp& w) {
  Cta& cta = *w.cta;
  if (cta.tensor == nullptr || cta.tensor->memory.used() == 0) return;
  const Program& program = *cta.cluster->launch->program;
  const Inst& i = program.code[std::min<size_t>(w.pc, program.code.size() - 1)];
  FailRule(w, i, kTensorMemory, Rule::kT2,
           fmt::format("CTA ({},{},{}) exits and has not given back {} of tensor memory, allocated "
                       "at line {}",
                       cta.id[0], cta.id[1], cta.id[2], cta.tensor->memory.Allocations(),
                       cta.tensor->last_line));
  cta.cluster->fault.line = cta.tensor->last_line;
}

}  // namespace tilec::runtime::emulator
