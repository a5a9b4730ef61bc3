// Tensor maps that a kernel makes: fields of one in memory, and its way from shared to global
// memory. Clusters that a kernel takes over before they begin. Zeros in bulk.
//
// An answer about a cluster is 16 bytes: the magic number, whether one was taken, and the first of
// its CTAs. The launch's clusters are handed out in order of their numbers, by the pool and by
// answers alike.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint32_t kHalf = sizeof(TensorMap) / 2;  // maps lie on 64 bytes

// Both halves of the maps at the lanes' addresses, checked; `told` to the judge as one access.
bool LocateMaps(const Issuers& by, const uint64_t* address, const Reach& of_half, Access at[2]) {
  for (uint32_t half = 0; half < 2; ++half) {
    uint64_t a[32];
    for (int l = 0; l < 32; ++l) a[l] = address[l] + half * kHalf;
    if (!LocateAt(by, a, of_half, &at[half])) return false;
  }
  // Two allocations never touch, so both halves are of one piece.
  return true;
}

// By blocks of the shadow, so that lanes that touch one map are seen to touch the same bytes.
void JudgeMaps(Warp& w, const Inst& i, uint32_t mask, const Access at[2], bool write) {
  if (w.judge == nullptr) return;
  constexpr uint32_t kBlock = 16;
  for (uint32_t k = 0; k < 2 * kHalf; k += kBlock) {
    Access part = at[k / kHalf];
    ForLanes(mask, [&](int l) { part.p[l] += k % kHalf; });
    JudgeAccess({w, i, mask}, part, kBlock, write, /*atomic=*/false);
  }
}

}  // namespace

Step RunReplaceMap(Warp& w, const Inst& i, uint32_t mask) {
  uint64_t address[32];
  for (int l = 0; l < 32; ++l)
    address[l] = i.u[2] ? Row<uint64_t>(w, i.o[0])[l] + i.imm
                        : static_cast<uint32_t>(Row<uint32_t>(w, i.o[0])[l] + i.imm);
  Access at[2];
  const Reach reach = {static_cast<Space>(i.u[0]), i.u[1] != 0, kHalf, /*write=*/true};
  if (!LocateMaps({w, i, mask}, address, reach, at)) return Step::kError;
  JudgeMaps(w, i, mask, at, false);
  JudgeMaps(w, i, mask, at, true);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t value = i.u[5] ? Row<uint64_t>(w, i.o[1])[l] : Row<uint32_t>(w, i.o[1])[l];
    std::string why;
    if (!ReplaceInTensorMap(at[0].p[l], static_cast<MapField>(i.u[3]), i.u[4], value, &why))
      return FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
                      fmt::format("the tensor map at {:#x} {}", address[l], why));
  }
  return Step::kNext;
}

// The copy is one of the generic proxy; the fence behind it makes it known to the proxy of maps.
Step RunCopyMap(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  uint64_t to[32], from[32];
  for (int l = 0; l < 32; ++l) {
    to[l] = Row<uint64_t>(w, i.o[0])[l];
    from[l] = Row<uint32_t>(w, i.o[1])[l];
  }
  Access source[2], target[2];
  if (!LocateMaps({w, i, mask}, from, {Space::kShared, false, kHalf, /*write=*/false}, source) ||
      !LocateMaps({w, i, mask}, to, {Space::kGlobal, false, kHalf, /*write=*/true}, target))
    return Step::kError;
  // One lane has often written the map: all wait for each other here, which is taken as an order.
  if (w.judge != nullptr) w.judge->WarpSync(w.judge_id, mask);
  JudgeMaps(w, i, mask, source, false);
  JudgeMaps(w, i, mask, target, true);
  ForLanes(mask, [&](int l) { std::memcpy(target[0].p[l], source[0].p[l], sizeof(TensorMap)); });
  if (w.judge != nullptr) w.judge->TensorMapRelease(w.judge_id, mask);
  return Step::kNext;
}

namespace {

constexpr uint32_t kAnswerMagic = 0x434c4300u;  // and 1: a cluster was taken
struct Answer {
  uint32_t flag = kAnswerMagic;
  uint32_t ctaid[3] = {~0u, ~0u, ~0u};
};
static_assert(sizeof(Answer) == 16);

Answer TakeCluster(Launch& launch) {
  Answer a;
  uint64_t all = 1;
  for (uint32_t n : launch.clusters) all *= n;
  if (launch.next_cluster.load() >= all) return a;
  uint64_t n = launch.next_cluster.fetch_add(1);
  if (n >= all) return a;
  a.flag |= 1;
  for (int k = 0; k < 3; ++k) {
    a.ctaid[k] = static_cast<uint32_t>(n % launch.clusters[k]) * launch.config.cluster[k];
    n /= launch.clusters[k];
  }
  return a;
}

}  // namespace

