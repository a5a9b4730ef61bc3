// Where the search of settled roles has made all choices: a schedule, or which rings may not be as
// deep.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "scheduler/modulo.h"
#include "scheduler/objective.h"
#include "scheduler/settled_dive.h"
#include "scheduler/to_schedule.h"
#include "support/expr.h"

namespace tilec::scheduler {

// All turns are known: what is left are inequalities, and lives. As early and as late as they
// allow; then single ops move.
Answer Dive::Leaf(const State& s) {
  ++leaves_;
  ModuloScheduler mover({&g_, offer_, group_, true, true}, ii_);
  Needs needs;
  for (const bool early : {true, false}) {
    std::vector<int64_t> t(n_, 0);
    for (int v = 0; v < n_; ++v) {
      for (int u = 0; u < n_; ++u)
        if (const int64_t path = early ? At(s, u, v) : At(s, v, u); path != kNoPiece)
          t[v] = std::max(t[v], path);
      if (!early) t[v] = -t[v];
    }
    Join(&t);
    needs = Measure(g_, ii_, offer_, true, {t, group_});
    for (const std::vector<int64_t>& cycles : {mover.Mend(t), t}) {
      Search::Found found{{cycles, group_}, offer_, ii_};
      if (!Holds(found)) continue;
      found_ = std::move(found.placement);
      return Answer::kSat;
    }
  }
  return q_.smem_bytes && pieces_ == 1 ? Shallower(s, needs) : Answer::kUnknown;
}

bool Dive::Holds(const scheduler::Search::Found& found) const {
  const Objective o = ObjectiveOf(g_, options_, found);
  if ((q_.cross_bytes && o.cross_bytes > *q_.cross_bytes) || (q_.waits && o.waits > *q_.waits) ||
      (q_.stages && o.stages > *q_.stages) || (q_.smem_bytes && o.smem_bytes > *q_.smem_bytes) ||
      (q_.slack && SlackOf(g_, found) < *q_.slack))
    return false;
  return Check(g_, ToSchedule(g_, options_, found)).violations.empty();
}

// Pieces move by whole periods until what they need of each other is there, loads as late as
// they may.
void Dive::Join(std::vector<int64_t>* t) const {
  if (pieces_ == 1) return;
  std::vector<int64_t> shift(pieces_, 0);
  const auto missing = [&](const GraphEdge& e) {
    return CeilDiv(Delay(e) - e.distance * ii_ - ((*t)[e.to] - (*t)[e.from]), ii_);
  };
  for (int round = 0; round <= pieces_; ++round)
    for (const GraphEdge& e : g_.edges)
      if (const int a = piece_[e.from], b = piece_[e.to]; a != b)
        shift[b] = std::max(shift[b], shift[a] + missing(e));
  const int64_t last = *std::max_element(shift.begin(), shift.end());
  std::vector<bool> moves(pieces_, true);
  for (int v = 0; v < n_; ++v)
    if (!Load(v)) moves[piece_[v]] = false;
  for (int i = 0; i < pieces_; ++i)
    if (moves[i]) shift[i] = last;
  for (int round = 0; round <= pieces_; ++round)
    for (const GraphEdge& e : g_.edges)
      if (const int a = piece_[e.from], b = piece_[e.to]; a != b && moves[a])
        shift[a] = std::min(shift[a], shift[b] - missing(e));
  for (int v = 0; v < n_; ++v) (*t)[v] += shift[piece_[v]] * ii_;
}

// A ring that is deeper than need be stays as shallow as it may, or is deeper for good.
Answer Dive::Shallower(const State& s, const Needs& needs) {
  for (int v = 0; v < n_; ++v) {
    const int64_t least = DepthLeast(s, v);
    if (g_.ops[v].smem_bytes == 0 || needs.depth[v] <= least) continue;
    return Either(
        s,
        [&](State* next) {
          return std::all_of(readers_[v].begin(), readers_[v].end(), [&](int i) {
            const GraphEdge& e = g_.edges[i];
            const int64_t most = e.distance * ii_ + e.hold - ii_ * least;
            return e.to == v ? most <= 0 : Add(next, e.to, v, most);
          });
        },
        [&](State* next) {
          next->depth[v] = least + 1;
          return true;
        },
        true);
  }
  return Answer::kUnknown;  // registers
}

}  // namespace tilec::scheduler
