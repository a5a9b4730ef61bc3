// The laws of a question to settled roles, as inequalities between the cycles of two ops, before
// anything is decided: who takes turns with whom, what is tied together, how deep rings may be.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "scheduler/settled_dive.h"

namespace tilec::scheduler {

// The laws as they stand before anything is decided. False: they contradict each other, or
// (`known_`) one is of a kind that is not known here.
bool Dive::Begin(State* s) {
  s->path.assign(static_cast<size_t>(n_) * n_, kNoPiece);
  s->depth.assign(n_, 0);
  moved_.assign(n_, 1);
  for (int v = 0; v < n_; ++v) At(*s, v, v) = 0;
  if (!BuildTurns() || !BuildRings()) return false;
  for (const GraphEdge& e : g_.edges) {
    const int64_t least = Delay(e) - e.distance * ii_;
    if (e.from == e.to ? least > 0 : !Add(s, e.from, e.to, least)) return false;
    // A question about memory is one about how long values live.
    if (q_.smem_bytes && e.from != e.to && e.kind != EdgeKind::kOrder && most_[e.from] > 0 &&
        !Add(s, e.to, e.from, e.distance * ii_ + e.hold - ii_ * most_[e.from]))
      return false;
  }
  if (q_.stages)
    for (int u = 0; u < n_; ++u)
      for (int v = 0; v < n_; ++v)
        if (u != v && !Load(u) && !Load(v) && !Add(s, u, v, 1 - *q_.stages * ii_)) return false;
  return Part(s);
}

// Ops that are tied together from both sides are a piece. Pieces move by whole periods as they
// like, so what they need of each other is no law of their slots.
bool Dive::Part(State* s) {
  piece_.assign(n_, -1);
  std::vector<int> roots;
  for (int v = 0; v < n_; ++v) {
    for (size_t i = 0; i < roots.size() && piece_[v] < 0; ++i)
      if (At(*s, roots[i], v) != kNoPiece && At(*s, v, roots[i]) != kNoPiece)
        piece_[v] = static_cast<int>(i);
    if (piece_[v] >= 0) continue;
    piece_[v] = static_cast<int>(roots.size());
    roots.push_back(v);
  }
  pieces_ = static_cast<int>(roots.size());
  for (int u = 0; u < n_; ++u)
    for (int v = 0; v < n_; ++v)
      if (piece_[u] != piece_[v]) At(*s, u, v) = kNoPiece;
  for (int i = 1; i < pieces_; ++i)
    if (!Add(s, roots[0], roots[i], 0) || !Add(s, roots[i], roots[0], 1 - ii_)) return false;
  return true;
}

bool Dive::BuildTurns() {
  turn_.assign(static_cast<size_t>(n_) * n_, -1);
  changed_.assign(n_, false);
  for (size_t f = 0; f < g_.units.size(); ++f) {
    int64_t busy = 0;
    bool twice = false;
    Stream stream;
    for (int v = 0; v < n_; ++v)
      for (const UnitUse& use : g_.ops[v].uses) {
        if (use.unit != static_cast<int>(f) || use.cycles == 0) continue;
        busy += use.cycles;
        twice = twice || (!stream.users.empty() && stream.users.back().first == v);
        stream.users.emplace_back(v, use.cycles);
      }
    if (busy > g_.units[f].capacity * ii_) return false;
    if (g_.units[f].fluid) continue;
    if (twice || (g_.units[f].capacity != 1 && !stream.users.empty())) return known_ = false;
    if (!TakeTurns(std::move(stream))) return false;
  }
  std::map<int, Stream> roles;
  for (int v = 0; v < n_; ++v)
    if (g_.ops[v].issue > 0) roles[group_[v]].users.emplace_back(v, g_.ops[v].issue);
  for (auto& [group, stream] : roles)
    if (!TakeTurns(std::move(stream))) return false;
  sides_.resize(n_);
  for (const Turn& turn : turns_) {
    sides_[turn.u].push_back({turn.v, turn.after, turn.until});
    sides_[turn.v].push_back({turn.u, ii_ - turn.until, ii_ - turn.after});
  }
  for (int v = 0; v < n_; ++v) Changed(v);
  // Where half of the time nobody works, sums say nothing.
  std::erase_if(streams_, [&](const Stream& stream) { return 2 * stream.busy < ii_; });
  std::stable_sort(streams_.begin(), streams_.end(),
                   [](const Stream& a, const Stream& b) { return a.busy > b.busy; });
  return true;
}

bool Dive::TakeTurns(Stream stream) {
  for (const auto& [v, cycles] : stream.users) stream.busy += cycles;
  if (stream.busy > ii_) return false;
  for (size_t i = 0; i < stream.users.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const auto [u, a] = stream.users[j];
      const auto [v, b] = stream.users[i];
      int& at = turn_[static_cast<size_t>(u) * n_ + v];
      if (at < 0) {
        at = static_cast<int>(turns_.size());
        turns_.push_back({u, v, 0, ii_});
      }
      Turn& turn = turns_[at];
      turn.after = std::max(turn.after, a);
      turn.until = std::min(turn.until, ii_ - b);
      if (turn.after > turn.until) return false;
    }
  if (stream.users.size() > 1) streams_.push_back(std::move(stream));
  return true;
}

// What is asked of shared memory, and the deepest ring of each value that it has room for.
bool Dive::BuildRings() {
  most_.assign(n_, 0);
  alive_.assign(n_, 0);
  readers_.resize(n_);
  for (int v = 0; v < n_; ++v)
    if (g_.ops[v].regs > 0) in_registers_.push_back(v);
  for (size_t i = 0; i < g_.edges.size(); ++i)
    if (g_.edges[i].kind != EdgeKind::kOrder)
      readers_[g_.edges[i].from].push_back(static_cast<int>(i));
  smem_ = std::min(g_.machine.smem_bytes, q_.smem_bytes.value_or(g_.machine.smem_bytes));
  int64_t least = 0;
  for (int v = 0; v < n_; ++v) {
    if (PinnedDepth(g_, v) > 0) return known_ = false;  // a law of the author: the solver's
    if (g_.ops[v].smem_bytes > 0) least += RingSlot(v);
  }
  if (least > smem_) return known_ = Tied(), false;
  for (int v = 0; v < n_; ++v)
    if (g_.ops[v].smem_bytes > 0) most_[v] = 1 + (smem_ - least) / RingSlot(v);
  return true;
}

}  // namespace tilec::scheduler
