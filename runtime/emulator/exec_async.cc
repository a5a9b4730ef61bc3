// mbarriers and asynchronous copies. Copies happen when they are issued and signal their barrier
// at once, which programs may not tell from a copy that was merely fast; they land later where
// EmulatorOptions::landing says so (turns.cc): at the latest when somebody has waited for them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mbarrier.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {
namespace {

// The barrier object at a shared address; null: a fault was recorded. With `create` a new one.
MBarrier* BarrierAt(Warp& w, const Inst& i, int lane, uint32_t address, bool create, Cta** owner) {
  uint32_t offset = 0;
  Cta* cta = ResolveShared(w, address, &offset);
  if (cta == nullptr || offset > cta->smem_bytes || 8 > cta->smem_bytes - offset) {
    FailLane(w, i, lane, kSharedOutOfBounds, "an mbarrier", 8, offset,
             cta == nullptr ? 0 : cta->smem_bytes);
    return nullptr;
  }
  if (offset % 8 != 0) {
    FailLane(w, i, lane, kMisaligned, "an mbarrier", 8, offset, 8);
    return nullptr;
  }
  *owner = cta;
  if (create) return &cta->mbarriers[offset];
  auto it = cta->mbarriers.find(offset);
  if (it != cta->mbarriers.end()) return &it->second;
  FailText(
      w, i, kBadBarrier,
      fmt::format("`{}`: no mbarrier was initialised at shared offset {}", TextOf(w, i), offset),
      lane);
  return nullptr;
}

judge::Rule RuleOf(MBarrierError error) {
  switch (error) {
    case MBarrierError::kNone:
    case MBarrierError::kNotInitialized:
    case MBarrierError::kAlreadyInitialized: return judge::Rule::kS9;
    case MBarrierError::kCountRange:
    case MBarrierError::kArriveUnderflow:
    case MBarrierError::kNoCompleteCompletes: return judge::Rule::kS2;
    case MBarrierError::kTxRange: return judge::Rule::kA4;
    case MBarrierError::kTxOverflow: return judge::Rule::kA5;
    case MBarrierError::kStalePhase:
    case MBarrierError::kParityRange: return judge::Rule::kS3;
  }
  return judge::Rule::kS9;
}

Step BarrierFault(Warp& w, const Inst& i, int lane, uint32_t address, const MBarrier& b,
                  MBarrierError error) {
  uint32_t offset = address & ((1u << kRankShift) - 1);
  return FailRule(w, i, kBadBarrier, RuleOf(error),
                  fmt::format("`{}` on the mbarrier at shared offset {}: {} (phase {}, {} of {} "
                              "arrivals pending, tx {})",
                              TextOf(w, i), offset, Describe(error), b.phase(), b.pending(),
                              b.expected(), b.tx()),
                  lane);
}

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

bool BulkSize(Warp& w, const Inst& i, int lane, uint32_t bytes) {
  if (bytes % 16 == 0) return true;
  FailLane(w, i, lane, kBadOperandValue, TextOf(w, i),
           fmt::format("a size of {} bytes, which is no multiple of 16", bytes));
  return false;
}

}  // namespace