Step RunTryCancel(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t *to = Row<uint32_t>(w, i.o[0]), *bar = Row<uint32_t>(w, i.o[1]);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    Cta *cta = nullptr, *owner = nullptr;
    uint32_t offset = 0, at = 0;
    if (!SharedRange({w, i, l}, to[l], {sizeof(Answer), sizeof(Answer), "an answer"}, &cta,
                     &offset) ||
        !SharedRange({w, i, l}, bar[l], {8, 8, "an mbarrier"}, &owner, &at))
      return Step::kError;
    if (cta != w.cta || owner != w.cta)
      return FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
                      "the answer and the mbarrier are not both in the CTA's own shared memory");
    const Answer answer = TakeCluster(*w.cta->cluster->launch);
    for (Cta& target : w.cta->cluster->ctas) {
      if (!i.u[0] && &target != cta) continue;
      judge::AsyncOp op;
      if (w.judge != nullptr) op = JudgeAnswer({w, i, l}, {target, offset}, sizeof(Answer), at);
      const bool ok = IssueCopy(w, [=, &w, &i, &target] {
        std::memcpy(target.smem + offset, &answer, sizeof answer);
        if (w.judge != nullptr) w.judge->Landed(op, target.rank, at);
        return CompleteTx(w, i, l, target, at, sizeof answer);
      });
      if (!ok) return Step::kError;
    }
  }
  return Step::kNext;
}

Step RunQueryCancel(Warp& w, const Inst& i, uint32_t mask) {
  const uint64_t *low = Row<uint64_t>(w, i.o[1]), *high = Row<uint64_t>(w, i.o[2]);
  const uint32_t* list = i.u[0] == 4 ? &w.cta->cluster->launch->program->lists[i.o[0]] : nullptr;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint32_t words[4] = {static_cast<uint32_t>(low[l]), static_cast<uint32_t>(low[l] >> 32),
                               static_cast<uint32_t>(high[l]),
                               static_cast<uint32_t>(high[l] >> 32)};
    if ((words[0] & ~1u) != kAnswerMagic)
      return FailLane(
          w, i, l, kBadOperandValue, TextOf(w, i),
          fmt::format("{:#x} is no answer of `clusterlaunchcontrol.try_cancel`", words[0]));
    if (i.u[0] == 0) {
      uint32_t& p = Predicate(w, i.o[0]);
      p = (p & ~(1u << l)) | (words[0] & 1) << l;
    } else if (i.u[0] < 4) {
      Row<uint32_t>(w, i.o[0])[l] = words[i.u[0]];
    } else {
      for (uint32_t k = 0; k < 4; ++k) Row<uint32_t>(w, list[1 + k])[l] = k < 3 ? words[1 + k] : 0;
    }
  }
  return Step::kNext;
}

Step RunStoreBulk(Warp& w, const Inst& i, uint32_t mask) {
  constexpr uint32_t kPiece = 8;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int l = __builtin_ctz(m);
    const uint64_t size = i.u[3] ? Row<uint64_t>(w, i.o[1])[l] : Row<uint32_t>(w, i.o[1])[l];
    uint64_t a[32] = {};
    a[l] = i.u[2] ? Row<uint64_t>(w, i.o[0])[l] + i.imm
                  : static_cast<uint32_t>(Row<uint32_t>(w, i.o[0])[l] + i.imm);
    Cta* cta = nullptr;
    uint32_t offset = 0;
    const bool shared = !i.u[1] || (a[l] & kWindowMask) == kSharedWindow;
    if (!shared)
      return FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
                      fmt::format("the address {:#x} is not one of shared memory", a[l]));
    if (size % kPiece != 0)
      return FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
                      fmt::format("a size of {} bytes, which is no multiple of 8", size));
    const auto low = static_cast<uint32_t>(a[l]);
    if (!SharedRange({w, i, l}, low, {size, kPiece, "a store in bulk"}, &cta, &offset))
      return Step::kError;
    if (size > 0) std::memset(cta->smem + offset, 0, size);
    if (w.judge == nullptr) continue;
    Access at;
    at.space = Space::kShared;
    for (uint64_t k = 0; k < size; k += kPiece) {
      at.p[l] = cta->smem + offset + k;
      JudgeAccess({w, i, 1u << l}, at, kPiece, /*write=*/true, /*atomic=*/false);
    }
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
