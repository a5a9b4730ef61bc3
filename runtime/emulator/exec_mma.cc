// ldmatrix, stmatrix, mma.sync and wgmma: registers are handed to the units, which know layouts.
//
// wgmma is a rendezvous of the four warps of a warpgroup: the last to arrive checks that all gave
// the same operands and computes for all. Results are written at issue; a program that reads them
// before wait_group is wrong, and telling so is the sanitizer's job.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mma_sync.h"

#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mma_scaled.h"
#include "runtime/emulator/wgmma.h"

namespace tilec::runtime::emulator {
namespace {

bool WholeWarp(Warp& w, const Inst& i, uint32_t mask) {
  if (mask == ~0u) return true;
  FailText(w, i, kConvergence,
           fmt::format("`{}`: all 32 lanes of the warp must execute it, these do: {:#x}",
                       TextOf(w, i), mask));
  return false;
}

}  // namespace

Step RunLdMatrix(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarp(w, i, mask)) return Step::kError;
  bool store = i.u[0] != 0;
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[store ? 1 : 0]];
  uint32_t addresses[32];  // may be one of the destination registers
  memcpy(addresses, Row<uint32_t>(w, i.o[store ? 0 : 1]), sizeof addresses);
  for (uint32_t& a : addresses)
    if (a >> kRankShift == w.cta->rank) a &= (1u << kRankShift) - 1;
  uint32_t* rows[4] = {};
  for (uint32_t k = 0; k < list[0] && k < 4; ++k) rows[k] = Row<uint32_t>(w, list[1 + k]);
  MatrixFault fault;
  int count = static_cast<int>(list[0]);
  const MatrixRows at = {count, i.u[1] != 0, addresses};
  bool ok = store ? StMatrix(at, w.cta->smem, w.cta->smem_bytes, rows, &fault)
                  : LdMatrix(at, w.cta->smem, w.cta->smem_bytes, rows, &fault);
  if (ok && w.judge != nullptr) JudgeMatrix(w, i, addresses, list[0], store);
  if (ok) return Step::kNext;
  const char* verb = store ? "a store" : "a load";
  if (fault.kind == MatrixFault::Kind::kMisaligned)
    return FailLane(w, i, fault.lane, kMisaligned, verb, 16, fault.address, 16);
  return FailLane(w, i, fault.lane, kSharedOutOfBounds, verb, 16, fault.address, w.cta->smem_bytes);
}

Step RunMma(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarp(w, i, mask)) return Step::kError;
  MmaShape shape;
  shape.k = i.u[0];
  shape.a = static_cast<Element>(i.u[1]);
  shape.b = static_cast<Element>(i.u[2]);
  shape.c = static_cast<Element>(i.u[3]);
  shape.d = static_cast<Element>(i.u[4]);
  shape.satfinite = i.u[5] != 0;
  const Launch& launch = *w.cta->cluster->launch;
  uint32_t* rows[4][8] = {};
  for (int k = 0; k < 4; ++k) {
    const uint32_t* list = &launch.program->lists[i.o[k]];
    for (uint32_t r = 0; r < list[0] && r < 8; ++r) rows[k][r] = Row<uint32_t>(w, list[1 + r]);
  }
  MmaSync(shape, rows[1], rows[2], rows[3], rows[0], launch.options->arithmetic);
  return Step::kNext;
}

Step RunScaledMma(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarp(w, i, mask)) return Step::kError;
  const ScaledShape shape = {.a = static_cast<MmaFormat>(i.u[0]),
                             .b = static_cast<MmaFormat>(i.u[1]),
                             .four_bits = i.u[2] != 0,
                             .ue4m3 = i.u[3] != 0,
                             .scales = i.u[4]};
  const Launch& launch = *w.cta->cluster->launch;
  const uint32_t* selected = &launch.program->lists[i.o[6]];
  uint16_t ids[4];
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t* row = Row<uint32_t>(w, selected[1 + k]);  // of 16 bits: the low halves
    const auto id = [&](int l) { return static_cast<uint16_t>(row[l]); };
    for (int l = 1; l < 32; ++l)
      if (id(l) != id(0))
        return FailText(
            w, i, kBadOperandValue,
            fmt::format("`{}`: lane {} gives another byte-id or thread-id than lane 0: {} and {}",
                        TextOf(w, i), l, id(l), id(0)),
            l);
    ids[k] = id(0);
  }
  const ScaleSelectors by = {ids[0], ids[1], ids[2], ids[3]};
  if (std::string error; !ValidateSelectors(shape, by, &error))
    return FailText(w, i, kBadOperandValue, fmt::format("`{}`: {}", TextOf(w, i), error));
  uint32_t* rows[4][4] = {};
  for (int k = 0; k < 4; ++k) {
    const uint32_t* list = &launch.program->lists[i.o[k]];
    for (uint32_t r = 0; r < list[0] && r < 4; ++r) rows[k][r] = Row<uint32_t>(w, list[1 + r]);
  }
  MmaScaled(
      shape,
      {rows[1], rows[2], rows[3], Row<uint32_t>(w, i.o[4]), Row<uint32_t>(w, i.o[5]), rows[0]}, by,
      launch.options->arithmetic);
  return Step::kNext;
}

