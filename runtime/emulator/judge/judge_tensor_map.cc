// Tensor maps in memory: who wrote a map, and whether a copy that reads it stands behind a release
// of that and a fence of the map.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

void Judge::TensorMapRelease(uint32_t warp, uint32_t lanes) {
  if (launch_->map_releases.size() >= LaunchJudge::kMostMapReleases) return;
  Agent& agent = warps_[warp].agent;
  LaunchJudge::MapRelease r;
  r.by.cluster = shape_.number;
  r.by.mark.component = agent.self();
  r.by.mark.epoch = agent.epoch();
  r.by.mark.lanes = lanes;
  r.by.mark.site = Mark::kShared << Mark::kShapeShift;  // each of the lanes releases
  r.by.mark.bytes = 0xffff;
  auto known = std::make_shared<View>();
  agent.Publish(lanes, known.get());
  r.known = std::move(known);
  launch_->map_releases.push_back(std::move(r));
}

// What a lane did itself, alone or with others of its warp, or what is ordered before it.
bool Judge::Before(const GlobalMark& old, const Mark& now, const Side& side) const {
  if (old.cluster != shape_.number) return OrderedForeign(old, side);
  const bool own = !old.mark.async() && old.mark.component == warps_[side.warp].agent.self() &&
                   SameLane(old.mark, now, true);
  return own || GenericOrdered(old.mark, now, side, false);
}

// Is there a release of `write` that stands before the side?
bool Judge::MapReleased(const GlobalMark& write, const Mark& now, const Side& side) const {
  if (launch_->map_releases.size() >= LaunchJudge::kMostMapReleases) return true;
  for (auto r = launch_->map_releases.rbegin(); r != launch_->map_releases.rend(); ++r) {
    const View* known =
        write.cluster == r->by.cluster ? r->known.get() : r->known->Of(write.cluster);
    if (known == nullptr) continue;
    bool covers = known->generic.At(write.mark.component) >= write.mark.epoch;
    // Lanes that released what they wrote themselves.
    covers = covers ||
             (write.cluster == r->by.cluster && write.mark.component == r->by.mark.component &&
              write.mark.epoch <= r->by.mark.epoch && (write.mark.lanes & ~r->by.mark.lanes) == 0);
    if (!covers && write.mark.lanes != 0 && !write.mark.async()) {
      covers = true;
      EachLane(write.mark.lanes, [&](int l) {
        auto it = launch_->lanes.find({write.cluster, write.mark.component, l});
        covers = covers && it != launch_->lanes.end() &&
                 known->generic.At(it->second) >= write.mark.epoch;
      });
    }
    if (!covers) continue;
    if (Before(r->by, now, side)) return true;
  }
  return false;
}

void Judge::TensorMapFence(uint32_t warp, uint32_t lanes, uint64_t address) {
  Agent& agent = warps_[warp].agent;
  launch_->global.EachWrite(address, 128, [&](const GlobalMark& w) {
    LaneGroup& g = agent.GroupOf(__builtin_ctz(lanes));
    Mark now;
    now.lanes = lanes;
    now.bytes = 0xffff;
    Side side{warp, 1, &g, false};
    if (Before(w, now, side)) warps_[warp].maps[address] = {w.mark, MapReleased(w, now, side)};
  });
}

void Judge::TensorMapUse(const AsyncOp& op, uint64_t address) {
  launch_->global.EachWrite(address, 128, [&](const GlobalMark& w) {
    auto it = warps_[op.warp].maps.find(address);
    const bool fenced = it != warps_[op.warp].maps.end() &&
                        it->second.first.epoch == w.mark.epoch &&
                        it->second.first.component == w.mark.component;
    if (fenced && it->second.second) return;
    if (!launch_->First(Rule::kP3, op.pc, w.mark.pc())) return;
    Finding f = Begin(Rule::kP3, op.pc, op.warp, op.lanes);
    f.accesses[0].what = "uses the tensor map";
    f.accesses.push_back(Describe(w.mark, w.cluster, true, launch_->place(address)));
    f.message =
        fmt::format("the tensor map at {} was written in this launch", launch_->place(address));
    if (!fenced) {
      f.missing = "`fence.proxy.tensormap::generic.acquire` after the write is visible here";
      f.fix = "add `fence.proxy.tensormap::generic.acquire.gpu [map], 128;` before the copy";
    } else {
      f.missing = "`fence.proxy.tensormap::generic.release` by whoever wrote it, after the write";
      f.fix =
          "write it by `tensormap.cp_fenceproxy`, or add "
          "`fence.proxy.tensormap::generic.release.gpu;` after the write, before others are told";
    }
    launch_->Say(std::move(f), op.pc, w.mark.pc());
  });
}

}  // namespace tilec::runtime::judge
