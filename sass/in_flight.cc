// Which products may be in flight at each instruction. A commit closes a group of those that were
// issued; a wait for N retires all but the N newest groups. Where ways meet, groups meet by age,
// counted from the newest.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>

#include "sass/internal.h"

namespace tilec::sass {

namespace {

constexpr size_t kMostGroups = 16;  // older ones are one: nobody waits so deep

struct State {
  bool reached = false;
  std::set<int> open;                 // issued, not committed
  std::vector<std::set<int>> groups;  // newest first

  bool Join(const State& other) {
    bool moved = !reached;
    reached = true;
    const auto add = [&](std::set<int>* to, const std::set<int>& from) {
      for (int p : from) moved |= to->insert(p).second;
    };
    add(&open, other.open);
    if (groups.size() < other.groups.size()) {
      groups.resize(other.groups.size());
      moved = true;
    }
    for (size_t g = 0; g < other.groups.size(); ++g) add(&groups[g], other.groups[g]);
    return moved;
  }

  void Run(const Instr& in, int index) {
    if (in.product) open.insert(index);
    if (in.commit) {
      groups.insert(groups.begin(), std::move(open));
      open.clear();
      if (groups.size() > kMostGroups) {
        groups[kMostGroups - 1].insert(groups.back().begin(), groups.back().end());
        groups.resize(kMostGroups);
      }
    }
    if (in.wait >= 0 && groups.size() > static_cast<size_t>(in.wait))
      groups.resize(static_cast<size_t>(in.wait));
  }

  std::set<int> All() const {
    std::set<int> all = open;
    for (const std::set<int>& group : groups) all.insert(group.begin(), group.end());
    return all;
  }
};

}  // namespace

std::vector<std::set<int>> InFlight(const Listing& listing) {
  std::vector<std::set<int>> in_flight(listing.code.size());
  if (listing.blocks.empty()) return in_flight;
  std::vector<State> at(listing.blocks.size());
  at[0].reached = true;
  std::deque<int> work = {0};
  while (!work.empty()) {
    const int b = work.front();
    work.pop_front();
    const Block& block = listing.blocks[static_cast<size_t>(b)];
    State state = at[static_cast<size_t>(b)];
    for (int i = block.begin; i < block.end; ++i) state.Run(listing.code[size_t(i)], i);
    for (int next : block.next)
      if (at[static_cast<size_t>(next)].Join(state)) work.push_back(next);
  }
  for (size_t b = 0; b < listing.blocks.size(); ++b) {
    State state = at[b];
    if (!state.reached) continue;
    for (int i = listing.blocks[b].begin; i < listing.blocks[b].end; ++i) {
      in_flight[size_t(i)] = state.All();
      state.Run(listing.code[size_t(i)], i);
    }
  }
  return in_flight;
}

}  // namespace tilec::sass
