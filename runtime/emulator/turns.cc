// A cluster under a policy: one turn after the other, copies landing between them.
//
// machine.cc has the fast loop of the default (everyone runs until he blocks, copies land at
// once); any other schedule of execution, and every recorded or replayed one, is run here. Copies
// that were issued and have not landed wait in `in_flight`; they land by decision, or when nobody
// can go on without them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge/judge.h"
#include "runtime/emulator/slices.h"

namespace tilec::runtime::emulator {

bool Cluster::Land(size_t k) {
  std::function<bool()> land = std::move(in_flight[k].land);
  in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(k));
  return land();
}

bool Cluster::LandAll() {
  while (!in_flight.empty())
    if (!Land(0)) return false;
  return true;
}

namespace {

template <typename F>
bool LandWhere(Warp& w, bool bulk, uint32_t lanes, F lands) {
  Cluster& c = *w.cta->cluster;
  for (size_t k = 0; k < c.in_flight.size();) {
    const InFlight& f = c.in_flight[k];
    if (f.owner != &w || f.bulk != bulk || (lanes >> f.lane & 1) == 0 || !lands(f))
      ++k;
    else if (!c.Land(k))
      return false;
  }
  return true;
}

}  // namespace

bool LandGroups(Warp& w, bool bulk, uint32_t lanes, uint32_t pending) {
  return LandWhere(w, bulk, lanes, [&](const InFlight& f) {
    return uint64_t{f.group} + pending < w.groups[bulk][f.lane];
  });
}

bool LandAllOf(Warp& w, bool bulk, uint32_t lanes) {
  return LandWhere(w, bulk, lanes, [](const InFlight&) { return true; });
}

bool Cluster::LimitReached(const Warp& w) {
  if (launch->judge != nullptr && launch->judge->full()) {
    fault = {};
    fault.def = &kChecksTooBig;
    fault.message =
        fmt::format(fmt::runtime(kChecksTooBig.format), launch->options->memory_limit_bytes >> 20);
    fault.line = launch->program->code[w.pc < launch->program->code.size() ? w.pc : 0].line;
    fault.notes.push_back("running: " + WhoIs(w));
    fault.helps.push_back("check smaller tensors, or allow more by `--max-memory=MiB`");
    failed = true;
    return true;
  }
  uint64_t limit_at = launch->options->instruction_limit;
  uint64_t executed = launch->executed.load(std::memory_order_relaxed);
  if (limit_at == 0 || executed <= limit_at) return false;
  fault = {};
  fault.def = &kInstructionLimit;
  fault.message = fmt::format(fmt::runtime(kInstructionLimit.format), executed, limit_at);
  fault.line = launch->program->code[w.pc < launch->program->code.size() ? w.pc : 0].line;
  fault.notes.push_back("running: " + WhoIs(w));
  fault.helps.push_back(
      "a loop may be without end; `--max-instructions=N` allows more, 0 any number");
  failed = true;
  return true;
}

Cluster::Status Cluster::RunTurns(uint64_t budget) {
  const EmulatorOptions& options = *launch->options;
  uint32_t per_cta = static_cast<uint32_t>(ctas[0].warps.size());
  uint32_t total = per_cta * static_cast<uint32_t>(ctas.size());
  auto warp_at = [&](uint32_t k) -> Warp& { return ctas[k / per_cta].warps[k % per_cta]; };
  std::vector<WarpView> runnable;
  uint64_t spent = 0;
  auto record = [&](uint32_t warp, uint64_t count) {
    if (options.record != nullptr) decisions.push_back({warp, static_cast<uint32_t>(count)});
  };
  while (true) {
    for (int64_t k; (k = policy.Lands(in_flight.size())) >= 0;) {
      record(Decision::kLands, static_cast<uint64_t>(k));
      if (!Land(static_cast<size_t>(k))) return Status::kFault;
    }
    if (options.landing == Landing::kRandom) {
      if (int64_t k = policy.DiceLands(in_flight.size()); k >= 0) {
        record(Decision::kLands, static_cast<uint64_t>(k));
        if (!Land(static_cast<size_t>(k))) return Status::kFault;
      }
    }
    runnable.clear();
    uint32_t live = 0, polling = 0;
    for (uint32_t k = 0; k < total; ++k) {
      Warp& w = warp_at(k);
      if (w.done()) continue;
      ++live;
      if (w.polls > kPollLimit) ++polling;
      if (Pick(w)) runnable.push_back({k, w.copies});
    }
    if (live == 0) return LandAll() ? Status::kDone : Status::kFault;
    // Nobody gets on without a copy: the oldest lands. That is no decision, it is always so.
    if (!in_flight.empty() && (runnable.empty() || policy.AllPoll(runnable))) {
      if (!Land(0)) return Status::kFault;
      continue;
    }
    if (executed >= catch_up_at || runnable.empty() || policy.AllPoll(runnable))
      if (CatchUp()) continue;
    if (runnable.empty() || polling == live) {
      ReportDeadlock();
      return Status::kFault;
    }
    Turn turn = policy.Next(runnable);
    Warp& w = warp_at(turn.warp);
    uint64_t before = w.executed;
    RunWarp(w, turn.instructions);
    uint64_t ran = w.executed - before;
    spent += ran;
    executed += ran;
    record(turn.warp, ran);
    policy.Ran(turn.warp, ran, w.polls > 0 && w.polls_at == w.cta->progress);
    if (failed || LimitReached(w)) return Status::kFault;
    if (launch->first_fault.load(std::memory_order_relaxed) < number) return Status::kFault;
    if (spent >= budget)
      return budget < Slices::kLong || LandAll() ? Status::kBudget : Status::kFault;
  }
}

// The bytes that `land` would write to the CTA's shared memory become NaN, everything else stays.
void PoisonDestination(Cta& cta, const std::function<bool(uint8_t* smem)>& write) {
  std::vector<uint8_t> zeros(cta.smem_bytes, 0), ones(cta.smem_bytes, 0xff);
  if (!write(zeros.data()) || !write(ones.data())) return;
  // Most of it is left alone: looked at many bytes at a time.
  constexpr uint32_t kAtOnce = 64;
  for (uint32_t at = 0; at < cta.smem_bytes; at += kAtOnce) {
    const uint32_t n = std::min(kAtOnce, cta.smem_bytes - at);
    uint8_t written = 0;
    for (uint32_t k = at; k < at + n; ++k) written |= zeros[k] == ones[k];
    for (uint32_t k = at; written && k < at + n; ++k)
      if (zeros[k] == ones[k]) cta.smem[k] = 0xff;
  }
}

}  // namespace tilec::runtime::emulator
