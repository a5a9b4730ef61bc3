// Branches, exits and the barriers of warps, CTAs and clusters.
//
// Every blocking handler follows the protocol of internal.h: the first visit registers the arrival
// and returns kBlock with a Wait; when the condition holds the instruction runs again with
// w.resumed set and finishes.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

Step RunNothing(Warp&, const Inst&, uint32_t) { return Step::kNext; }

Step RunNanosleep(Warp&, const Inst&, uint32_t) { return Step::kYield; }

Step RunBra(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t target = static_cast<uint32_t>(i.imm);
  if (mask == w.active) {
    w.pc = target;
    return Step::kJump;
  }
  // Both ways: the smaller pc goes on, the other path waits for it to catch up.
  uint32_t rest = w.active & ~mask, next = w.pc + 1;
  Path other;
  if (target < next) {
    other.pc = next, other.mask = rest;
    w.pc = target, w.active = mask;
  } else {
    other.pc = target, other.mask = mask;
    w.pc = next, w.active = rest;
  }
  w.merge_pc = std::min(w.merge_pc, other.pc);
  w.others.push_back(other);
  return Step::kJump;
}

Step RunRet(Warp& w, const Inst&, uint32_t mask) {
  ExitLanes(w, mask);
  return w.active == 0 ? Step::kDone : Step::kNext;
}

Step RunTrap(Warp& w, const Inst& i, uint32_t mask) {
  return FailLane(w, i, __builtin_ctz(mask), kTrap, TextOf(w, i));
}

// What the decoder had no handler for.
Step RunRefused(Warp& w, const Inst& i, uint32_t mask) {
  constexpr size_t kMost = 8;
  const Program& program = *w.cta->cluster->launch->program;
  const Program::Refusal& r = program.refusals[i.imm];
  const bool first = !w.cta->cluster->failed;
  FailText(w, i, *r.def, r.message, __builtin_ctz(mask));
  if (!first) return Step::kError;
  Fault& fault = w.cta->cluster->fault;
  fault.notes.insert(fault.notes.end(), r.notes.begin(), r.notes.end());
  std::vector<std::string> others;
  for (const Inst& other : program.code)
    if (other.run == RunRefused && other.text != i.text && others.size() < kMost)
      others.push_back(fmt::format("`{}` at line {}", program.texts[other.text], other.line));
  if (!others.empty())
    fault.notes.push_back(
        fmt::format("the entry has others of the kind: {}", fmt::join(others, ", ")));
  return Step::kError;
}

Step Converge(Warp& w, const Inst& i, uint32_t mask, uint32_t members) {
  uint32_t missing = members & w.live & ~mask;
  if ((members & mask) != mask)
    return FailText(w, i, kConvergence,
                    fmt::format("`{}`: the member mask {:#x} lacks a lane that executes it "
                                "(lanes {:#x})",
                                TextOf(w, i), members, mask),
                    __builtin_ctz(mask & ~members));
  if (missing == 0) return Step::kNext;
  if ((missing & ~w.active) == 0)
    return FailText(w, i, kConvergence,
                    fmt::format("`{}`: lanes {:#x} of the member mask are here, but their guard is "
                                "false",
                                TextOf(w, i), missing),
                    __builtin_ctz(missing));
  // Paths that already wait here join this one.
  uint32_t pc = w.pc;
  for (size_t k = 0; k < w.others.size();) {
    Path& p = w.others[k];
    if (p.pc == pc && !p.resumed &&
        (p.wait.kind == Wait::Kind::kConverge || p.wait.kind == Wait::Kind::kNone)) {
      w.active |= p.mask;
      p = w.others.back();
      w.others.pop_back();
      continue;
    }
    ++k;
  }
  w.merge_pc = ~0u;
  for (const Path& p : w.others)
    if (p.wait.kind == Wait::Kind::kNone) w.merge_pc = std::min(w.merge_pc, p.pc);
  if ((members & w.live & ~w.active) == 0) return Step::kRetry;  // with the larger mask
  w.wait = {};
  w.wait.kind = Wait::Kind::kConverge;
  w.wait.id = members;
  w.wait.value = w.accesses;
  return Step::kBlock;
}

