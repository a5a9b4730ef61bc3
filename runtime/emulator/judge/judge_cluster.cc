// Meetings of threads without an mbarrier: named barriers of a CTA, arrivals of a cluster, and what
// CTAs of a cluster may touch of each other, at their start and at their end.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

// ---- named barriers ----

void Judge::NamedArrive(const Act& by, uint32_t id, uint64_t generation, bool waits, bool reduces) {
  const uint32_t warp = by.warp, lanes = by.lanes, pc = by.pc;
  Happens(warp, lanes, pc);
  uint32_t rank = RankOf(warp);
  Named& b = named_[{rank, id}];
  if (!b.known) {
    b.known = true;
    b.component = NewComponent(ComponentInfo::Kind::kNamed, rank, id);
  }
  WarpState& w = warps_[warp];
  Epoch known = ~0u;
  for (LaneGroup& g : w.agent.groups())
    if (g.lanes & lanes) known = std::min(known, g.view.generic.At(b.component));
  uint32_t bit = 1u << (warp % shape_.warps_per_cta);
  bool whole = (lanes & w.agent.live()) == w.agent.live();
  bool twice = whole && (b.arrived & bit) != 0;
  if ((known < b.generation || twice) && launch_->First(Rule::kS5, pc, 0)) {
    Finding f = Begin(Rule::kS5, pc, warp, lanes);
    f.message =
        twice ? fmt::format("the warp arrives at barrier {} a second time in one generation", id)
              : fmt::format(
                    "an arrival meant for generation {} of barrier {} may come while "
                    "generation {} is under way: nothing orders it after that one's end",
                    b.generation, id, known);
    f.missing = "a wait by this warp that ends after that generation is complete";
    f.fix = "use a second barrier in turn, or let this warp `bar.sync` where it arrives";
    launch_->Say(std::move(f), pc, 0);
  }
  if (b.arrived != 0 && b.reduces != reduces && launch_->First(Rule::kS5, pc, 1)) {
    Finding f = Begin(Rule::kS5, pc, warp, lanes);
    f.message = fmt::format("barrier {} is used with `.red` and without in one generation", id);
    f.fix = "use another barrier for the reduction";
    launch_->Say(std::move(f), pc, 1);
  }
  b.reduces = reduces;
  b.arrived |= bit;
  b.pc = pc;
  w.agent.Publish(lanes, &b.pending);
  if (!waits) return;
  uint32_t& odd = w.odd[id & 15];
  odd = generation & 1 ? odd | lanes : odd & ~lanes;
}

void Judge::NamedDone(uint32_t rank, uint32_t id) {
  Named& b = named_[{rank, id}];
  b.done[b.generation & 1] = std::move(b.pending);
  b.pending.Clear();
  ++b.generation;
  b.done[(b.generation - 1) & 1].Raise(b.component, static_cast<Epoch>(b.generation));
  b.arrived = 0;
}

void Judge::NamedPass(uint32_t warp, uint32_t lanes, uint32_t id) {
  Named& b = named_[{RankOf(warp), id}];
  WarpState& w = warps_[warp];
  // Lanes that came apart wait apart: some may be at the next generation before others have left
  // this one.
  const uint32_t odd = w.odd[id & 15];
  for (const bool of_odd : {false, true}) {
    const uint32_t those = lanes & (of_odd ? odd : ~odd);
    if (those == 0) continue;
    w.agent.Acquire(those, b.done[of_odd]);
    w.agent.Synchronize(those);
  }
}

// ---- clusters ----

void Judge::ClusterArrive(uint32_t warp, uint32_t lanes, uint32_t pc, bool relaxed) {
  Happens(warp, lanes, pc);
  WarpState& w = warps_[warp];
  if ((lanes & w.agent.live()) == w.agent.live())
    met_pending_.Raise(w.agent.self(), w.agent.epoch());
  else
    EachLane(lanes, [&](int l) {
      if (w.agent.lane(l) == 0) w.agent.Name(l);
      met_pending_.Raise(w.agent.lane(l), w.agent.epoch());
    });
  for (const LaneGroup& g : w.agent.groups())
    if ((g.lanes & lanes) != 0) met_pending_.Join(g.view.generic);
  if (!relaxed) {
    w.agent.Publish(lanes, &cluster_pending_);
  } else {
    w.agent.PublishFence(lanes, &cluster_pending_);
    // That the CTA runs is known even so.
    cluster_pending_.Raise(w.agent.self(), 1);
    w.agent.Tick();
  }
  if (w.init_fenced != 0) cluster_pending_.generic.Raise(w.inits, w.init_fenced);
}

