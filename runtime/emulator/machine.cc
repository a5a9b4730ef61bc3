// Clusters at work: the interpreter loop, paths of a warp, scheduling, faults.
//
// Warps run until they block, round robin; other schedules are in turns.cc. Blocked paths are asked
// again whenever their warp's turn comes. If nobody can run, deadlock.cc tells why.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {
namespace {

bool Holds(Warp& w, const Path& p) {
  const Wait& wait = p.wait;
  Cta& cta = *w.cta;
  switch (wait.kind) {
    case Wait::Kind::kNone: return true;
    case Wait::Kind::kYielded: return true;
    case Wait::Kind::kMBarrier: {
      auto it = cta.mbarriers.find(wait.id);
      if (it == cta.mbarriers.end()) return true;  // the instruction will report it
      MBarrierWait r = wait.token ? it->second.TestToken(MBarrierToken::Unpack(wait.value))
                                  : it->second.TestParity(static_cast<uint32_t>(wait.value));
      return r.done || r.error != MBarrierError::kNone;
    }
    case Wait::Kind::kBehind: return false;  // until CatchUp
    case Wait::Kind::kNamedBarrier: return cta.barriers[wait.id].generation != wait.value;
    case Wait::Kind::kConverge: {
      uint32_t here = p.mask;
      for (const Path& q : w.others)
        if (&q != &p && q.pc == p.pc &&
            (q.wait.kind == Wait::Kind::kConverge || q.wait.kind == Wait::Kind::kNone))
          here |= q.mask;
      return (wait.id & w.live & ~here) == 0;
    }
    case Wait::Kind::kWarpSync: {
      if (wait.value != 0) return true;
      uint32_t here = 0;
      for (const Path& q : w.others)
        if (q.wait.kind == Wait::Kind::kWarpSync && q.wait.id == wait.id && q.wait.value == 0)
          here |= q.mask;
      return (wait.id & w.live & ~here) == 0;
    }
    case Wait::Kind::kRegisters: return static_cast<int64_t>(wait.value) <= cta.register_pool;
    case Wait::Kind::kWgmma: return cta.groups[wait.id].generation != wait.value;
    case Wait::Kind::kClusterBarrier: return cta.cluster->barrier.generation > wait.value;
    case Wait::Kind::kTensorColumns: return TensorOf(cta).memory.used() + wait.id <= kTensorColumns;
    case Wait::Kind::kTensorPair:
      return TensorOf(cta.cluster->ctas[cta.rank & ~1u]).meeting.generation != wait.value;
  }
  return true;
}

// Does the instruction finish (true) or start again (false) when its wait is over?
bool Finishes(Wait::Kind kind) {
  switch (kind) {
    case Wait::Kind::kNamedBarrier:
    case Wait::Kind::kWarpSync:
    case Wait::Kind::kTensorPair:
    case Wait::Kind::kWgmma: return true;
    case Wait::Kind::kNone:
    case Wait::Kind::kYielded:
    case Wait::Kind::kMBarrier:
    case Wait::Kind::kBehind:
    case Wait::Kind::kConverge:
    case Wait::Kind::kRegisters:
    case Wait::Kind::kTensorColumns:
    case Wait::Kind::kClusterBarrier: return false;
  }
  return false;
}

void UpdateMerge(Warp& w) {
  w.merge_pc = ~0u;
  for (const Path& p : w.others)
    if (p.wait.kind == Wait::Kind::kNone) w.merge_pc = std::min(w.merge_pc, p.pc);
}

void Park(Warp& w, Wait wait) {
  Path p;
  p.pc = w.pc;
  p.mask = w.active;
  p.resumed = w.resumed;
  p.wait = wait;
  w.others.push_back(p);
  w.has_path = false;
  w.active = 0;
  w.resumed = false;
}

void Take(Warp& w, size_t k) {
  Path p = w.others[k];
  w.others[k] = w.others.back();
  w.others.pop_back();
  w.pc = p.pc;
  w.active = p.mask;
  w.resumed = p.resumed;
  w.has_path = true;
  UpdateMerge(w);
}

// Called when pc ≥ merge_pc: merge with the path at the same pc, or let one behind catch up.
void Reconverge(Warp& w) {
  while (w.pc >= w.merge_pc) {
    size_t k = 0;
    while (w.others[k].wait.kind != Wait::Kind::kNone || w.others[k].pc != w.merge_pc) ++k;
    Path& p = w.others[k];
    if (p.pc == w.pc && !p.resumed) {
      w.active |= p.mask;
      w.others[k] = w.others.back();
      w.others.pop_back();
      UpdateMerge(w);
      continue;
    }
    Path mine;
    mine.pc = w.pc;
    mine.mask = w.active;
    std::swap(mine, p);
    w.pc = mine.pc;
    w.active = mine.mask;
    w.resumed = mine.resumed;
    UpdateMerge(w);
    if (w.resumed) return;
  }
}

}  // namespace

