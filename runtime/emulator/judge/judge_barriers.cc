// Barriers and fences: who is ordered after whom.
//
// An mbarrier keeps what arrived in the phase under way apart from what earlier phases brought, so
// that a wait on an earlier phase learns nothing of arrivals that merely happened before it.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

Judge::Barrier& Judge::BarrierAt(uint32_t rank, uint32_t offset) {
  return barriers_[uint64_t{rank} << 32 | offset];
}

void Judge::BarrierInit(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset,
                        uint32_t count) {
  Barrier& b = BarrierAt(rank, offset);
  if (b.component == 0) {
    b.component = NewComponent(ComponentInfo::Kind::kBarrier, rank, offset);
  } else {
    b.base = b.last_epoch() + 1;
  }
  WarpState& w = warps_[warp];
  if (w.inits == 0) w.inits = NewComponent(ComponentInfo::Kind::kInit, warp, 0);
  b.phases = b.observed = 0;
  b.count = count;
  b.live = true;
  b.done.Clear(), b.pending.Clear(), b.far_done.Clear(), b.far_pending.Clear();
  b.seen.clear();
  b.uses.clear();
  b.last_copy = {};
  b.commit = 0;
  // The eight bytes: written like data, then taken out of use as data.
  Touch t;
  t.warp = warp, t.lanes = lanes & -lanes, t.pc = pc, t.write = true;
  uint32_t offsets[32];
  std::fill(offsets, offsets + 32, offset);
  SharedAccess(t, rank, offsets, 8);
  Block& block = shared_[rank].at(offset / 16);
  block.barrier |= offset % 16 == 0 ? 1 : 2;
  b.init = {};
  b.init.epoch = w.agent.epoch();
  b.init.component = w.agent.self();
  b.init.lanes = lanes & -lanes;
  b.init.site = pc & Mark::kPcMask;
  b.init.bytes = 0xffff;
  b.init_epoch = ++w.init_epoch;
}

void Judge::BarrierInval(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank,
                         uint32_t offset) {
  Barrier& b = BarrierAt(rank, offset);
  CheckInit(b, warp, lanes, pc, rank, offset);
  if (b.live) UsesOver(b, warp, lanes & -lanes, pc, offset);
  b.live = false;
  shared_[rank].at(offset / 16).barrier &= static_cast<uint8_t>(offset % 16 == 0 ? ~1 : ~2);
  Touch t;
  t.warp = warp, t.lanes = lanes & -lanes, t.pc = pc, t.write = true;
  uint32_t offsets[32];
  std::fill(offsets, offsets + 32, offset);
  SharedAccess(t, rank, offsets, 8);
}

void Judge::UseBarrier(Barrier& b, uint32_t warp, uint32_t lanes, uint32_t pc) {
  std::vector<Mark>& all = b.uses[warp];
  const Agent& agent = warps_[warp].agent;
  std::erase_if(all, [&](const Mark& old) { return (old.lanes & ~lanes) == 0; });
  Mark m;
  m.epoch = agent.epoch();
  m.component = agent.self();
  m.lanes = lanes;
  m.site = (pc & Mark::kPcMask) | Mark::kStrong;
  m.bytes = 0xffff;
  all.push_back(m);
}

// An mbarrier ends: arrivals and waits by other warps must be ordered before. One lane speaks for
// its warp: libcu++ lets lanes come together by a collective, and one of them signs off for all.
void Judge::UsesOver(const Barrier& b, uint32_t warp, uint32_t lane, uint32_t pc, uint32_t offset) {
  const Clock& known = warps_[warp].agent.GroupOf(__builtin_ctz(lane)).view.generic;
  for (const auto& [user, marks] : b.uses)
    for (const Mark& m : marks) {
      if (user == warp || m.epoch <= known.At(m.component)) continue;
      bool over = false;
      EachLane(~0u, [&, u = user](int l) {
        const Component c = warps_[u].agent.lane(l);
        over = over || (c != 0 && known.At(c) >= m.epoch);
      });
      if (over) continue;
      if (!launch_->First(Rule::kS9, pc, m.pc())) return;
      const std::string memory = fmt::format("shared [{}, {})", offset, offset + 8);
      Finding f = Begin(Rule::kS9, pc, warp, lane);
      f.accesses[0].what = "invalidates the mbarrier";
      f.accesses[0].memory = memory;
      f.accesses.push_back(Describe(m, shape_.number, false, memory));
      f.accesses[1].what = "uses it";
      f.message = fmt::format(
          "{} invalidates the mbarrier at shared offset {} without being ordered after its use by "
          "{}",
          Who(warp, lane), offset, Actor(m, shape_.number));
      f.missing =
          "a barrier, or a release and an acquire, between the use and the `mbarrier.inval`";
      f.fix = "let all that use the mbarrier meet at another barrier before it is invalidated";
      launch_->Say(std::move(f), pc, m.pc());
      return;
    }
}

