// Asynchronous copies: cp.async, bulk and tensor copies. They happen when they are issued and
// signal their barrier at once, which programs may not tell from a copy that was merely fast; they
// land later where EmulatorOptions::landing says so (turns.cc): at the latest when somebody has
// waited for them.
//
// Everything a copy will touch is checked when it is issued, whenever it lands: nobody else, the
// judge's shadow memory least of all, is told of an address or a size before it is known to lie
// inside of what the program owns.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/exec_atomic.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mbarrier.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

bool CompleteTx(Warp& w, const Inst& i, int lane, Cta& cta, uint32_t offset, uint32_t bytes) {
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

bool SharedRange(Warp& w, const Inst& i, int lane, uint32_t address, uint64_t bytes, uint32_t align,
                 const char* what, Cta** cta, uint32_t* offset) {
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

namespace {

bool GlobalRange(Warp& w, const Inst& i, int lane, uint64_t address, uint64_t bytes, uint32_t align,
                 bool write, const char* what) {
  if (address % align != 0) {
    FailLane(w, i, lane, kMisaligned, what, bytes, address, align);
    return false;
  }
  if (bytes == 0 || CheckGlobal(w, address, bytes, write)) return true;
  FailLane(w, i, lane, kGlobalOutOfBounds, what, bytes, address);
  return false;
}

bool Poisons(const Warp& w) { return w.cta->cluster->launch->options->landing == Landing::kPoison; }

// Must a box be checked before it moves? Where it moves at once and nobody is told, the copy's own
// check of every row is enough.
bool LooksAhead(const Warp& w) {
  return w.judge != nullptr || w.cta->cluster->launch->options->landing != Landing::kEarly;
}

bool BulkSize(Warp& w, const Inst& i, int lane, uint32_t bytes) {
  if (bytes % 16 == 0) return true;
  FailLane(w, i, lane, kBadOperandValue, TextOf(w, i),
           fmt::format("a size of {} bytes, which is no multiple of 16", bytes));
  return false;
}

// Of the lanes of `mask` below l: those that give the instruction the same operands as l.
template <typename Same>
uint32_t Twins(uint32_t mask, int l, Same&& same) {
  uint32_t twins = 0;
  for (uint32_t m = mask & ((1u << l) - 1); m != 0; m &= m - 1)
    if (const int o = __builtin_ctz(m); same(o)) twins |= 1u << o;
  return twins;
}

}  // namespace

Step RunCpAsync(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t bytes = static_cast<uint32_t>(i.imm);
  const uint32_t* to = Row<uint32_t>(w, i.o[0]);
  const uint64_t* from = Row<uint64_t>(w, i.o[1]);
  const uint32_t* size = i.u[0] ? Row<uint32_t>(w, i.o[3]) : nullptr;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    uint32_t n = size != nullptr ? size[l] : bytes, offset = 0;
    if (n > bytes)
      return FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
                      fmt::format("a source of {} bytes for a copy of {}", n, bytes));
    Cta* cta = nullptr;
    if (!SharedRange(w, i, l, to[l], bytes, bytes, "an asynchronous copy", &cta, &offset) ||
        !GlobalRange(w, i, l, from[l], n, bytes, false, "an asynchronous copy"))
      return Step::kError;
    uint8_t* target = cta->smem + offset;
    if (Poisons(w)) memset(target, 0xff, bytes);
    IssueGrouped(w, false, l, [=, source = reinterpret_cast<const uint8_t*>(from[l])] {
      memset(target, 0, bytes);
      if (n > 0) memcpy(target, source, n);  // of nothing, from anywhere
      return true;
    });
  }
  if (w.judge != nullptr) JudgeCpAsync(w, i, mask, to, from, size, bytes);
  return Step::kNext;
}

Step RunBulkLoad(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *to = Row<uint32_t>(w, i.o[0]), *size = Row<uint32_t>(w, i.o[2]);
  const uint32_t* bar = Row<uint32_t>(w, i.o[3]);
  const uint64_t* from = Row<uint64_t>(w, i.o[1]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    Cta *cta = nullptr, *owner = nullptr;
    uint32_t offset = 0, bar_offset = 0;
    if (!BulkSize(w, i, l, size[l]) ||
        !SharedRange(w, i, l, to[l], size[l], 16, "a bulk copy", &cta, &offset) ||
        !GlobalRange(w, i, l, from[l], size[l], 16, false, "a bulk copy") ||
        !SharedRange(w, i, l, bar[l], 8, 8, "an mbarrier", &owner, &bar_offset))
      return Step::kError;
    const auto* source = reinterpret_cast<const uint8_t*>(from[l]);
    uint32_t bytes = size[l];
    auto deliver = [&](Cta& target, Cta& signalled) {
      judge::AsyncOp op;
      if (w.judge != nullptr)
        op = JudgeBulkLoad({w, i, l}, from[l], {target, offset}, bytes, {signalled, bar_offset});
      if (Poisons(w)) memset(target.smem + offset, 0xff, bytes);
      return IssueCopy(w, [=, &w, &i, &target, &signalled] {
        if (bytes > 0) memcpy(target.smem + offset, source, bytes);
        if (w.judge != nullptr) w.judge->Landed(op, signalled.rank, bar_offset);
        return CompleteTx(w, i, l, signalled, bar_offset, bytes);
      });
    };
    if (!i.u[0]) {
      if (!deliver(*cta, *owner)) return Step::kError;
      continue;
    }
    uint32_t ranks = Row<uint32_t>(w, i.o[4])[l];
    for (Cta& target : w.cta->cluster->ctas)
      if (ranks >> target.rank & 1 && !deliver(target, target)) return Step::kError;
  }
  return Step::kNext;
}