Step RunWgmma(Warp& w, const Inst& i, uint32_t mask) {
  if (w.resumed) return Step::kNext;
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (!WholeWarp(w, i, mask)) return Step::kError;
  Cta& cta = *w.cta;
  uint32_t group_index = w.index / 4;
  if (group_index >= cta.groups.size())
    return FailText(w, i, kConvergence,
                    fmt::format("`{}`: warp {} is in no complete warpgroup of four warps",
                                TextOf(w, i), w.index));
  Warpgroup& group = cta.groups[group_index];
  if (group.arrived != 0 && group.pc != w.pc) {
    const Inst& other = cta.cluster->launch->program->code[group.pc];
    return FailText(w, i, kConvergence,
                    fmt::format("`{}`: other warps of the warpgroup are at the wgmma of line {}",
                                TextOf(w, i), other.line));
  }
  group.pc = w.pc;
  group.arrived |= 1u << (w.index % 4);
  if (group.arrived != 15) {
    w.wait = {};
    w.wait.kind = Wait::Kind::kWgmma;
    w.wait.id = group_index;
    w.wait.value = group.generation;
    return Step::kBlock;
  }
  group.arrived = 0;
  ++group.generation;
  ++cta.progress;

  const Launch& launch = *cta.cluster->launch;
  const WgmmaShape& shape = launch.program->wgmma[i.imm];
  const uint32_t *acc = &launch.program->lists[i.o[0]], *frag = &launch.program->lists[i.o[1]];
  uint64_t desc_a = 0, desc_b = 0;
  bool scale_d = false;
  WgmmaRegisters registers;
  for (uint32_t q = 0; q < 4; ++q) {
    Warp& v = cta.warps[group_index * 4 + q];
    const uint64_t* db = Row<uint64_t>(v, i.o[3]);
    const uint64_t* da = shape.a_in_registers ? db : Row<uint64_t>(v, i.o[2]);
    uint32_t p = i.u[1] != 0 ? (i.u[1] == 2 ? ~0u : 0u) : Predicate(v, i.o[4]);
    if (i.u[2]) p = ~p;
    if (q == 0) desc_a = da[0], desc_b = db[0], scale_d = p & 1;
    bool same = p == (scale_d ? ~0u : 0u);
    for (int l = 0; l < 32; ++l) same = same && da[l] == desc_a && db[l] == desc_b;
    if (!same)
      return FailRule(w, i, kConvergence, judge::Rule::kW3,
                      fmt::format("`{}`: warp {} of the warpgroup gives other operands than warp 0",
                                  TextOf(w, i), q));
    for (uint32_t r = 0; r < acc[0] && r < 128; ++r)
      registers.acc[q][r] = Row<uint32_t>(v, acc[1 + r]);
    if (shape.a_in_registers)
      for (uint32_t r = 0; r < 4; ++r) registers.a[q][r] = Row<uint32_t>(v, frag[1 + r]);
  }
  std::string error;
  if (!Wgmma(shape, {desc_a, desc_b, scale_d, {cta.smem, cta.smem_bytes}}, registers,
             launch.options->arithmetic, &error))
    return FailRule(w, i, kBadOperandValue, judge::Rule::kW3,
                    fmt::format("`{}`: {}", TextOf(w, i), error));
  if (w.judge != nullptr) JudgeWgmma(cta, i, group_index * 4, group_index, desc_a, desc_b);
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