void Judge::CheckInit(const Barrier& b, uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank,
                      uint32_t offset) {
  if (!b.live) return;
  Mark now;
  now.lanes = lanes;
  now.bytes = 0xffff;
  now.site = Mark::kIrregular << Mark::kShapeShift;
  const ComponentInfo& who = components_[b.init.component];
  for (LaneGroup& g : warps_[warp].agent.groups()) {
    uint32_t in = g.lanes & lanes;
    if (in == 0) continue;
    if (b.init.epoch <= g.view.generic.At(b.init.component)) continue;
    if (warps_[who.owner].inits != 0 && b.init_epoch <= g.view.generic.At(warps_[who.owner].inits))
      continue;
    if (who.owner == warp && in == b.init.lanes) continue;
    if (LanesOrdered(b.init, g.view.generic)) continue;
    if (!launch_->First(Rule::kP4, pc, b.init.pc())) return;
    Finding f = Begin(Rule::kP4, pc, warp, in);
    f.accesses[0].what = "uses the mbarrier";
    f.accesses[0].memory = fmt::format("shared [{}, {})", offset, offset + 8);
    f.accesses.push_back(Describe(b.init, shape_.number, true, f.accesses[0].memory));
    f.message = fmt::format(
        "{} uses the mbarrier at shared offset {} before its initialisation is "
        "visible",
        Who(warp, in), offset);
    f.missing = "a barrier between the `mbarrier.init` and its use";
    f.fix = rank == RankOf(warp) ? "put `bar.sync 0;` after the initialisation"
                                 : "put `fence.mbarrier_init.release.cluster;` and a cluster "
                                   "barrier after the initialisation";
    launch_->Say(std::move(f), pc, b.init.pc());
    return;
  }
}

void Judge::Arrive(const Act& by, const SharedPlace& at, const Ordering& with, bool arrives,
                   bool expects) {
  const auto [warp, lanes, pc] = by;
  const auto [rank, offset] = at;
  Barrier& b = BarrierAt(rank, offset);
  bool remote = rank != RankOf(warp);
  if (remote) {
    CheckPeer(warp, lanes, pc, rank);
    UsePeer(warp, rank, {lanes, pc, warps_[warp].agent.epoch(), b.component, b.last_epoch() + 1});
  }
  CheckInit(b, warp, lanes, pc, rank, offset);
  UseBarrier(b, warp, lanes, pc);
  WarpState& w = warps_[warp];
  if (b.phases > b.observed) {
    bool late = expects && !arrives;
    Rule rule = late ? Rule::kA5 : Rule::kS4;
    if (launch_->First(rule, pc, 0)) {
      Finding f = Begin(rule, pc, warp, lanes);
      f.message = fmt::format(
          "{} in phase {} of the mbarrier at shared offset {}, and no wait has "
          "seen phase {} complete",
          late ? "bytes are expected" : "an arrival", b.phases, offset, b.phases - 1);
      f.missing = fmt::format("a successful wait on phase {} (parity {})", b.phases - 1,
                              (b.phases - 1) & 1);
      f.fix = late ? "expect the bytes before, or together with, the arrival that completes the "
                     "phase: `mbarrier.arrive.expect_tx`"
                   : "wait for every phase before arriving in the next";
      launch_->Say(std::move(f), pc, 0);
    }
  }
  if (!arrives) return;
  View seen;
  if (with.order == Order::kRelaxed) {
    w.agent.PublishFence(lanes, &seen);
  } else {
    w.agent.Publish(lanes, &seen);
  }
  if (remote) {
    if (with.scope != Scope::kCta) b.far_pending.Join(seen.scoped);
    seen.scoped.Clear();
  }
  b.pending.Join(seen);
}

void Judge::PhaseDone(uint32_t rank, uint32_t offset) {
  Barrier& b = BarrierAt(rank, offset);
  ++b.phases;
  b.done.Join(b.pending);
  b.far_done.Join(b.far_pending);
  b.pending.Clear();
  b.far_pending.Clear();
}

void Judge::Waited(const Act& by, const SharedPlace& at, uint64_t phases,
                   std::optional<uint32_t> parity, const Ordering& with) {
  const auto [warp, lanes, pc] = by;
  const auto [rank, offset] = at;
  Barrier& b = BarrierAt(rank, offset);
  CheckInit(b, warp, lanes, pc, rank, offset);
  UseBarrier(b, warp, lanes, pc);
  // The wait is an act of its own, and an arrival may stand behind the copy.
  if (warps_[warp].copied_to == &b)
    if (const uint64_t copied = std::exchange(warps_[warp].copied_at, 0); copied != 0)
      SpendWait(warp, lanes, pc, copied + 2, true);
  // Lapped: by its own account the warp waits for the phase after the last it saw, which has the
  // parity given; but phases went by that nobody saw.
  uint64_t& last = b.seen[warp];
  if (parity && phases > last + 1 && (last & 1) == *parity && b.observed + 1 < phases &&
      launch_->First(Rule::kS3, pc, 0)) {
    Finding f = Begin(Rule::kS3, pc, warp, lanes);
    f.message = fmt::format(
        "the wait means phase {} of the mbarrier at shared offset {}, which is "
        "in phase {}: it went on {} times",
        last, offset, phases, phases - last);
    f.missing = "an edge that keeps the barrier from going on before this wait";
    f.fix = "let the side that arrives wait for this warp, or count phases in 64 bits";
    launch_->Say(std::move(f), pc, 0);
  }
  last = std::max(last, phases);
  b.observed = std::max(b.observed, phases);
  WarpState& w = warps_[warp];
  if (with.order == Order::kRelaxed) {
    View seen = b.done;
    seen.Raise(b.component, b.base + static_cast<Epoch>(phases));
    if (with.scope != Scope::kCta) seen.scoped.Join(b.far_done);
    w.agent.AcquireLater(lanes, seen);
    return;
  }
  if (with.scope != Scope::kCta && scoped_) {
    View all = b.done;
    all.scoped.Join(b.far_done);
    w.agent.Acquire(lanes, all);
  } else {
    w.agent.Acquire(lanes, b.done);
  }
  w.agent.Learn(lanes, b.component, b.base + static_cast<Epoch>(phases));
}

}  // namespace tilec::runtime::judge
