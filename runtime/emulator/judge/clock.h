// Vector clocks. A component is whoever has epochs of its own: a warp (or one lane of it that acts
// alone), the phases of an mbarrier, the groups of a stream of asynchronous operations.
//
// `clock[c] >= e` says: everything component c did up to its epoch e is ordered before here.
// Epochs begin at 1; 0 means nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tilec::runtime::judge {

using Component = uint16_t;
using Epoch = uint32_t;

class Clock {
 public:
  Epoch At(Component c) const { return c < t_.size() ? t_[c] : 0; }
  void Raise(Component c, Epoch e) {
    if (c >= t_.size()) t_.resize((c + 16u) / 16 * 16, 0);
    t_[c] = std::max(t_[c], e);
  }
  void Join(const Clock& o) {
    if (o.t_.size() > t_.size()) t_.resize(o.t_.size(), 0);
    const Epoch* from = o.t_.data();
    Epoch* to = t_.data();
    for (size_t k = 0; k < o.t_.size(); ++k) to[k] = std::max(to[k], from[k]);
  }
  void Meet(const Clock& o) {
    if (o.t_.size() < t_.size()) t_.resize(o.t_.size());
    for (size_t k = 0; k < t_.size(); ++k) t_[k] = std::min(t_[k], o.t_[k]);
  }
  bool Covers(const Clock& o) const {
    bool all = true;
    size_t both = std::min(t_.size(), o.t_.size());
    for (size_t k = 0; k < both; ++k) all &= t_[k] >= o.t_[k];
    for (size_t k = both; k < o.t_.size(); ++k) all &= o.t_[k] == 0;
    return all;
  }
  void Forget(Component c) {
    if (c < t_.size()) t_[c] = 0;
  }
  // At least n entries, for readers that index without asking.
  const Epoch* Dense(size_t n) {
    if (t_.size() < n) t_.resize((n + 15) / 16 * 16, 0);
    return t_.data();
  }
  void Clear() { t_.clear(); }
  bool Empty() const { return t_.empty(); }

 private:
  std::vector<Epoch> t_;
};

// What an agent is ordered after. The generic and the async proxy see different things: a fence
// carries one over to the other. `scoped` is the generic clock without the edges whose scope did
// not include the other side; only kept where a cluster has several CTAs.
struct View {
  // What was learned of other clusters, through global memory, in order of cluster numbers.
  using Foreign = std::vector<std::pair<uint64_t, std::shared_ptr<const View>>>;

  Clock generic;
  Clock async;         // of operations on shared memory
  Clock async_global;  // of operations on global memory
  Clock scoped;
  Clock tensor;  // of operations on tensor memory, see tensor.h
  Foreign foreign;

  void Join(const View& o) {
    generic.Join(o.generic);
    async.Join(o.async);
    async_global.Join(o.async_global);
    scoped.Join(o.scoped);
    tensor.Join(o.tensor);
    for (const auto& [cluster, view] : o.foreign) JoinForeign(cluster, view);
  }
  void JoinForeign(uint64_t cluster, const std::shared_ptr<const View>& view);
  const View* Of(uint64_t cluster) const {
    auto it = std::lower_bound(foreign.begin(), foreign.end(), cluster, Before);
    return it != foreign.end() && it->first == cluster ? it->second.get() : nullptr;
  }
  bool Covers(const View& o) const { return CoversClocks(o) && o.foreign.empty(); }
  // … but for what `o` knows of other clusters.
  bool CoversClocks(const View& o) const {
    return generic.Covers(o.generic) && async.Covers(o.async) &&
           async_global.Covers(o.async_global) && scoped.Covers(o.scoped) &&
           tensor.Covers(o.tensor);
  }
  void Raise(Component c, Epoch e) {
    generic.Raise(c, e);
    async.Raise(c, e);
    async_global.Raise(c, e);
    scoped.Raise(c, e);
  }
  void Clear() { *this = {}; }
  static bool Before(const Foreign::value_type& entry, uint64_t cluster) {
    return entry.first < cluster;
  }
};

inline void View::JoinForeign(uint64_t cluster, const std::shared_ptr<const View>& view) {
  auto it = std::lower_bound(foreign.begin(), foreign.end(), cluster, Before);
  if (it == foreign.end() || it->first != cluster) {
    foreign.emplace(it, cluster, view);
    return;
  }
  std::shared_ptr<const View>& mine = it->second;
  if (mine == view || mine->Covers(*view)) return;
  auto both = std::make_shared<View>(*mine);
  both->Join(*view);
  mine = std::move(both);
}

}  // namespace tilec::runtime::judge
