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

void Judge::Arrive(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset,
                   Order order, Scope scope, bool arrives, bool expects) {
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
  if (order == Order::kRelaxed) {
    w.agent.PublishFence(lanes, &seen);
  } else {
    w.agent.Publish(lanes, &seen);
  }
  if (remote) {
    if (scope != Scope::kCta) b.far_pending.Join(seen.scoped);
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

void Judge::Waited(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset,
                   uint64_t phases, bool parity_known, uint32_t parity, Order order, Scope scope) {
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
  if (parity_known && phases > last + 1 && (last & 1) == parity && b.observed + 1 < phases &&
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
  if (order == Order::kRelaxed) {
    View seen = b.done;
    seen.Raise(b.component, b.base + static_cast<Epoch>(phases));
    if (scope != Scope::kCta) seen.scoped.Join(b.far_done);
    w.agent.AcquireLater(lanes, seen);
    return;
  }
  if (scope != Scope::kCta && scoped_) {
    View all = b.done;
    all.scoped.Join(b.far_done);
    w.agent.Acquire(lanes, all);
  } else {
    w.agent.Acquire(lanes, b.done);
  }
  w.agent.Learn(lanes, b.component, b.base + static_cast<Epoch>(phases));
}

// ---- named barriers ----

void Judge::NamedArrive(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t id,
                        uint64_t generation, bool waits, bool reduces) {
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

void Judge::ThreadFence(uint32_t warp, uint32_t lanes, bool acquire, bool release) {
  Agent& agent = warps_[warp].agent;
  if (acquire) agent.AcquireFence(lanes);
  if (release) agent.ReleaseFence(lanes);
}

void Judge::ScFence(uint32_t warp, uint32_t lanes, Scope scope) {
  Agent& agent = warps_[warp].agent;
  const uint32_t rank = RankOf(warp);
  agent.AcquireFence(lanes);
  View seen = sc_cta_[rank];
  if (scope != Scope::kCta) seen.Join(sc_cluster_);
  if (scope == Scope::kGpu)
    for (const auto& [cluster, view] : launch_->sc_fences) {
      if (cluster == shape_.number) continue;
      seen.JoinForeign(cluster, view);
      for (const auto& [other, known] : view->foreign)
        if (other == shape_.number)
          seen.Join(*known);
        else
          seen.JoinForeign(other, known);
    }
  agent.Acquire(lanes, seen);
  agent.ReleaseFence(lanes);
  View mine;
  agent.Publish(lanes, &mine);
  sc_cta_[rank].Join(mine);
  if (scope != Scope::kCta) sc_cluster_.Join(mine);
  if (scope != Scope::kGpu) return;
  auto before = launch_->sc_fences.find(shape_.number);
  if (before != launch_->sc_fences.end()) mine.Join(*before->second);
  // What the other clusters' own fences say is found there: not kept once more, so that a grid of
  // n clusters takes n views and not n² entries.
  const auto fenced = [&](const auto& entry) { return launch_->sc_fences.count(entry.first) != 0; };
  std::erase_if(mine.foreign, [&](const auto& entry) {
    if (!fenced(entry)) return false;
    const View::Foreign& nested = entry.second->foreign;
    return launch_->sc_fences[entry.first]->CoversClocks(*entry.second) &&
           std::all_of(nested.begin(), nested.end(), fenced);
  });
  launch_->sc_fences[shape_.number] = std::make_shared<const View>(std::move(mine));
}

// A release or acquire at an address.
void Judge::SharedSync(const Touch& t, uint32_t rank, const uint32_t* offsets) {
  Agent& agent = warps_[t.warp].agent;
  bool acquires = t.order == Order::kAcquire || t.order == Order::kAcqRel;
  bool releases = t.order == Order::kRelease || t.order == Order::kAcqRel;
  EachLane(t.lanes, [&](int l) {
    uint32_t lane = 1u << l;
    auto it = shared_sync_.find(uint64_t{rank} << 32 | offsets[l]);
    bool any = it != shared_sync_.end();
    if ((!t.write || t.atomic) && any) {
      if (acquires)
        agent.Acquire(lane, it->second);
      else
        agent.AcquireLater(lane, it->second);
    }
    if (!t.write) return;
    if (!releases && !agent.has_release(l)) {
      // A write that is no release ends what earlier releases published; an atomic goes on with it.
      if (any && !t.atomic) shared_sync_.erase(it);
      View relaxed;  // what the fences of tcgen05 order needs no release
      agent.PublishFence(lane, &relaxed);
      if (!relaxed.tensor.Empty()) shared_sync_[uint64_t{rank} << 32 | offsets[l]].Join(relaxed);
      return;
    }
    if (!any && shared_sync_.size() >= LaunchJudge::kMostPublished) return launch_->Overflow();
    View& to = shared_sync_[uint64_t{rank} << 32 | offsets[l]];
    if (!t.atomic) to.Clear();
    if (releases)
      agent.Publish(lane, &to);
    else
      agent.PublishFence(lane, &to);
  });
}

void Judge::GlobalSync(const Touch& t, const uint64_t* addresses) {
  Agent& agent = warps_[t.warp].agent;
  bool acquires = t.order == Order::kAcquire || t.order == Order::kAcqRel;
  bool releases = t.order == Order::kRelease || t.order == Order::kAcqRel;
  EachLane(t.lanes, [&](int l) {
    uint32_t lane = 1u << l;
    auto it = launch_->sync.find(addresses[l]);
    if ((!t.write || t.atomic) && it != launch_->sync.end()) {
      View seen;
      for (const LaunchJudge::Published& p : it->second) {
        bool same = p.cluster == shape_.number;
        if (!same && (p.scope != Scope::kGpu || t.scope != Scope::kGpu)) continue;
        if (same) {
          seen.Join(*p.view);
          continue;
        }
        seen.JoinForeign(p.cluster, p.view);
        for (const auto& [cluster, view] : p.view->foreign) {
          if (cluster == shape_.number)
            seen.Join(*view);
          else
            seen.JoinForeign(cluster, view);
        }
      }
      if (acquires)
        agent.Acquire(lane, seen);
      else
        agent.AcquireLater(lane, seen);
    }
    if (!t.write) return;
    if (!releases && !agent.has_release(l)) {
      if (!t.atomic && it != launch_->sync.end()) launch_->sync.erase(it);
      return;
    }
    if (it == launch_->sync.end() && launch_->sync.size() >= LaunchJudge::kMostPublished)
      return launch_->Overflow();
    auto seen = std::make_shared<View>();
    if (releases)
      agent.Publish(lane, seen.get());
    else
      agent.PublishFence(lane, seen.get());
    auto& all = launch_->sync[addresses[l]];
    if (!t.atomic) all.clear();
    for (LaunchJudge::Published& p : all) {
      if (p.cluster != shape_.number || p.scope != t.scope) continue;
      seen->Join(*p.view);
      p.view = std::move(seen);
      return;
    }
    all.push_back({shape_.number, t.scope, std::move(seen)});
  });
}

}  // namespace tilec::runtime::judge