Step RunBulkShared(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *to = Row<uint32_t>(w, i.o[0]), *from = Row<uint32_t>(w, i.o[1]);
  const uint32_t *size = Row<uint32_t>(w, i.o[2]), *bar = Row<uint32_t>(w, i.o[3]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    Cta *target = nullptr, *source = nullptr, *owner = nullptr;
    uint32_t d = 0, s = 0, b = 0;
    if (!BulkSize(w, i, l, size[l]) ||
        !SharedRange(w, i, l, to[l], size[l], 16, "a bulk copy", &target, &d) ||
        !SharedRange(w, i, l, from[l], size[l], 16, "a bulk copy", &source, &s) ||
        !SharedRange(w, i, l, bar[l], 8, 8, "an mbarrier", &owner, &b))
      return Step::kError;
    uint32_t bytes = size[l];
    judge::AsyncOp op;
    if (w.judge != nullptr)
      op = JudgeBulkShared({w, i, l}, {*source, s}, {*target, d}, bytes, {*owner, b});
    bool apart = target != source || d + uint64_t{bytes} <= s || s + uint64_t{bytes} <= d;
    if (Poisons(w) && apart) memset(target->smem + d, 0xff, bytes);
    bool ok = IssueCopy(w, [=, &w, &i] {
      if (bytes > 0) memmove(target->smem + d, source->smem + s, bytes);
      if (w.judge != nullptr) w.judge->Landed(op, owner->rank, b);
      return CompleteTx(w, i, l, *owner, b, bytes);
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

// st.async and red.async: registers into shared memory of the cluster, told to an mbarrier there.
Step RunStoreAsync(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *to = Row<uint32_t>(w, i.o[0]), *bar = Row<uint32_t>(w, i.o[2]);
  const uint32_t* list = &w.cta->cluster->launch->program->lists[i.o[1]];
  const auto type = static_cast<Type>(i.u[3]);
  const uint32_t each = static_cast<uint32_t>(TypeBits(type)) / 8, bytes = each * list[0];
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    Cta *target = nullptr, *owner = nullptr;
    uint32_t d = 0, b = 0;
    if (!SharedRange(w, i, l, to[l], bytes, bytes, "an asynchronous store", &target, &d) ||
        !SharedRange(w, i, l, bar[l], 8, 8, "an mbarrier", &owner, &b))
      return Step::kError;
    std::array<uint8_t, 32> values = {};
    for (uint32_t k = 0; k < list[0]; ++k) {
      const uint64_t v =
          each == 8 ? Row<uint64_t>(w, list[1 + k])[l] : Row<uint32_t>(w, list[1 + k])[l];
      memcpy(&values[k * each], &v, each);
    }
    judge::AsyncOp op;
    if (w.judge != nullptr)
      op = JudgeStoreAsync({w, i, l}, {*target, d}, bytes, {*owner, b}, i.u[0] != 0);
    const bool ok = IssueCopy(w, [=, &w, &i] {
      uint64_t old = 0, now = 0;
      if (i.u[0]) {
        memcpy(&old, target->smem + d, each);
        memcpy(&now, values.data(), each);
        now = AtomResult(static_cast<AtomOp>(i.u[1]), type, old, now);
        memcpy(target->smem + d, &now, each);
      } else {
        memcpy(target->smem + d, values.data(), bytes);
      }
      if (w.judge != nullptr) w.judge->Landed(op, owner->rank, b);
      return CompleteTx(w, i, l, *owner, b, bytes);
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

Step RunBulkStore(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* to = Row<uint64_t>(w, i.o[0]);
  const uint32_t *from = Row<uint32_t>(w, i.o[1]), *size = Row<uint32_t>(w, i.o[2]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    Cta* cta = nullptr;
    uint32_t offset = 0;
    if (!BulkSize(w, i, l, size[l]) ||
        !SharedRange(w, i, l, from[l], size[l], 16, "a bulk copy", &cta, &offset) ||
        !GlobalRange(w, i, l, to[l], size[l], 16, true, "a bulk store"))
      return Step::kError;
    // Bit k of the mask: byte k of every 16.
    const auto bytes_of =
        i.u[0] != 0 ? static_cast<uint16_t>(Row<uint32_t>(w, i.o[i.u[0]])[l]) : uint16_t{0xffff};
    if (w.judge != nullptr) {
      const uint32_t twins = Twins(mask, l, [&](int o) {
        return to[o] == to[l] && from[o] == from[l] && size[o] == size[l] &&
               (i.u[0] == 0 ||
                Row<uint32_t>(w, i.o[i.u[0]])[o] == Row<uint32_t>(w, i.o[i.u[0]])[l]);
      });
      JudgeBulkStore({w, i, l}, {*cta, offset}, to[l], size[l], false, bytes_of, twins);
    }
    auto* target = reinterpret_cast<uint8_t*>(to[l]);
    const uint8_t* source = cta->smem + offset;
    const bool ok = IssueGrouped(w, true, l, [=, bytes = size[l]] {
      if (bytes_of != 0xffff) {
        for (uint32_t k = 0; k < bytes; ++k)
          if (bytes_of >> k % 16 & 1) target[k] = source[k];
        return true;
      }
      if (bytes > 0) memcpy(target, source, bytes);  // of nothing, to anywhere
      return true;
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

Step RunBulkReduce(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t* to = Row<uint64_t>(w, i.o[0]);
  const uint32_t *from = Row<uint32_t>(w, i.o[1]), *size = Row<uint32_t>(w, i.o[2]);
  Element element = static_cast<Element>(i.u[1]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    Cta* cta = nullptr;
    uint32_t offset = 0;
    if (!BulkSize(w, i, l, size[l]) ||
        !SharedRange(w, i, l, from[l], size[l], 16, "a bulk reduction", &cta, &offset) ||
        !GlobalRange(w, i, l, to[l], size[l], 16, true, "a bulk reduction"))
      return Step::kError;
    if (w.judge != nullptr)
      JudgeBulkStore({w, i, l}, {*cta, offset}, to[l], size[l], /*reduces=*/true);
    auto* target = reinterpret_cast<uint8_t*>(to[l]);
    const uint8_t* source = cta->smem + offset;
    const auto how = static_cast<TmaReduceOp>(i.u[0]);
    const bool ok = IssueGrouped(w, true, l, [=, bytes = size[l]] {
      ReduceRow(how, element, target, source, bytes / ElementBytes(element), /*flush=*/true);
      return true;
    });
    if (!ok) return Step::kError;
  }
  return Step::kNext;
}

namespace {

// Map and coordinates of one lane. False: a fault was recorded.
bool ReadTensor(Warp& w, const Inst& i, int l, const uint32_t* list, TensorMapInfo* map,
                int32_t* coords) {
  uint64_t address = Row<uint64_t>(w, list[1])[l];
  if (!GlobalRange(w, i, l, address, 128, 64, false, "the tensor map")) return false;
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

Step CopyFault(Warp& w, const Inst& i, int l, const TmaResult& r, const TensorMapInfo& map,
               uint32_t offset, bool write) {
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
    if (!SharedRange(w, i, l, to[l], 1, 1, "a tensor copy", &cta, &offset) ||
        !SharedRange(w, i, l, bar[l], 8, 8, "an mbarrier", &owner, &bar_offset))
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
      const TmaResult r =
          TmaCheck(map, coords, false, std::nullopt, cta->smem_bytes, offset, check);
      if (!r.ok()) return CopyFault(w, i, l, r, map, offset, false);
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
        CopyFault(w, i, l, r, map, offset, false);
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
    if (!SharedRange(w, i, l, from[l], 1, 1, "a tensor copy", &cta, &offset)) return Step::kError;
    std::array<int32_t, 5> where;
    std::copy(coords, coords + 5, where.begin());
    const bool reduces = i.u[0] != 0xff;
    const auto how = static_cast<TmaReduceOp>(i.u[0]);
    if (LooksAhead(w)) {
      const TmaResult r = TmaCheck(map, coords, true, reduces ? std::optional(how) : std::nullopt,
                                   cta->smem_bytes, offset, check);
      if (!r.ok()) return CopyFault(w, i, l, r, map, offset, true);
    }
    const auto land = [=, &w, &i] {
      const TmaResult r =
          !reduces ? TmaStore(map, where.data(), cta->smem, cta->smem_bytes, offset, check)
                   : TmaReduce(map, where.data(), how, cta->smem, cta->smem_bytes, offset, check);
      if (!r.ok()) CopyFault(w, i, l, r, map, offset, true);
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
