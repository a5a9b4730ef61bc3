// tcgen05 instructions of a whole warp: allocation, loads and stores of tensor memory, waits. And
// the fences, which are the judge's alone.
//
// A load is done when it is issued; a store writes when the execution schedule says so, at the
// latest at the warp's `tcgen05.wait::st` or exit.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/exec_tcgen05.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

using judge::Rule;

TensorCta& TensorOf(Cta& cta) {
  if (cta.tensor == nullptr) cta.tensor = std::make_shared<TensorCta>();
  return *cta.tensor;
}

Cta* PeerOf(Cta& cta) {
  auto& ctas = cta.cluster->ctas;
  const uint32_t rank = cta.rank ^ 1;
  return rank < ctas.size() ? &ctas[rank] : nullptr;
}

namespace {

// All 32 lanes are here. kNext: they are.
Step StepOfWholeWarp(Warp& w, const Inst& i, uint32_t mask) {
  if (w.live == ~0u) {
    const Step s = Converge(w, i, mask, ~0u);
    if (s == Step::kError) w.cta->cluster->fault.rule = Rule::kT11;
    if (s != Step::kNext) return s;
  }
  if (mask == ~0u) return Step::kNext;
  return FailRule(w, i, kConvergence, Rule::kT11,
                  fmt::format("`{}`: all 32 lanes of the warp must execute it, these do: {:#x}",
                              TextOf(w, i), mask));
}

// Do all lanes give the same value?
bool Uniform(Warp& w, const Inst& i, uint32_t row, const char* what) {
  const uint32_t* v = Row<uint32_t>(w, row);
  for (int l = 1; l < 32; ++l) {
    if (v[l] == v[0]) continue;
    FailRule(w, i, kConvergence, Rule::kT11,
             fmt::format("`{}`: lane {} gives {} {:#x}, lane 0 gives {:#x}", TextOf(w, i), l, what,
                         v[l], v[0]),
             l);
    return false;
  }
  return true;
}

Step TensorFault(Warp& w, const Inst& i, Rule rule, const std::string& why) {
  return FailRule(w, i, kTensorMemory, rule, fmt::format("`{}`: {}", TextOf(w, i), why));
}

bool ColumnsOk(Warp& w, const Inst& i, uint32_t n) {
  if (n >= kTensorUnit && n <= kTensorColumns && (n & (n - 1)) == 0) return true;
  TensorFault(w, i, Rule::kT1,
              fmt::format("{} columns, a power of two from 32 to 512 is needed", n));
  return false;
}

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

bool TensorInside(Warp& w, const Inst& i, const Cta& cta, uint32_t column, uint32_t columns,
                  const char* what) {
  const TensorMemory* memory = cta.tensor == nullptr ? nullptr : &cta.tensor->memory;
  if (memory != nullptr && column + columns <= kTensorColumns && memory->Live(column, columns))
    return true;
  TensorFault(w, i, Rule::kT3,
              fmt::format("{} is columns [{}, {}) of CTA ({},{},{}), where {} is allocated", what,
                          column, column + columns, cta.id[0], cta.id[1], cta.id[2],
                          memory == nullptr ? "nothing" : memory->Allocations()));
  return false;
}

namespace {

// The address of a load or store, checked; its lane is the one that is meant.
bool MoveAddress(Warp& w, const Inst& i, const TensorTransfer& t, TensorAddress* at) {
  if (!Uniform(w, i, i.o[1], "address")) return false;
  *at = TensorAddress::Of(Row<uint32_t>(w, i.o[1])[0]);
  const uint32_t quarter = w.index % 4 * 32, within = at->lane % 32;
  const bool half = t.lanes() == 16;
  if (at->lane >= kTensorLanes && at->lane % kTensorLanes / 32 * 32 == quarter) {
    // The second CTA of a pair that counts rows as the product does: public kernels that ran on
    // silicon do, and got the rows of their own quarter.
    if (w.judge != nullptr)
      w.judge->TensorSay(
          Rule::kT3, judge::Severity::kPortability, w.judge_id, 0, PcOf(w, i),
          fmt::format("the address names lane {}, and a CTA has {} lanes", at->lane, kTensorLanes),
          "count lanes from 0 in each CTA of a pair");
    at->lane %= kTensorLanes;
  }
  if (at->lane >= kTensorLanes || (within != 0 && !(half && within == 16))) {
    TensorFault(w, i, Rule::kT3,
                fmt::format("lane {}: the shape begins at a multiple of {} below 128", at->lane,
                            t.lanes()));
    return false;
  }
  if (at->lane / 32 * 32 != quarter) {
    if (at->lane / 32 != 0) {
      TensorFault(w, i, Rule::kT3,
                  fmt::format("lane {}: warp {} of its warpgroup has lanes [{}, {})", at->lane,
                              w.index % 4, quarter, quarter + 32));
      return false;
    }
    // Silicon takes the quarter from the warp; the ISA says that the address has it.
    if (w.judge != nullptr)
      w.judge->TensorSay(Rule::kT3, judge::Severity::kPortability, w.judge_id, 0, PcOf(w, i),
                         fmt::format("the address names lane {}, and warp {} of its warpgroup has "
                                     "lanes [{}, {})",
                                     at->lane, w.index % 4, quarter, quarter + 32),
                         "add the warp's first lane << 16 to the address");
    at->lane += quarter;
  }
  for (uint32_t k = 0; k < t.accesses(); ++k)
    if (!TensorInside(w, i, *w.cta, at->column + k * t.half_split, t.columns(), "the access"))
      return false;
  return true;
}

std::vector<judge::TensorArea> AreasOf(const Warp& w, const TensorTransfer& t, TensorAddress at,
                                       bool write) {
  std::vector<judge::TensorArea> areas;
  for (uint32_t k = 0; k < t.accesses(); ++k)
    areas.push_back(
        {w.cta->rank, at.lane, t.lanes(), at.column + k * t.half_split, t.columns(), write});
  return areas;
}

void Apply(std::map<uint32_t, std::vector<std::shared_ptr<PendingMove>>>& moves, const Warp& w) {
  auto it = moves.find(w.index);
  if (it == moves.end()) return;
  for (const auto& move : it->second) move->Apply();
  it->second.clear();
}

// Happens when the schedule says so.
void Later(Warp& w, std::vector<std::shared_ptr<PendingMove>>& moves, std::function<void()> apply) {
  auto move = std::make_shared<PendingMove>();
  move->apply = std::move(apply);
  moves.push_back(move);
  w.cta->cluster->in_flight.push_back({[move] {
    move->Apply();
    return true;
  }});
}

// Words that a product in flight will write are NaN to whoever looks too early.
void LoadPoison(const TensorCta& t, const TensorTransfer& move, TensorAddress at,
                uint32_t* const* rows) {
  if (t.poisoned.empty()) return;
  for (uint32_t r = 0; r < move.registers(); ++r)
    for (uint32_t l = 0; l < 32; ++l) {
      const TensorAddress word = move.Word(r, l);
      const size_t at_word = (at.column + word.column) * kTensorLanes + at.lane + word.lane;
      if (t.poisoned[at_word] != 0) rows[r][l] = 0xffffffffu;
    }
}

}  // namespace

void LandTensorLoads(Warp& w) {
  Apply(TensorOf(*w.cta).loads, w);
  w.tensor_loads = 0;
}

Step RunTensorLd(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = StepOfWholeWarp(w, i, mask); s != Step::kNext) return s;
  const Program& program = *w.cta->cluster->launch->program;
  const TensorTransfer& t = program.tensor[i.imm].transfer;
  TensorAddress at;
  if (!MoveAddress(w, i, t, &at)) return Step::kError;
  const uint32_t* list = &program.lists[i.o[0]];
  TensorCta& tensor = TensorOf(*w.cta);
  auto read = [&w, &tensor, &t, list, at] {
    uint32_t* rows[128];
    for (uint32_t r = 0; r < list[0]; ++r) rows[r] = Row<uint32_t>(w, list[1 + r]);
    t.Load(tensor.memory, at, rows);
    LoadPoison(tensor, t, at, rows);
  };
  if (w.cta->cluster->launch->options->landing == Landing::kEarly) {
    read();
  } else {
    ++w.tensor_loads;
    Later(w, tensor.loads[w.index], read);
  }
  if (w.judge == nullptr) return Step::kNext;
  w.judge->TensorMove(w.judge_id, PcOf(w, i), false, AreasOf(w, t, at, false));
  for (uint32_t k = 0; k < t.accesses(); ++k)
    for (uint32_t c = 0; c < t.columns(); ++c) {
      const uint32_t column = at.column + k * t.half_split + c;
      if (!tensor.memory.Written(column, at.lane, t.lanes()))
        w.judge->TensorFresh(
            w.judge_id, 0, PcOf(w, i), w.cta->rank,
            fmt::format("lanes [{}, {}) of column {}", at.lane, at.lane + t.lanes(), column));
    }
  return Step::kNext;
}