Step RunBarWarp(Warp& w, const Inst& i, uint32_t mask) {
  if (w.resumed) return Step::kNext;
  uint32_t members = Row<uint32_t>(w, i.o[0])[__builtin_ctz(mask)];
  if ((members & mask) != mask)
    return FailText(w, i, kConvergence,
                    fmt::format("`{}`: the member mask {:#x} lacks a lane that "
                                "executes it",
                                TextOf(w, i), members),
                    __builtin_ctz(mask & ~members));
  // value 1: released by an earlier meeting but not yet gone on; such lanes are not here again.
  auto waits = [&](const Path& p) {
    return p.wait.kind == Wait::Kind::kWarpSync && p.wait.id == members && p.wait.value == 0;
  };
  uint32_t arrived = mask;
  for (const Path& p : w.others)
    if (waits(p)) arrived |= p.mask;
  if ((members & w.live & ~arrived) == 0) {
    if (w.judge != nullptr) w.judge->WarpSync(w.judge_id, arrived);
    for (Path& p : w.others)
      if (waits(p)) p.wait.value = 1;
    return Step::kNext;
  }
  w.wait = {};
  w.wait.kind = Wait::Kind::kWarpSync;
  w.wait.id = members;
  return Step::kBlock;
}

// ---- named barriers ----

namespace {

uint32_t LiveThreads(const Cta& cta) {
  uint32_t n = 0;
  for (const Warp& w : cta.warps)
    if (!w.done()) n += 32;
  return n;
}

// Completes the barrier if everybody it waits for has arrived.
bool TryComplete(Cta& cta, NamedBarrier& b) {
  if (b.arrived == 0) return false;
  uint32_t need = b.expected != 0 ? b.expected : LiveThreads(cta);
  if (b.arrived < need) return false;
  b.last_count = b.red_count;
  b.last_total = b.red_total;
  b.arrived = b.red_count = b.red_total = 0;
  ++b.generation;
  ++cta.progress;
  if (judge::Judge* j = JudgeOf(cta))
    j->NamedDone(cta.rank, static_cast<uint32_t>(&b - cta.barriers));
  return true;
}

// Arrival is per warp: a path that has all live lanes counts as 32 threads.
uint32_t Threads(const Warp& w, uint32_t mask) {
  return mask == w.live ? 32 : static_cast<uint32_t>(__builtin_popcount(mask));
}

// Checks the operands and registers the arrival. Null: a fault was recorded.
NamedBarrier* ArriveAt(Warp& w, const Inst& i, uint32_t mask, uint32_t* id) {
  int lane = __builtin_ctz(mask);
  *id = Row<uint32_t>(w, i.o[0])[lane];
  uint32_t count = i.u[1] ? Row<uint32_t>(w, i.o[1])[lane] : 0;
  if (const uint32_t most = w.cta->cluster->launch->options->machine.named_barriers; *id >= most) {
    FailRule(w, i, kBadOperandValue, judge::Rule::kS5,
             fmt::format("`{}`: barrier {} of {}", TextOf(w, i), *id, most), lane);
    return nullptr;
  }
  if (i.u[1] && (count == 0 || count % 32 != 0 || count > 1024)) {
    FailRule(w, i, kBadOperandValue, judge::Rule::kS5,
             fmt::format("`{}`: a thread count of {}, which is no multiple of 32 up to 1024",
                         TextOf(w, i), count),
             lane);
    return nullptr;
  }
  NamedBarrier& b = w.cta->barriers[*id];
  if (b.arrived > 0 && b.expected != count) {
    FailRule(w, i, kBadBarrier, judge::Rule::kS5,
             fmt::format("barrier {} is used with {} threads here and {} at line {} in the same "
                         "generation",
                         *id, count, b.expected, b.line),
             lane);
    return nullptr;
  }
  b.expected = count;
  b.line = i.line;
  b.arrived += Threads(w, mask);
  if (count != 0 && b.arrived > count) {
    FailRule(
        w, i, kBadBarrier, judge::Rule::kS5,
        fmt::format("barrier {} gets {} arrivals in a generation of {}", *id, b.arrived, count),
        lane);
    return nullptr;
  }
  ++w.cta->progress;
  return &b;
}

}  // namespace

void CheckNamedBarriers(Cta& cta) {
  for (NamedBarrier& b : cta.barriers)
    if (b.expected == 0) TryComplete(cta, b);
}

