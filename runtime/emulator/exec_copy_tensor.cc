// Copies of boxes of tensors between global and shared memory, by tensor maps. They are checked
// when they are issued and land as those of exec_copy.cc do.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/exec_atomic.h"
#include "runtime/emulator/exec_copy.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mbarrier.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

namespace {

// Map and coordinates of one lane. False: a fault was recorded.
bool ReadTensor(Warp& w, const Inst& i, int l, const uint32_t* list, TensorMapInfo* map,
                int32_t* coords) {
  uint64_t address = Row<uint64_t>(w, list[1])[l];
  if (!GlobalRange({w, i, l}, address, {128, 64, "the tensor map"}, false)) return false;
  std::string why;
  if (!DecodeTensorMap(reinterpret_cast<const uint8_t*>(address), map, &why)) {
    FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
             fmt::format("the tensor map at {:#x} {}", address, why));
    return false;
  }
  uint32_t rank = list[0] - 1;
  if (i.u[3]) {  // a column and four rows
    if (map->rank != 2 || map->box[1] != 1 || map->element_strides[1] != 1) {
      FailLane(
          w, i, l, kBadOperandValue, TextOf(w, i),
          fmt::format("a tensor map of rank {} with a box of {} rows, where one of rank 2 with "
                      "one row is needed",
                      map->rank, map->box[1]));
      return false;
    }
    map->four_rows = true;
    map->box[1] = 4;
    for (uint32_t k = 0; k < 4; ++k)
      map->rows[k] = static_cast<int32_t>(Row<uint32_t>(w, list[3 + k])[l]);
    coords[0] = static_cast<int32_t>(Row<uint32_t>(w, list[2])[l]);
    return true;
  }
  if (map->rank != rank) {
    FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
             fmt::format("{} coordinates for a tensor map of rank {}", rank, map->rank));
    return false;
  }
  for (uint32_t k = 0; k < rank && k < 5; ++k)
    coords[k] = static_cast<int32_t>(Row<uint32_t>(w, list[2 + k])[l]);
  return true;
}

Step CopyFault(const Issuer& by, const TmaResult& r, const TensorMapInfo& map, uint32_t offset,
               bool write) {
  const auto& [w, i, l] = by;
  if (r.error == TmaError::kGlobal)
    return FailLane(w, i, l, kGlobalOutOfBounds, write ? "a tensor store" : "a tensor load",
                    r.row_bytes, r.address);
  if (r.error == TmaError::kSmemAlign)
    return FailLane(w, i, l, kMisaligned, "a tensor copy", map.box_bytes(), offset, 128);
  if (r.error == TmaError::kSmemRange)
    return FailLane(w, i, l, kSharedOutOfBounds, "a tensor copy", map.box_bytes(), offset,
                    w.cta->smem_bytes);
  return FailLane(w, i, l, kBadOperandValue, TextOf(w, i), Describe(r, map, offset));
}

}  // namespace