// Gives the warp a path to run. False: every path waits.
bool Cluster::Pick(Warp& w) {
  if (w.has_path) return true;
  size_t best = w.others.size();
  for (size_t k = 0; k < w.others.size(); ++k) {
    Path& p = w.others[k];
    if (p.wait.kind != Wait::Kind::kNone) {
      if (!Holds(w, p)) continue;
      p.resumed = p.resumed || Finishes(p.wait.kind);
      p.wait = {};
    }
    if (best == w.others.size() || p.pc < w.others[best].pc) best = k;
  }
  if (best == w.others.size()) return false;
  Take(w, best);
  return true;
}

// At the end of a quantum: another path of the warp gets its turn, so that a spinning one cannot
// starve the path it waits for.
void Cluster::Rotate(Warp& w) {
  if (w.others.empty()) return;
  Path mine;
  mine.pc = w.pc;
  mine.mask = w.active;
  mine.wait.kind = Wait::Kind::kYielded;
  w.has_path = false;
  w.active = 0;
  if (Pick(w)) {
    w.others.push_back(mine);
    return;
  }
  w.pc = mine.pc;
  w.active = mine.mask;
  w.has_path = true;
}

// Lanes that were left behind at a wait (exec_async.cc) go on, those of one warp. Whether loading
// warps come last or first is the seed's.
bool Cluster::CatchUp() {
  const bool loads_last = launch->options->seed % 4 != 0;
  Warp* next = nullptr;
  for (Cta& cta : ctas)
    for (Warp& w : cta.warps) {
      const bool behind = std::any_of(w.others.begin(), w.others.end(), [](const Path& p) {
        return p.wait.kind == Wait::Kind::kBehind;
      });
      if (!behind) continue;
      if (next == nullptr || (loads_last ? w.copies < next->copies : w.copies > next->copies))
        next = &w;
    }
  catch_up_at = next != nullptr ? executed + kLongestParting : ~0ull;
  if (next == nullptr) return false;
  for (Path& p : next->others)
    if (p.wait.kind == Wait::Kind::kBehind) p.wait.kind = Wait::Kind::kYielded;
  return true;
}

Cluster::Cluster() = default;
Cluster::~Cluster() = default;

void Cluster::RunWarp(Warp& w, uint64_t quantum) {
  if (judge == nullptr)
    RunInstructions<false>(w, quantum);
  else
    RunInstructions<true>(w, quantum);
}

