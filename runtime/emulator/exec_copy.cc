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
#include <array>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/exec_atomic.h"
#include "runtime/emulator/exec_copy.h"
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

bool SharedRange(const Issuer& by, uint32_t address, const Stretch& needs, Cta** cta,
                 uint32_t* offset) {
  const auto& [w, i, lane] = by;
  *cta = ResolveShared(w, address, offset);
  if (*cta == nullptr || *offset > (*cta)->smem_bytes ||
      needs.bytes > (*cta)->smem_bytes - *offset) {
    FailLane(w, i, lane, kSharedOutOfBounds, needs.what, needs.bytes, *offset,
             *cta == nullptr ? 0 : (*cta)->smem_bytes);
    return false;
  }
  if (*offset % needs.align != 0) {
    FailLane(w, i, lane, kMisaligned, needs.what, needs.bytes, *offset, needs.align);
    return false;
  }
  return true;
}

bool GlobalRange(const Issuer& by, uint64_t address, const Stretch& needs, bool write) {
  const auto& [w, i, lane] = by;
  if (address % needs.align != 0) {
    FailLane(w, i, lane, kMisaligned, needs.what, needs.bytes, address, needs.align);
    return false;
  }
  if (needs.bytes == 0 || CheckGlobal(w, address, needs.bytes, write)) return true;
  FailLane(w, i, lane, kGlobalOutOfBounds, needs.what, needs.bytes, address);
  return false;
}

namespace {

bool BulkSize(Warp& w, const Inst& i, int lane, uint32_t bytes) {
  if (bytes % 16 == 0) return true;
  FailLane(w, i, lane, kBadOperandValue, TextOf(w, i),
           fmt::format("a size of {} bytes, which is no multiple of 16", bytes));
  return false;
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
    if (!SharedRange({w, i, l}, to[l], {bytes, bytes, "an asynchronous copy"}, &cta, &offset) ||
        !GlobalRange({w, i, l}, from[l], {n, bytes, "an asynchronous copy"}, false))
      return Step::kError;
    uint8_t* target = cta->smem + offset;
    if (Poisons(w)) memset(target, 0xff, bytes);
    IssueGrouped(w, false, l, [=, source = reinterpret_cast<const uint8_t*>(from[l])] {
      memset(target, 0, bytes);
      if (n > 0) memcpy(target, source, n);  // of nothing, from anywhere
      return true;
    });
  }
  if (w.judge != nullptr) JudgeCpAsync({w, i, mask}, to, from, size, bytes);
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
        !SharedRange({w, i, l}, to[l], {size[l], 16, "a bulk copy"}, &cta, &offset) ||
        !GlobalRange({w, i, l}, from[l], {size[l], 16, "a bulk copy"}, false) ||
        !SharedRange({w, i, l}, bar[l], {8, 8, "an mbarrier"}, &owner, &bar_offset))
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
        !SharedRange({w, i, l}, to[l], {size[l], 16, "a bulk copy"}, &target, &d) ||
        !SharedRange({w, i, l}, from[l], {size[l], 16, "a bulk copy"}, &source, &s) ||
        !SharedRange({w, i, l}, bar[l], {8, 8, "an mbarrier"}, &owner, &b))
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
    if (!SharedRange({w, i, l}, to[l], {bytes, bytes, "an asynchronous store"}, &target, &d) ||
        !SharedRange({w, i, l}, bar[l], {8, 8, "an mbarrier"}, &owner, &b))
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
        !SharedRange({w, i, l}, from[l], {size[l], 16, "a bulk copy"}, &cta, &offset) ||
        !GlobalRange({w, i, l}, to[l], {size[l], 16, "a bulk store"}, true))
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
      JudgeBulkStore({w, i, l}, {*cta, offset}, to[l], size[l], {false, bytes_of, twins});
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
        !SharedRange({w, i, l}, from[l], {size[l], 16, "a bulk reduction"}, &cta, &offset) ||
        !GlobalRange({w, i, l}, to[l], {size[l], 16, "a bulk reduction"}, true))
      return Step::kError;
    if (w.judge != nullptr)
      JudgeBulkStore({w, i, l}, {*cta, offset}, to[l], size[l], {.reduces = true});
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

}  // namespace tilec::runtime::emulator
