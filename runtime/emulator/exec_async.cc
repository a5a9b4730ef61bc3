// mbarriers: arrivals, expectations and waits. The copies that signal them are in exec_copy.cc.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"
#include "runtime/emulator/mbarrier.h"

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

}  // namespace

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

namespace {

// For the report about a hang (deadlock.cc).
void NoteArrival(const Warp& w, const Inst& i, int lane, Cta& cta, uint32_t offset,
                 const MBarrierStep& step) {
  if (w.judge != nullptr)
    cta.arrivals[offset].Add(step.token.phase, {w.cta->rank, w.index, PcOf(w, i), 1u << lane});
}

bool IsArrival(MBarrierOp op) {
  switch (op) {
    case MBarrierOp::kArrive:
    case MBarrierOp::kArriveNoComplete:
    case MBarrierOp::kArriveExpectTx:
    case MBarrierOp::kArriveDrop:
    case MBarrierOp::kArriveDropExpectTx:
    case MBarrierOp::kArriveDropNoComplete: return true;
    case MBarrierOp::kInit:
    case MBarrierOp::kInval:
    case MBarrierOp::kExpectTx:
    case MBarrierOp::kCompleteTx: return false;
  }
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
      JudgeArrive({w, i, lanes}, {*cta, address[l] & ((1u << kRankShift) - 1)},
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
    if (IsArrival(op)) NoteArrival(w, i, l, *cta, offset, step);
    if (op == MBarrierOp::kInit && w.judge != nullptr)
      cta->arrivals.insert_or_assign(offset, Arrivals(PcOf(w, i)));
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

// The first time that a wait of the warp would have to wait it fails, so that a program that goes
// on all the same is seen to.
bool FailsFirst(Warp& w, const Inst& i) {
  const uint32_t pc = PcOf(w, i);
  if (std::find(w.failed_at.begin(), w.failed_at.end(), pc) != w.failed_at.end()) return false;
  w.failed_at.push_back(pc);
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
    // Then one time in four.
    if (dice >> 62 != 0 && !(dices && FailsFirst(w, i))) {
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
    NoteArrival(w, i, l, *cta, offset, step);
    ++cta->progress;
    if (step.completed && w.judge != nullptr) w.judge->PhaseDone(cta->rank, offset);
  }
  return Step::kNext;
}

}  // namespace tilec::runtime::emulator