Step RunMBarrier(Warp& w, const Inst& i, uint32_t mask) {
  MBarrierOp op = static_cast<MBarrierOp>(i.u[0]);
  int operand = i.u[3];
  const uint32_t* address = Row<uint32_t>(w, i.o[operand]);
  bool has_value = i.u[2] > operand + 1;
  const uint32_t* value = has_value ? Row<uint32_t>(w, i.o[operand + 1]) : nullptr;
  MBarrierToken first;
  uint32_t first_address = 0;
  const Cta* first_cta = nullptr;
  bool told = false;  // the judge, of the lanes at told_address
  uint32_t told_address = 0;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    Cta* cta = nullptr;
    MBarrier* b = BarrierAt(w, i, l, address[l], op == MBarrierOp::kInit, &cta);
    if (b == nullptr) return Step::kError;
    uint32_t n = has_value ? value[l] : 1;
    if (w.judge != nullptr && op != MBarrierOp::kInit && op != MBarrierOp::kInval &&
        op != MBarrierOp::kCompleteTx && !(told && address[l] == told_address)) {
      uint32_t lanes = 0;  // those still to come that arrive here too
      ForLanes(m, [&](int k) { lanes |= address[k] == address[l] ? 1u << k : 0; });
      JudgeArrive(w, i, lanes, *cta, address[l] & ((1u << kRankShift) - 1),
                  op != MBarrierOp::kExpectTx,
                  op == MBarrierOp::kExpectTx || op == MBarrierOp::kArriveExpectTx ||
                      op == MBarrierOp::kArriveDropExpectTx);
      told = true;
      told_address = address[l];
    }
    MBarrierStep step;
    switch (op) {
      case MBarrierOp::kInit:
        step = b->Init(n);
        if (w.judge != nullptr && !w.judge->MoreBarriers())
          return FailLane(w, i, l, kPtxTooBig, "a checked launch", "one more mbarrier in a cluster",
                          judge::Judge::kMaxBarriers);
        if (w.judge != nullptr && step.ok())
          w.judge->BarrierInit(w.judge_id, 1u << l, PcOf(w, i), cta->rank,
                               address[l] & ((1u << kRankShift) - 1), n);
        memset(cta->smem + (address[l] & ((1u << kRankShift) - 1)), 0xba, 8);
        break;
      case MBarrierOp::kInval: step = b->Invalidate(); break;
      case MBarrierOp::kArrive: step = b->Arrive(n); break;
      case MBarrierOp::kArriveNoComplete: step = b->Arrive(n, true); break;
      case MBarrierOp::kArriveExpectTx: step = b->ArriveExpectTx(n); break;
      case MBarrierOp::kArriveDrop: step = b->ArriveDrop(n); break;
      case MBarrierOp::kArriveDropExpectTx: step = b->ArriveDropExpectTx(n); break;
      case MBarrierOp::kArriveDropNoComplete: step = b->ArriveDrop(n, true); break;
      case MBarrierOp::kExpectTx: step = b->ExpectTx(n); break;
      case MBarrierOp::kCompleteTx: step = b->CompleteTx(n); break;
    }
    if (!step.ok()) return BarrierFault(w, i, l, address[l], *b, step.error);
    uint32_t offset = address[l] & ((1u << kRankShift) - 1);
    if (op == MBarrierOp::kInval) {
      if (w.judge != nullptr)
        w.judge->BarrierInval(w.judge_id, 1u << l, PcOf(w, i), cta->rank, offset);
      cta->mbarriers.erase(offset);
    }
    ++cta->progress;
    if (step.completed && w.judge != nullptr) {
      w.judge->PhaseDone(cta->rank, offset);
      told = false;
    }
    // The lanes of a warp arrive as one: within a phase all see the state before the first of them.
    if (cta == first_cta && address[l] == first_address && step.token.phase == first.phase) {
      step.token = first;
    } else {
      first = step.token;
      first_address = address[l];
      first_cta = cta;
    }
    if (i.u[1]) Row<uint64_t>(w, i.o[0])[l] = step.token.Pack();
  }
  return Step::kNext;
}

Step RunMBarrierPending(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t* d = Row<uint32_t>(w, i.o[0]);
  const uint64_t* a = Row<uint64_t>(w, i.o[1]);
  ForLanes(mask, [&](int l) { d[l] = MBarrierToken::Unpack(a[l]).pending; });
  return Step::kNext;
}

namespace {

// By place rather than by history: the same in a replay.
uint64_t DiceAt(const Warp& w, uint64_t seed) {
  uint64_t h = (seed + 1) * 0x9e3779b97f4a7c15ull ^ (w.executed + 1) * 0xbf58476d1ce4e5b9ull ^
               (w.cta->cluster->number * 4096 + w.cta->rank * 64 + w.index) * 0x94d049bb133111ebull;
  h ^= h >> 31;
  return h * 0x2545f4914f6cdd1dull;
}

// Lanes of a warp need not stay together. Some of those that come to a wait are left in front of it
// until nobody else can go on: what the others have done by then they must still get past.
bool LeavesBehind(Warp& w, uint32_t mask, uint64_t dice) {
  const uint32_t behind = mask & static_cast<uint32_t>(dice >> 8);
  if ((dice >> 59 & 7) != 0 || w.parted == kMostPartings || behind == 0 || behind == mask)
    return false;
  ++w.parted;
  Cluster& cluster = *w.cta->cluster;
  cluster.catch_up_at = std::min(cluster.catch_up_at, cluster.executed + kLongestParting);
  Path p;
  p.pc = w.pc;
  p.mask = behind;
  p.wait.kind = Wait::Kind::kBehind;
  w.others.push_back(p);
  w.active &= ~behind;
  return true;
}

}  // namespace