Step RunTensorSt(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = StepOfWholeWarp(w, i, mask); s != Step::kNext) return s;
  Cluster& cluster = *w.cta->cluster;
  const Program& program = *cluster.launch->program;
  const TensorTransfer& t = program.tensor[i.imm].transfer;
  TensorAddress at;
  if (!MoveAddress(w, i, t, &at)) return Step::kError;
  const uint32_t* list = &program.lists[i.o[0]];
  auto values = std::make_shared<std::vector<uint32_t>>(size_t{list[0]} * 32);
  for (uint32_t r = 0; r < list[0]; ++r)
    memcpy(values->data() + size_t{r} * 32, Row<uint32_t>(w, list[1 + r]), 128);
  if (w.judge != nullptr)
    w.judge->TensorMove(w.judge_id, PcOf(w, i), true, AreasOf(w, t, at, true));
  auto write = [tensor = w.cta->tensor, values, &t, at] {
    const uint32_t* rows[128];
    for (uint32_t r = 0; r < t.registers(); ++r) rows[r] = values->data() + size_t{r} * 32;
    t.Store(&tensor->memory, at, rows);
  };
  if (cluster.launch->options->landing == Landing::kEarly)
    write();
  else
    Later(w, TensorOf(*w.cta).stores[w.index], write);
  return Step::kNext;
}

Step RunTensorWait(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = StepOfWholeWarp(w, i, mask); s != Step::kNext) return s;
  if (i.u[0])
    Apply(TensorOf(*w.cta).stores, w);
  else
    LandTensorLoads(w);
  if (w.judge != nullptr) w.judge->TensorWait(w.judge_id, PcOf(w, i), i.u[0]);
  return Step::kNext;
}

Step RunTensorFence(Warp& w, const Inst& i, uint32_t mask) {
  if (w.judge != nullptr) w.judge->TensorFence(w.judge_id, mask, i.u[0]);
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