Step RunBar(Warp& w, const Inst& i, uint32_t mask) {
  bool waits = i.u[0] == 0;
  if (w.resumed) {
    if (w.judge != nullptr)
      w.judge->NamedPass(w.judge_id, mask, Row<uint32_t>(w, i.o[0])[__builtin_ctz(mask)]);
    return Step::kNext;
  }
  if (i.u[5])
    if (Step s = Converge(w, i, mask, w.live); s != Step::kNext) return s;
  uint32_t id = 0;
  NamedBarrier* b = ArriveAt(w, i, mask, &id);
  if (b == nullptr) return Step::kError;
  uint64_t generation = b->generation;
  if (w.judge != nullptr) JudgeBar({w, i, mask}, id, generation, waits, false);
  bool complete = TryComplete(*w.cta, *b);
  if (complete && waits && w.judge != nullptr) w.judge->NamedPass(w.judge_id, mask, id);
  if (complete || !waits) return Step::kNext;
  w.wait = {};
  w.wait.kind = Wait::Kind::kNamedBarrier;
  w.wait.id = id;
  w.wait.value = generation;
  return Step::kBlock;
}

Step RunBarRed(Warp& w, const Inst& i, uint32_t mask) {
  uint32_t id = Row<uint32_t>(w, i.o[0])[__builtin_ctz(mask)];
  if (!w.resumed) {
    if (i.u[5])
      if (Step s = Converge(w, i, mask, w.live); s != Step::kNext) return s;
    NamedBarrier* b = ArriveAt(w, i, mask, &id);
    if (b == nullptr) return Step::kError;
    uint32_t p = Predicate(w, i.o[2]) ^ (i.u[3] ? ~0u : 0u);
    b->red_count += static_cast<uint32_t>(__builtin_popcount(p & mask));
    b->red_total += static_cast<uint32_t>(__builtin_popcount(mask));
    uint64_t generation = b->generation;
    if (w.judge != nullptr) JudgeBar({w, i, mask}, id, generation, true, true);
    if (!TryComplete(*w.cta, *b)) {
      w.wait = {};
      w.wait.kind = Wait::Kind::kNamedBarrier;
      w.wait.id = id;
      w.wait.value = generation;
      return Step::kBlock;
    }
  }
  if (w.judge != nullptr) w.judge->NamedPass(w.judge_id, mask, id);
  const NamedBarrier& b = w.cta->barriers[id & 15];
  if (i.u[2] == 0) {
    ForLanes(mask, [&](int l) { Row<uint32_t>(w, i.o[3])[l] = b.last_count; });
  } else {
    bool r = i.u[2] == 1 ? b.last_count == b.last_total : b.last_count > 0;
    uint32_t& d = Predicate(w, i.o[3]);
    d = r ? d | mask : d & ~mask;
  }
  return Step::kNext;
}

// ---- clusters ----

Step RunClusterArrive(Warp& w, const Inst& i, uint32_t mask) {
  if (i.u[5])
    if (Step s = Converge(w, i, mask, w.live); s != Step::kNext) return s;
  ClusterBarrier& b = w.cta->cluster->barrier;
  if (mask & w.cluster_arrived)
    return FailRule(w, i, kBadBarrier, judge::Rule::kS7,
                    "a thread arrives at the cluster barrier a second time "
                    "without waiting",
                    __builtin_ctz(mask & w.cluster_arrived));
  w.cluster_arrived |= mask;
  w.cluster_here |= mask;
  ForLanes(mask, [&](int l) { w.cluster_generation[l] = b.generation; });
  b.arrived += static_cast<uint32_t>(__builtin_popcount(mask));
  if (w.judge != nullptr) w.judge->ClusterArrive(w.judge_id, mask, PcOf(w, i), i.u[0] != 0);
  CheckClusterBarrier(*w.cta->cluster);
  ++w.cta->progress;
  return Step::kNext;
}

// Complete when every thread that has not exited has arrived.
void CheckClusterBarrier(Cluster& c) {
  if (c.barrier.arrived == 0) return;
  for (const Cta& cta : c.ctas)
    for (const Warp& w : cta.warps)
      if ((w.live & ~w.cluster_here) != 0) return;
  for (Cta& cta : c.ctas)
    for (Warp& w : cta.warps) w.cluster_here = 0;
  c.barrier.arrived = 0;
  ++c.barrier.generation;
  if (c.judge != nullptr) c.judge->ClusterDone();
}