Step RunTensorLoad(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[1]];
  const uint32_t *to = Row<uint32_t>(w, i.o[0]), *bar = Row<uint32_t>(w, i.o[2]);
  GlobalCheck check = [&w](uint64_t a, uint64_t n, bool write) {
    return CheckGlobal(w, a, n, write);
  };
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    TensorMapInfo map;
    int32_t coords[5] = {};
    if (!ReadTensor(w, i, l, list, &map, coords)) return Step::kError;
    Cta *cta = nullptr, *owner = nullptr;
    uint32_t offset = 0, bar_offset = 0;
    if (!SharedRange({w, i, l}, to[l], {1, 1, "a tensor copy"}, &cta, &offset) ||
        !SharedRange({w, i, l}, bar[l], {8, 8, "an mbarrier"}, &owner, &bar_offset))
      return Step::kError;
    if (i.u[2] == 1 && !i.u[0] && owner != cta)
      return FailRule(
          w, i, kBadOperandValue, judge::Rule::kT10,
          fmt::format("`{}`: the mbarrier is in another CTA than the destination, which needs "
                      "`.cta_group::2`",
                      TextOf(w, i)),
          l);
    std::array<int32_t, 5> where;
    std::copy(coords, coords + 5, where.begin());
    if (LooksAhead(w)) {
      const TmaResult r = TmaCheck(map, coords, {.store = false}, cta->smem_bytes, offset, check);
      if (!r.ok()) return CopyFault({w, i, l}, r, map, offset, false);
    }
    auto deliver = [&](Cta& target, Cta& signalled) {
      auto write = [=, &target](uint8_t* smem) {
        return TmaLoad(map, where.data(), smem, target.smem_bytes, offset, check);
      };
      judge::AsyncOp op;
      if (w.judge != nullptr)
        op = JudgeTensorLoad({w, i, l}, {map, Row<uint64_t>(w, list[1])[l], where.data()},
                             {target, offset}, {signalled, bar_offset});
      if (Poisons(w)) PoisonDestination(target, [&](uint8_t* s) { return write(s).ok(); });
      return IssueCopy(w, [=, &w, &i, &target, &signalled] {
        TmaResult r = write(target.smem);
        if (w.judge != nullptr) w.judge->Landed(op, signalled.rank, bar_offset);
        if (r.ok())
          return CompleteTx(w, i, l, signalled, bar_offset, static_cast<uint32_t>(r.bytes));
        CopyFault({w, i, l}, r, map, offset, false);
        return false;
      });
    };
    if (!i.u[0]) {
      if (!deliver(*cta, *owner)) return Step::kError;
      continue;
    }
    // With .cta_group::2 it is the CTA of each pair whose number is as even as the mbarrier's.
    uint32_t ranks = Row<uint32_t>(w, i.o[3])[l];
    auto& ctas = w.cta->cluster->ctas;
    for (Cta& target : ctas) {
      const uint32_t told = i.u[2] == 2 ? (target.rank & ~1u) | (owner->rank & 1) : target.rank;
      if (told >= ctas.size()) continue;
      if (ranks >> target.rank & 1 && !deliver(target, ctas[told])) return Step::kError;
    }
  }
  return Step::kNext;
}

Step RunTensorStore(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[0]];
  const uint32_t* from = Row<uint32_t>(w, i.o[1]);
  GlobalCheck check = [&w](uint64_t a, uint64_t n, bool write) {
    return CheckGlobal(w, a, n, write);
  };
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    TensorMapInfo map;
    int32_t coords[5] = {};
    if (!ReadTensor(w, i, l, list, &map, coords)) return Step::kError;
    Cta* cta = nullptr;
    uint32_t offset = 0;
    if (!SharedRange({w, i, l}, from[l], {1, 1, "a tensor copy"}, &cta, &offset))
      return Step::kError;
    std::array<int32_t, 5> where;
    std::copy(coords, coords + 5, where.begin());
    const bool reduces = i.u[0] != 0xff;
    const auto how = static_cast<TmaReduceOp>(i.u[0]);
    if (LooksAhead(w)) {
      const TmaResult r = TmaCheck(map, coords, {true, reduces ? std::optional(how) : std::nullopt},
                                   cta->smem_bytes, offset, check);
      if (!r.ok()) return CopyFault({w, i, l}, r, map, offset, true);
    }
    const auto land = [=, &w, &i] {
      const BoxSource source = {cta->smem, cta->smem_bytes, offset};
      const TmaResult r = !reduces ? TmaStore(map, where.data(), source, check)
                                   : TmaReduce(map, where.data(), how, source, check);
      if (!r.ok()) CopyFault({w, i, l}, r, map, offset, true);
      return r.ok();
    };
    if (reduces && how == TmaReduceOp::kAdd && IsFloat(map.element))
      w.cta->cluster->launch->float_sums.store(true, std::memory_order_relaxed);
    const bool early = w.cta->cluster->launch->options->landing == Landing::kEarly;
    if (early && !land()) return Step::kError;
    if (w.judge != nullptr) {
      const uint64_t* maps = Row<uint64_t>(w, list[1]);
      const uint32_t twins = Twins(mask, l, [&](int o) {
        bool same = maps[o] == maps[l] && from[o] == from[l];
        for (uint32_t k = 2; k <= list[0] && same; ++k)
          same = Row<uint32_t>(w, list[k])[o] == Row<uint32_t>(w, list[k])[l];
        return same;
      });
      JudgeTensorStore({w, i, l}, {*cta, offset}, {map, maps[l], coords}, reduces, twins);
    }
    if (!early && !IssueGrouped(w, true, l, land)) return Step::kError;
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