Step RunMBarrierWait(Warp& w, const Inst& i, uint32_t mask) {
  bool suspend = i.u[0] != 0, parity = i.u[1] != 0;
  const uint32_t* address = Row<uint32_t>(w, i.o[1]);
  const uint32_t* p32 = Row<uint32_t>(w, i.o[2]);
  const uint64_t* p64 = Row<uint64_t>(w, i.o[2]);
  const EmulatorOptions& options = *w.cta->cluster->launch->options;
  const bool dices = suspend && options.spurious_try_wait;
  const uint64_t dice = dices ? DiceAt(w, options.seed) : ~0ull;
  if (dices && LeavesBehind(w, mask, dice)) return Step::kRetry;
  uint32_t done = 0;
  bool uniform = true;
  int first = __builtin_ctz(mask);
  auto value = [&](int l) { return parity ? uint64_t{p32[l]} : p64[l]; };
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    if (l != first && address[l] == address[first] && value(l) == value(first)) {
      done |= (done >> first & 1) << l;
      continue;
    }
    uniform = uniform && l == first;
    Cta* cta = nullptr;
    MBarrier* b = BarrierAt(w, i, l, address[l], false, &cta);
    if (b == nullptr) return Step::kError;
    if (cta != w.cta)
      return FailText(w, i, kBadBarrier,
                      "`" + TextOf(w, i) + "`: waiting on another CTA's mbarrier", l);
    MBarrierWait r = parity ? b->TestParity(p32[l]) : b->TestToken(MBarrierToken::Unpack(p64[l]));
    if (r.error != MBarrierError::kNone) return BarrierFault(w, i, l, address[l], *b, r.error);
    if (r.done) done |= 1u << l;
  }
  bool waits = suspend && done == 0 && uniform;
  if (waits && !w.resumed) {
    if (dice >> 62 != 0) {  // one time in four it fails
      w.wait = {};
      w.wait.kind = Wait::Kind::kMBarrier;
      w.wait.id = address[first] & ((1u << kRankShift) - 1);
      w.wait.value = value(first);
      w.wait.token = !parity;
      return Step::kBlock;
    }
  }
  if (w.judge != nullptr && done != 0) JudgeWait(w, i, done, address, parity, p32);
  uint32_t& d = Predicate(w, i.o[0]);
  d = (d & ~mask) | done;
  if (done == mask) {
    w.polls = 0;
    return Step::kNext;
  }
  // A fruitless poll: counted while nothing else in the CTA changes (Cluster::Run looks at it).
  w.polls = w.cta->progress == w.polls_at ? w.polls + 1 : 0;
  w.polls_at = w.cta->progress;
  w.poll_id = address[first] & ((1u << kRankShift) - 1);
  w.poll_value = value(first);
  return Step::kYield;
}

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

