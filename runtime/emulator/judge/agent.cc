// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/agent.h"

namespace tilec::runtime::judge {

void Agent::Start(Component self, uint32_t lanes, std::function<Component(int)> new_lane) {
  self_ = self;
  live_ = lanes;
  new_lane_ = std::move(new_lane);
  groups_.assign(1, LaneGroup{});
  groups_[0].lanes = lanes;
}

Component Agent::LaneComponent(int l) {
  Component& c = lane_[static_cast<size_t>(l)];
  if (c == 0) c = new_lane_(l);
  return c;
}

LaneGroup& Agent::GroupOf(int lane) {
  for (LaneGroup& g : groups_)
    if (g.lanes >> lane & 1) return g;
  return groups_[0];
}

void Agent::Split(uint32_t lanes) {
  size_t n = groups_.size();
  for (size_t k = 0; k < n; ++k) {
    uint32_t in = groups_[k].lanes & lanes;
    if (in == 0 || in == groups_[k].lanes) continue;
    LaneGroup part = groups_[k];
    part.lanes = in;
    groups_[k].lanes &= ~in;
    groups_.push_back(std::move(part));
  }
}

void Agent::Publish(uint32_t lanes, View* to) {
  bool all = (lanes & live_) == live_;
  Epoch fenced = ~0u, fenced_global = ~0u;
  for (const LaneGroup& g : groups_) {
    if ((g.lanes & lanes) == 0) continue;
    to->Join(g.view);
    fenced = std::min(fenced, g.fenced);
    fenced_global = std::min(fenced_global, g.fenced_global);
  }
  if (all) {
    to->generic.Raise(self_, epoch_);
    to->scoped.Raise(self_, epoch_);
    to->async.Raise(self_, fenced);
    to->async_global.Raise(self_, fenced_global);
  }
  for (LaneGroup& g : groups_) {
    bool more = g.fenced > fenced || g.fenced_global > fenced_global;
    if ((g.lanes & lanes) == 0 || (all && !more)) continue;
    EachLane(g.lanes & lanes, [&](int l) {
      Component c = LaneComponent(l);
      to->generic.Raise(c, epoch_);
      to->scoped.Raise(c, epoch_);
      to->async.Raise(c, g.fenced);
      to->async_global.Raise(c, g.fenced_global);
    });
  }
  ++epoch_;
}

void Agent::Acquire(uint32_t lanes, const View& from) {
  for (size_t k = 0; k < groups_.size(); ++k) {
    uint32_t in = groups_[k].lanes & lanes;
    if (in == 0 || groups_[k].view.Covers(from)) continue;
    if (in != (groups_[k].lanes & live_) && in != groups_[k].lanes) {
      Split(lanes);
      --k;  // the same group again, now without the other lanes or without these
      continue;
    }
    groups_[k].view.Join(from);
  }
}

void Agent::Learn(uint32_t lanes, Component c, Epoch e) {
  if (e == 0) return;
  for (const LaneGroup& g : groups_) {
    bool new_to_it = (g.lanes & lanes) != 0 && g.view.async.At(c) < e;
    if (!new_to_it) continue;
    Split(lanes);
    break;
  }
  for (LaneGroup& g : groups_)
    if (g.lanes & lanes) g.view.Raise(c, e);
}

void Agent::Synchronize(uint32_t lanes) {
  bool all = (lanes & live_) == live_;
  if (all && groups_.size() == 1) {
    LaneGroup& g = groups_[0];
    g.view.generic.Raise(self_, epoch_);
    g.view.scoped.Raise(self_, epoch_);
    g.view.async.Raise(self_, g.fenced);
    g.view.async_global.Raise(self_, g.fenced_global);
    ++epoch_;
    return;
  }
  Split(lanes);
  LaneGroup merged;
  merged.fenced = merged.fenced_global = ~0u;
  std::vector<LaneGroup> rest;
  Publish(lanes, &merged.view);
  for (LaneGroup& g : groups_) {
    if ((g.lanes & lanes) == 0) {
      rest.push_back(std::move(g));
      continue;
    }
    merged.lanes |= g.lanes;
    merged.fenced = std::min(merged.fenced, g.fenced);
    merged.fenced_global = std::min(merged.fenced_global, g.fenced_global);
    if (g.acquire != nullptr) merged.acquire = g.acquire;
    merged.tensor_after.Join(g.tensor_after);
  }
  if (merged.lanes == 0) return;
  groups_.clear();
  groups_.push_back(std::move(merged));
  for (LaneGroup& g : rest) groups_.push_back(std::move(g));
}

void Agent::ProxyFence(uint32_t lanes, bool shared, bool global) {
  Split(lanes);
  for (LaneGroup& g : groups_) {
    if ((g.lanes & lanes) == 0) continue;
    if (shared) {
      g.view.async.Join(g.view.generic);
      g.view.generic.Join(g.view.async);
      g.fenced = epoch_;
    }
    if (global) {
      g.view.async_global.Join(g.view.generic);
      g.view.generic.Join(g.view.async_global);
      g.fenced_global = epoch_;
    }
  }
  ++epoch_;
}

void Agent::ReleaseFence(uint32_t lanes) {
  Split(lanes);
  for (LaneGroup& g : groups_) {
    if ((g.lanes & lanes) == 0) continue;
    g.release = std::make_shared<View>(g.view);
    g.release_epoch = epoch_;
  }
  ++epoch_;
}

void Agent::PublishFence(uint32_t lanes, View* to) {
  for (LaneGroup& g : groups_) {
    uint32_t in = g.lanes & lanes;
    if (in != 0) to->tensor.Join(g.view.tensor);  // its fences are those of tcgen05
    if (in == 0 || g.release == nullptr) continue;
    to->Join(*g.release);
    bool all = in == live_;
    EachLane(all ? 1 : in, [&](int l) {
      Component c = all ? self_ : LaneComponent(l);
      to->generic.Raise(c, g.release_epoch);
      to->scoped.Raise(c, g.release_epoch);
    });
  }
}

void Agent::AcquireLater(uint32_t lanes, const View& from) {
  Split(lanes);
  for (LaneGroup& g : groups_) {
    if ((g.lanes & lanes) == 0) continue;
    g.view.tensor.Join(from.tensor);
    auto all = g.acquire == nullptr ? std::make_shared<View>() : std::make_shared<View>(*g.acquire);
    all->Join(from);
    g.acquire = std::move(all);
  }
}

void Agent::AcquireFence(uint32_t lanes) {
  Split(lanes);
  for (LaneGroup& g : groups_) {
    if ((g.lanes & lanes) == 0 || g.acquire == nullptr) continue;
    g.view.Join(*g.acquire);
    g.acquire = nullptr;
  }
}

void Agent::Exit(uint32_t lanes) {
  live_ &= ~lanes;
  if (live_ == 0) return;  // what the last ones knew is still asked for
  for (LaneGroup& g : groups_) g.lanes &= ~lanes;
  std::erase_if(groups_, [](const LaneGroup& g) { return g.lanes == 0; });
}

}  // namespace tilec::runtime::judge
