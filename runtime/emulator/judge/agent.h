// A warp as agents. Lanes that have seen the same form a group with one View; an acquire by some
// lanes splits a group, a synchronisation of the warp joins groups again. So the usual warp is one
// group and costs one clock, and an elected lane is judged by what that lane knows.
//
// The warp's own component stands for all lanes: `generic[self] == e` in a group means that the
// lanes of the warp were synchronised after epoch e. What one lane did since then is known to that
// lane by program order, and to others through a component of the lane, made when it is first
// needed.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "runtime/emulator/judge/clock.h"

namespace tilec::runtime::judge {

enum class Scope : uint8_t { kCta, kCluster, kGpu };

struct LaneGroup {
  uint32_t lanes = 0;
  View view;
  // Own accesses up to these epochs stand before a proxy fence of the same lane.
  Epoch fenced = 0, fenced_global = 0;
  // fence + strong write: what was known at the last release fence of the group, and when it was.
  std::shared_ptr<View> release;
  Epoch release_epoch = 0;
  // strong read + fence: what an acquire fence will bring.
  std::shared_ptr<View> acquire;
  // What of view.tensor stands before a `tcgen05.fence::after_thread_sync`, and own waits.
  Clock tensor_after;
};

class Agent {
 public:
  // `new_lane(lane)` makes a component for one lane.
  void Start(Component self, uint32_t lanes, std::function<Component(int)> new_lane);

  Component self() const { return self_; }
  Epoch epoch() const { return epoch_; }
  uint32_t live() const { return live_; }
  // The lane gets a component of its own, if it has none.
  void Name(int l) { LaneComponent(l); }
  // 0: the lane never acted alone.
  Component lane(int l) const { return lane_[static_cast<size_t>(l)]; }
  std::vector<LaneGroup>& groups() { return groups_; }
  const std::vector<LaneGroup>& groups() const { return groups_; }
  LaneGroup& GroupOf(int lane);

  // Everything the lanes did or know goes into `to`.
  void Publish(uint32_t lanes, View* to);
  // `from` is ordered before what the lanes do next.
  void Acquire(uint32_t lanes, const View& from);
  // What the lanes of an async operation saw complete.
  void Learn(uint32_t lanes, Component c, Epoch e);
  // The lanes wait for each other, with memory ordering.
  void Synchronize(uint32_t lanes);
  void ProxyFence(uint32_t lanes, bool shared, bool global);
  void ReleaseFence(uint32_t lanes);
  // A strong write (or relaxed arrival) after a release fence: publishes what the fence covered.
  void PublishFence(uint32_t lanes, View* to);
  bool has_release(int lane) { return GroupOf(lane).release != nullptr; }
  // A strong read: an acquire fence will bring `from`.
  void AcquireLater(uint32_t lanes, const View& from);
  void AcquireFence(uint32_t lanes);
  void Exit(uint32_t lanes);
  // What follows is told from what came before.
  void Tick() { ++epoch_; }

  // Makes `lanes` a union of groups.
  void Split(uint32_t lanes);

 private:
  Component LaneComponent(int l);

  Component self_ = 0;
  std::array<Component, 32> lane_{};
  Epoch epoch_ = 2;  // 1 says only that the warp runs
  uint32_t live_ = 0;
  std::vector<LaneGroup> groups_;
  std::function<Component(int)> new_lane_;
};

template <typename F>
void EachLane(uint32_t lanes, F&& f) {
  for (; lanes != 0; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

}  // namespace tilec::runtime::judge