template <bool kChecked>
void Cluster::RunInstructions(Warp& w, uint64_t quantum) {
  const Program& program = *launch->program;
  const Inst* code = program.code.data();
  uint64_t start = w.executed, end = w.executed + quantum;
  [[maybe_unused]] const bool numbers = kChecked && launch->judge->numbers;
  while (true) {
    if (w.pc >= w.merge_pc && !w.resumed) [[unlikely]]
      Reconverge(w);
    const Inst& i = code[w.pc];
    uint32_t mask = w.active;
    if (i.guard != kNoGuard) {
      uint32_t p = *reinterpret_cast<const uint32_t*>(w.base[0] + i.guard);
      mask &= i.guard_negated ? ~p : p;
      if (mask == 0) {
        ++w.pc;
        ++w.executed;
        continue;
      }
    }
    ++w.executed;
    if (w.tensor_loads != 0) [[unlikely]] {  // a value that is used has come
      const auto& loaded = program.loaded.first;
      if (loaded[w.pc] != loaded[w.pc + 1]) LandTensorLoads(w);
    }
    if constexpr (kChecked) {
      const auto& first = program.watched.first;
      if (!first.empty() && first[w.pc] != first[w.pc + 1])
        judge->Registers(w.judge_id, w.pc, mask);
      const auto& loaded = program.loaded.first;
      if (!loaded.empty() && loaded[w.pc] != loaded[w.pc + 1])
        judge->LoadedRegisters(w.judge_id, w.pc);
    }
    Step step = kChecked && numbers ? RunWatchingNumbers(w, i, mask) : i.run(w, i, mask);
    if (step == Step::kNext) [[likely]] {
      ++w.pc;
      w.resumed = false;
      if (w.executed < end) continue;
      Rotate(w);
      break;
    }
    if (step == Step::kJump) {
      if (w.executed < end) continue;
      Rotate(w);
      break;
    }
    if (step == Step::kYield) {
      ++w.pc;
      w.resumed = false;
      Rotate(w);
      break;
    }
    if (step == Step::kRetry) continue;
    if (step == Step::kBlock) {
      Park(w, w.wait);
      UpdateMerge(w);
      if (!Pick(w)) break;
      continue;
    }
    if (step == Step::kDone) {
      w.has_path = false;
      if (w.done() || !Pick(w)) break;
      continue;
    }
    break;  // kError
  }
  launch->executed.fetch_add(w.executed - start, std::memory_order_relaxed);
}

Cluster::Status Cluster::Run(uint64_t budget) {
  const EmulatorOptions& options = *launch->options;
  if (options.policy != Policy::kRunToBlock || options.landing != Landing::kEarly ||
      options.record != nullptr || options.replay != nullptr)
    return RunTurns(budget);
  uint32_t per_cta = static_cast<uint32_t>(ctas[0].warps.size());
  uint32_t total = per_cta * static_cast<uint32_t>(ctas.size());
  auto warp_at = [&](uint32_t k) -> Warp& { return ctas[k / per_cta].warps[k % per_cta]; };
  uint64_t spent = 0;
  while (true) {
    bool progress = false;
    uint32_t live = 0, polling = 0;
    for (uint32_t n = 0; n < total; ++n) {
      Warp& w = warp_at((cursor_ + n) % total);
      if (w.done()) continue;
      ++live;
      if (!Pick(w)) continue;
      uint64_t before = w.executed;
      RunWarp(w, kQuantum);
      spent += w.executed - before;
      executed += w.executed - before;
      if (failed) return Status::kFault;
      progress = true;
      if (w.polls > kPollLimit) ++polling;
      if (LimitReached(w)) return Status::kFault;
    }
    if (live == 0) return Status::kDone;
    if ((executed >= catch_up_at || !progress || polling == live) && CatchUp()) continue;
    if (!progress || polling == live) {
      ReportDeadlock();
      return Status::kFault;
    }
    cursor_ = (cursor_ + 1) % total;
    if (launch->first_fault.load(std::memory_order_relaxed) < number) return Status::kFault;
    if (spent >= budget) return Status::kBudget;
  }
}

std::string SharedName(const Launch& launch, uint64_t begin, uint64_t end) {
  // The compiler counts from the start of the dynamic part.
  const uint64_t base = launch.program->dynamic_offset;
  const std::string name = begin < base ? "" : launch.places->Shared(begin - base, end - base);
  if (!name.empty()) return name;
  for (const Program::Named& v : launch.program->shared) {
    if (begin < v.begin || begin >= v.end) continue;
    const uint64_t away = begin - v.begin;
    if (v.end - v.begin <= v.element) return v.name;
    if (away == 0 && end - begin > v.element) return v.name;
    return away % v.element == 0 && end - begin <= v.element
               ? fmt::format("{}[{}]", v.name, away / v.element)
               : fmt::format("{} + {} bytes", v.name, away);
  }
  return "";
}