Step RunCpAsyncArrive(Warp& w, const Inst& i, uint32_t mask) {
  const uint32_t* address = Row<uint32_t>(w, i.o[0]);
  // It arrives when the lanes' copies so far have landed: now.
  if (!LandAllOf(w, false, mask)) return Step::kError;
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    int l = __builtin_ctz(m);
    Cta* cta = nullptr;
    MBarrier* b = BarrierAt(w, i, l, address[l], false, &cta);
    if (b == nullptr) return Step::kError;
    uint32_t offset = address[l] & ((1u << kRankShift) - 1);
    if (w.judge != nullptr) w.judge->CpArrive(w.judge_id, 1u << l, PcOf(w, i), cta->rank, offset);
    MBarrierStep step;
    if (!i.u[0]) step = b->IncrementPending();
    if (step.ok()) step = b->Arrive(1);
    if (!step.ok()) return BarrierFault(w, i, l, address[l], *b, step.error);
    ++cta->progress;
    if (step.completed && w.judge != nullptr) w.judge->PhaseDone(cta->rank, offset);
  }
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
        op = JudgeBulkLoad(w, i, l, from[l], target, offset, bytes, signalled, bar_offset);
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
    if (w.judge != nullptr) op = JudgeBulkShared(w, i, l, *source, s, *target, d, bytes, *owner, b);
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
    if (w.judge != nullptr) JudgeBulkStore(w, i, l, *cta, offset, to[l], size[l], false);
    auto* target = reinterpret_cast<uint8_t*>(to[l]);
    const uint8_t* source = cta->smem + offset;
    const bool ok = IssueGrouped(w, true, l, [target, source, bytes = size[l]] {
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
    if (w.judge != nullptr) JudgeBulkStore(w, i, l, *cta, offset, to[l], size[l], true);
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
  if (!DecodeTensorMap(reinterpret_cast<const uint8_t*>(address), map)) {
    FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
             fmt::format("the 128 bytes at {:#x} are no tensor map of this device", address));
    return false;
  }
  uint32_t rank = list[0] - 1;
  if (map->rank != rank) {
    FailLane(w, i, l, kBadOperandValue, TextOf(w, i),
             fmt::format("{} coordinates for a tensor map of rank {}", rank, map->rank));
    return false;
  }
  for (uint32_t k = 0; k < rank && k < 5; ++k)
    coords[k] = static_cast<int32_t>(Row<uint32_t>(w, list[2 + k])[l]);
  return true;
}

Step TensorFault(Warp& w, const Inst& i, int l, const TmaResult& r, const TensorMapInfo& map,
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
          fmt::format("`{}`: the mbarrier is in another CTA than the destination, which "
                      "needs `.cta_group::2`",
                      TextOf(w, i)),
          l);
    std::array<int32_t, 5> where;
    std::copy(coords, coords + 5, where.begin());
    auto deliver = [&](Cta& target, Cta& signalled) {
      auto write = [=, &target](uint8_t* smem) {
        return TmaLoad(map, where.data(), smem, target.smem_bytes, offset, check);
      };
      judge::AsyncOp op;
      if (w.judge != nullptr)
        op = JudgeTensorLoad(w, i, l, map, Row<uint64_t>(w, list[1])[l], where.data(), target,
                             offset, signalled, bar_offset);
      if (Poisons(w)) PoisonDestination(target, [&](uint8_t* s) { return write(s).ok(); });
      return IssueCopy(w, [=, &w, &i, &target, &signalled] {
        TmaResult r = write(target.smem);
        if (w.judge != nullptr) w.judge->Landed(op, signalled.rank, bar_offset);
        if (r.ok()) return CompleteTx(w, i, l, signalled, bar_offset, r.bytes);
        TensorFault(w, i, l, r, map, offset, false);
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
    const auto land = [=, &w, &i] {
      const TmaResult r =
          i.u[0] == 0xff ? TmaStore(map, where.data(), cta->smem, cta->smem_bytes, offset, check)
                         : TmaReduce(map, where.data(), static_cast<TmaReduceOp>(i.u[0]), cta->smem,
                                     cta->smem_bytes, offset, check);
      if (!r.ok()) TensorFault(w, i, l, r, map, offset, true);
      return r.ok();
    };
    if (i.u[0] == static_cast<uint8_t>(TmaReduceOp::kAdd) && IsFloat(map.element))
      w.cta->cluster->launch->float_sums.store(true, std::memory_order_relaxed);
    // The judge is told of what is known to be inside of everything, if it can be known.
    const bool early = w.cta->cluster->launch->options->landing == Landing::kEarly;
    if (early && !land()) return Step::kError;
    if (w.judge != nullptr)
      JudgeTensorStore(w, i, l, map, Row<uint64_t>(w, list[1])[l], coords, *cta, offset,
                       i.u[0] != 0xff);
    if (!early && !IssueGrouped(w, true, l, land)) return Step::kError;
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
