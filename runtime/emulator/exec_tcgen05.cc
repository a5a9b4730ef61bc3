// tcgen05 instructions of a whole warp: allocation, loads and stores of tensor memory, waits. And
// the fences, which are the judge's alone.
//
// A load is done when it is issued; a store writes when the execution schedule says so, at the
// latest at the warp's `tcgen05.wait::st` or exit.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/exec_tcgen05.h"
#include "runtime/emulator/exec_tcgen05_warp.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

TensorCta& TensorOf(Cta& cta) {
  if (cta.tensor == nullptr) cta.tensor = std::make_shared<TensorCta>();
  return *cta.tensor;
}

Cta* PeerOf(Cta& cta) {
  auto& ctas = cta.cluster->ctas;
  const uint32_t rank = cta.rank ^ 1;
  return rank < ctas.size() ? &ctas[rank] : nullptr;
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
      w.judge->Say(
          Rule::kT3, judge::Severity::kPortability, ActOf({w, i, 0}),
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
      w.judge->Say(Rule::kT3, judge::Severity::kPortability, ActOf({w, i, 0}),
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
