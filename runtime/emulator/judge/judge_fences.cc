// Fences, and releases and acquires at an address: who is ordered after whom without a barrier.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

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