Step RunClusterWait(Warp& w, const Inst& i, uint32_t mask) {
  if (i.u[5])
    if (Step s = Converge(w, i, mask, w.live); s != Step::kNext) return s;
  if ((mask & w.cluster_arrived) != mask)
    return FailRule(w, i, kBadBarrier, judge::Rule::kS7,
                    "a thread waits at the cluster barrier without having "
                    "arrived",
                    __builtin_ctz(mask & ~w.cluster_arrived));
  const uint64_t generation = w.cta->cluster->barrier.generation;
  uint32_t waiting = 0;  // lanes whose generation, the one under way, is not complete
  ForLanes(mask, [&](int l) { waiting |= w.cluster_generation[l] == generation ? 1u << l : 0; });
  if (waiting == 0) {
    w.cluster_arrived &= ~mask;
    if (w.judge != nullptr) w.judge->ClusterPass(w.judge_id, mask);
    return Step::kNext;
  }
  w.wait = {};
  w.wait.kind = Wait::Kind::kClusterBarrier;
  w.wait.value = generation;
  if (waiting == mask) return Step::kBlock;
  // Some lanes are a barrier behind the others, who may be waiting for what those do next.
  Path behind;
  behind.pc = w.pc;
  behind.mask = waiting;
  behind.wait = w.wait;
  w.others.push_back(behind);
  w.active &= ~waiting;
  return Step::kRetry;
}

// ---- registers ----

// Counts only: releasing fills the CTA's pool, taking waits until the pool has enough.
Step RunSetMaxNReg(Warp& w, const Inst& i, uint32_t mask) {
  if (Step s = Converge(w, i, mask, w.launched); s != Step::kNext) return s;
  if (mask != ~0u)
    return FailRule(w, i, kConvergence, judge::Rule::kR1,
                    fmt::format("`{}`: all 32 lanes of a warp must execute it", TextOf(w, i)));
  uint32_t want = static_cast<uint32_t>(i.imm);
  Cta& cta = *w.cta;
  // Where a thread may be launched with all that the ISA has, it may also be raised to 256.
  if (const uint32_t most = cta.cluster->launch->options->machine.regs_per_thread;
      most < 255 && want > most)
    return FailRule(
        w, i, kBadOperandValue, judge::Rule::kR1,
        fmt::format("`{}`: {} registers, a thread has at most {}", TextOf(w, i), want, most));
  auto done = [&] {
    if (w.judge == nullptr) return Step::kNext;
    w.judge->SetRegisters(w.judge_id, PcOf(w, i), want);
    const Program& p = *cta.cluster->launch->program;
    if (p.maxnreg == 0 && p.maxntid[0] == 0 && p.reqntid[0] == 0)
      w.judge->Hint(judge::Rule::kR1, ActOf({w, i, mask}),
                    "the entry does not say how many registers it starts with",
                    "give the entry `.maxnreg`, or `.reqntid` and `.minnctapersm`");
    return Step::kNext;
  };
  if (w.registers == 0) {
    w.registers = want;  // the kernel does not say how many registers it starts with
    return done();
  }
  int64_t delta = int64_t{want} - w.registers;
  bool known = cta.cluster->launch->program->maxnreg != 0;  // else the start value is a guess
  if (!known && (i.u[0] ? delta < 0 : delta > 0)) {
    w.registers = want;
    return done();
  }
  if (!i.u[0] && delta > 0)
    return FailRule(w, i, kBadOperandValue, judge::Rule::kR1,
                    fmt::format("`{}`: the warp has {} registers, {} is more", TextOf(w, i),
                                w.registers, want));
  if (i.u[0] && delta < 0)
    return FailRule(w, i, kBadOperandValue, judge::Rule::kR1,
                    fmt::format("`{}`: the warp has {} registers, {} is fewer", TextOf(w, i),
                                w.registers, want));
  if (delta * 32 > cta.register_pool) {
    w.wait = {};
    w.wait.kind = Wait::Kind::kRegisters;
    w.wait.id = want;
    w.wait.value = static_cast<uint64_t>(delta * 32);
    return Step::kBlock;
  }
  cta.register_pool -= delta * 32;
  w.registers = want;
  ++cta.progress;
  return done();
}

}  // namespace tilec::runtime::emulator