std::string WhoIs(const Warp& w, int lane) {
  const Cta& c = *w.cta;
  std::string s = fmt::format("CTA ({},{},{}), warp {}", c.id[0], c.id[1], c.id[2], w.index);
  if (const std::string role = c.cluster->launch->places->Role(w.index); !role.empty())
    s += fmt::format(" ({})", role);
  if (lane >= 0) s += fmt::format(", lane {}", lane);
  return s;
}

judge::Rule RuleOf(const DiagDef& def) {
  using judge::Rule;
  static constexpr std::pair<const DiagDef*, Rule> kRules[] = {
      {&kGlobalOutOfBounds, Rule::kM4}, {&kSharedOutOfBounds, Rule::kM4},
      {&kLocalOutOfBounds, Rule::kM4},  {&kParamOutOfBounds, Rule::kM4},
      {&kReadOnly, Rule::kM4},          {&kMapSpace, Rule::kM4},
      {&kMisaligned, Rule::kM5},        {&kDeadlock, Rule::kS1},
      {&kBadBarrier, Rule::kS9},        {&kConvergence, Rule::kS6},
  };
  for (auto [d, rule] : kRules)
    if (d == &def) return rule;
  return Rule::kX1;
}

Step FailRule(Warp& w, const Inst& i, const DiagDef& def, judge::Rule rule, std::string message,
              int lane) {
  bool first = !w.cta->cluster->failed;
  FailText(w, i, def, std::move(message), lane);
  if (first) w.cta->cluster->fault.rule = rule;
  return Step::kError;
}

Step FailText(Warp& w, const Inst& i, const DiagDef& def, std::string message, int lane) {
  Cluster& c = *w.cta->cluster;
  if (c.failed) return Step::kError;
  c.failed = true;
  c.fault = {};
  c.fault.def = &def;
  c.fault.message = std::move(message);
  c.fault.line = i.line;
  c.fault.notes.push_back("executed by " + WhoIs(w, lane));
  return Step::kError;
}

namespace {

// Lanes leave while others of their warp stand at a barrier that all of them should come to. If
// they did nothing since, they may have been on their way out: that is common, and works.
void LeftBehind(Warp& w, uint32_t mask) {
  const Program& program = *w.cta->cluster->launch->program;
  for (const Path& p : w.others) {
    const Handler run = program.code[p.pc].run;
    if (p.wait.kind != Wait::Kind::kConverge || w.accesses == p.wait.value ||
        (run != RunBar && run != RunBarRed))
      continue;
    w.judge->Say(judge::Rule::kS6, judge::Severity::kPortability, {w.judge_id, p.mask, p.pc},
                 fmt::format("lanes {:#x} of {} wait at `{}`, lanes {:#x} went past it, touched "
                             "memory and left",
                             p.mask, WhoIs(w), program.texts[program.code[p.pc].text], mask),
                 "let all lanes of the warp come to the barrier, or use `barrier` without "
                 "`.aligned` and count threads");
  }
}

}  // namespace

void ExitLanes(Warp& w, uint32_t mask) {
  if (w.judge != nullptr && !w.others.empty()) LeftBehind(w, mask);
  if (w.judge != nullptr) w.judge->Exit(w.judge_id, mask, w.pc);
  w.live &= ~mask;
  w.active &= ~mask;
  ++w.cta->progress;
  if (w.live == 0 && --w.cta->live_warps == 0) TensorExit(w);
  CheckNamedBarriers(*w.cta);
  CheckClusterBarrier(*w.cta->cluster);
}

}  // namespace tilec::runtime::emulator