void Judge::ClusterDone() {
  cluster_done_ = std::move(cluster_pending_);
  cluster_pending_.Clear();
  met_done_ = std::move(met_pending_);
  met_pending_.Clear();
}

void Judge::ClusterPass(uint32_t warp, uint32_t lanes) {
  warps_[warp].agent.Acquire(lanes, cluster_done_);
  met_[RankOf(warp)].Join(met_done_);
}

// Is the other CTA known to run, and to run still?
void Judge::CheckPeer(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank) {
  bool gone = live_warps_[rank] == 0, known = false;
  const LaneGroup& g = warps_[warp].agent.GroupOf(__builtin_ctz(lanes));
  for (uint32_t k = 0; k < shape_.warps_per_cta && !known; ++k) {
    const Agent& peer = warps_[rank * shape_.warps_per_cta + k].agent;
    known = g.view.generic.At(peer.self()) > 0;
    for (int l = 0; l < 32 && !known; ++l)
      known = peer.lane(l) != 0 && g.view.generic.At(peer.lane(l)) > 0;
  }
  if (known && !gone) return;
  if (!launch_->First(Rule::kM8, pc, gone ? 1 : 0)) return;
  Finding f = Begin(Rule::kM8, pc, warp, lanes);
  f.message =
      fmt::format("shared memory of rank {} is used {}", rank,
                  gone ? "after that CTA has exited" : "before that CTA is known to have started");
  f.missing = gone ? "a cluster barrier before the exit of the other CTA"
                   : "a cluster barrier between the start of the CTAs and this access";
  f.fix = "put `barrier.cluster.arrive` and `barrier.cluster.wait` there";
  launch_->Say(std::move(f), pc, gone ? 1 : 0);
}

void Judge::UsePeer(uint32_t warp, uint32_t rank, PeerUse use) {
  std::vector<PeerUse>& all = peers_[rank * warps_.size() + warp];
  // Whoever is after the later use by the same lanes is after the earlier one.
  std::erase_if(
      all, [&](const PeerUse& old) { return (old.lanes & ~use.lanes) == 0 && old.by == use.by; });
  all.push_back(use);
}

bool Judge::PeerUseOver(uint32_t warp, const PeerUse& use, const Clock& known) const {
  if (use.number != 0 && known.At(use.by) >= use.number) return true;
  if (use.epoch == 0) return false;
  const Agent& agent = warps_[warp].agent;
  if (known.At(agent.self()) >= use.epoch) return true;
  bool over = true;
  EachLane(use.lanes, [&](int l) {
    over = over && agent.lane(l) != 0 && known.At(agent.lane(l)) >= use.epoch;
  });
  return over;
}

// A CTA is over when its last thread is: a use by another CTA must be known to be over by some
// thread of it. That holds for uses by CTAs that are gone, too: in another order they come later.
void Judge::PeersAtExit(uint32_t rank) {
  if (!scoped_) return;
  for (uint32_t warp = 0; warp < warps_.size(); ++warp)
    for (const PeerUse& use : peers_[rank * warps_.size() + warp]) {
      if (PeerUseOver(warp, use, left_[rank])) continue;
      const bool met = PeerUseOver(warp, use, met_[rank]);
      if (!launch_->First(Rule::kM8, use.pc, met ? 3 : 2)) continue;
      Finding f = Begin(Rule::kM8, use.pc, warp, use.lanes);
      if (met) f.severity = Severity::kPortability;
      f.message = fmt::format(
          "rank {} exits, and {} orders that after the use of its shared memory by rank {}", rank,
          met ? "a relaxed arrival at the cluster barrier alone" : "nothing", RankOf(warp));
      f.missing = met ? "an arrival that is no `.relaxed`"
                      : "a cluster barrier between the use and the exit";
      f.fix = met ? "put `barrier.cluster.arrive` in place of `barrier.cluster.arrive.relaxed`"
                  : "put `barrier.cluster.arrive` and `barrier.cluster.wait` before the exit";
      launch_->Say(std::move(f), use.pc, met ? 3 : 2);
    }
}

// ---- fences ----

void Judge::WarpSync(uint32_t warp, uint32_t lanes) { warps_[warp].agent.Synchronize(lanes); }

void Judge::ProxyFence(uint32_t warp, uint32_t lanes, bool shared, bool global) {
  warps_[warp].agent.ProxyFence(lanes, shared, global);
}

void Judge::InitFence(uint32_t warp, uint32_t) {
  warps_[warp].init_fenced = warps_[warp].init_epoch;
}

}  // namespace tilec::runtime::judge
