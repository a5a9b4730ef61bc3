// SPDX-License-Identifier: Apache-2.0
#include "scheduler/settled.h"

#include <algorithm>
#include <utility>

#include "scheduler/objective.h"
#include "scheduler/routes.h"
#include "scheduler/settled_dive.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {
constexpr int64_t kPlacing = 1'200'000;  // where any schedule will do; as Dive::kMostDives
constexpr int64_t kStages = 3;           // what is short needs few registers
}  // namespace

SettledReply Dive::Run() {
  SettledReply reply;
  State state;
  if (!Begin(&state)) {
    reply.answer = known_ ? Answer::kUnsat : Answer::kUnknown;
    return reply;
  }
  const int64_t before = left_;
  reply.answer = Search(state);
  *work_ -= (before - left_) * Price();
  reply.short_of_work = reply.answer == Answer::kUnknown && left_ <= 0;
  if (reply.answer == Answer::kSat && !only_refute_) reply.placement = std::move(found_);
  return reply;
}

// t(v) − t(u) >= least, and what follows from it. False: it contradicts the rest.
bool Dive::Add(State* s, int u, int v, int64_t least) {
  if (least <= At(*s, u, v)) return true;
  if (At(*s, v, u) != kNoPiece && At(*s, v, u) + least > 0) return false;
  to_.clear();
  const int64_t* after = &s->path[static_cast<size_t>(v) * n_];
  for (int j = 0; j < n_; ++j)
    if (after[j] != kNoPiece) to_.push_back(j);
  for (int i = 0; i < n_; ++i) {
    const int64_t before = At(*s, i, u);
    if (before == kNoPiece || before + least <= At(*s, i, v)) continue;
    int64_t* row = &s->path[static_cast<size_t>(i) * n_];
    for (int j : to_) {
      const int64_t longer = before + least + after[j];
      if (longer <= row[j]) continue;
      row[j] = longer;
      moved_[j] = 1;
    }
    moved_[i] = 1;
    Changed(i);
  }
  return true;
}

void Dive::Changed(int row) {
  if (changed_[row]) return;
  changed_[row] = true;
  rows_.push_back(row);
}

void Dive::Forget() {
  for (int row : rows_) changed_[row] = false;
  rows_.clear();
}

// No op begins where another or it itself is in the way: at the nearest cycle that is free.
bool Dive::Round(State* s) {
  bool fits = true;
  while (!rows_.empty()) {
    const int row = rows_.back();
    rows_.pop_back();
    changed_[row] = false;
    for (const Side& side : sides_[row]) {
      if (!fits) break;
      const int64_t least = At(*s, row, side.other);
      if (least == kNoPiece) continue;
      const int64_t slot = Slot(least);
      const int64_t more = slot < side.after   ? side.after - slot
                           : slot > side.until ? side.after - slot + ii_
                                               : 0;
      if (more > 0) fits = Add(s, row, side.other, least + more);
    }
  }
  return fits;
}

// As each user of a stream sees it: between two of its begins all others work once. Who may do so
// at any time is left out: there is room for all of them together. Whom nothing moved nearer to
// or away from sees what it saw before.
bool Dive::StreamsFit(const State& s) {
  for (const Stream& stream : streams_)
    for (const auto& [first, mine] : stream.users) {
      if (!moved_[first]) continue;
      jobs_.clear();
      for (const auto& [v, cycles] : stream.users) {
        if (v == first) continue;
        const int64_t low = At(s, first, v), back = At(s, v, first);
        if (low == kNoPiece || back == kNoPiece || Period(-back) != Period(low)) continue;
        const int64_t release = Slot(low), deadline = Slot(-back) + cycles;
        if (release > mine || deadline < ii_) jobs_.push_back({release, deadline, cycles});
      }
      if (!InTime(jobs_, ready_)) return false;
    }
  return true;
}

// Instances of v alive at any time, at least: what it has of each of its readers.
int64_t Dive::AliveLeast(const State& s, int v) const {
  int64_t alive = 0;
  for (int i : readers_[v]) {
    const GraphEdge& edge = g_.edges[i];
    if (piece_[v] != piece_[edge.to]) continue;  // only slots are known
    alive = std::max(alive, Period(At(s, v, edge.to) + edge.distance * ii_ + edge.hold));
  }
  return alive;
}
// And when e issues.
int64_t Dive::AliveLeast(const State& s, int v, int e) const {
  int64_t last = kNoPiece;  // a reader's hold ends so late behind e's issue
  for (int i : readers_[v]) {
    const GraphEdge& edge = g_.edges[i];
    if (piece_[v] == piece_[edge.to])
      last = std::max(last, At(s, e, edge.to) + edge.distance * ii_ + edge.hold);
  }
  return last == kNoPiece ? 0 : Period(At(s, v, e)) - Period(-last);
}
int64_t Dive::DepthLeast(const State& s, int v) const {
  int64_t depth = std::max<int64_t>(1, s.depth[v]);
  for (int i : readers_[v]) {
    const GraphEdge& e = g_.edges[i];
    if (piece_[v] == piece_[e.to])
      depth = std::max(depth, CeilDiv(At(s, v, e.to) + e.distance * ii_ + e.hold, ii_));
  }
  return depth;
}

bool Dive::LivesFit(const State& s) {
  int64_t bytes = 0;
  for (int v = 0; v < n_; ++v)
    if (g_.ops[v].smem_bytes > 0) bytes += DepthLeast(s, v) * RingSlot(v);
  if (bytes > smem_) return false;
  for (int v : in_registers_) alive_[v] = AliveLeast(s, v);
  for (int e : in_registers_) {
    int64_t sum = 0;
    for (int v : in_registers_) {
      if (group_[v] != group_[e]) continue;
      const int64_t then = piece_[v] == piece_[e] ? AliveLeast(s, v, e) : 0;
      sum += g_.ops[v].regs * std::max(alive_[v], then);
    }
    if (sum > g_.machine.max_regs_per_thread) return false;
  }
  return true;
}

// The turn that leaves the fewest choices, and of those the one with the least room.
const Dive::Turn* Dive::Choose(const State& s) const {
  const Turn* best = nullptr;
  std::pair<int64_t, int64_t> least;
  for (const Turn& turn : turns_) {
    const int64_t low = At(s, turn.u, turn.v), high = -At(s, turn.v, turn.u);
    const int64_t choices = Period(high) - Period(low);
    if (choices == 0) continue;
    const std::pair rank(choices, high - low - choices * (turn.after + ii_ - turn.until));
    if (best == nullptr || rank < least) best = &turn, least = rank;
  }
  return best;
}

Answer Dive::Search(State& s) {
  if (left_ <= 0 || leaves_ >= kMostEnds) return Answer::kUnknown;
  --left_;
  if (!Round(&s) || !StreamsFit(s) || (Tied() && !LivesFit(s))) return Answer::kUnsat;
  const Turn* turn = Choose(s);
  if (turn == nullptr) return only_refute_ ? Answer::kSat : Leaf(s);
  const int64_t low = At(s, turn->u, turn->v), high = -At(s, turn->v, turn->u);
  const int64_t first = Period(low), last = Period(high);
  const int64_t middle = first + (last - first) / 2;  // the last period of the lower part
  // Of two choices the one with more room first.
  const bool lower_first =
      last > first + 1 || (first * ii_ + turn->until) - low >= high - (last * ii_ + turn->after);
  return Either(
      s, [&](State* next) { return Add(next, turn->v, turn->u, -(middle * ii_ + turn->until)); },
      [&](State* next) { return Add(next, turn->u, turn->v, (middle + 1) * ii_ + turn->after); },
      lower_first);
}

bool SettledApplies(const Graph& graph, const SolveOptions& options) {
  if (!options.settled || graph.ops.empty() || HasRoutes(graph) || PinsTime(graph)) return false;
  return options.warp_constraints && options.register_limits && options.cross_role_transfers &&
         options.modulo_scheduling && !options.fixed_stages;
}

SettledReply AskSettled(const SettledProblem& problem, const SettledQuestion& question,
                        int64_t* work, bool only_refute) {
  SettledReply reply;
  const RoleOffer& offer = problem.offer;
  const auto divisions = Divisions(problem.graph, problem.ties, offer);
  if (!divisions) return reply;
  reply.answer = Answer::kUnsat;
  reply.asked = true;
  for (const std::vector<int>& group : *divisions) {
    if (question.cross_bytes || question.waits) {
      const Objective o =
          ObjectiveOf(problem.graph, problem.options,
                      {{std::vector<int64_t>(group.size(), 0), group}, offer, question.ii});
      if (o.cross_bytes > question.cross_bytes.value_or(o.cross_bytes) ||
          o.waits > question.waits.value_or(o.waits))
        continue;
    }
    SettledReply one = Dive(problem, group, question, work, only_refute).Run();
    one.asked = true;
    if (one.answer == Answer::kSat) return one;
    if (one.answer == Answer::kUnknown) reply.answer = Answer::kUnknown;
    reply.short_of_work |= one.short_of_work;
  }
  return reply;
}

SettledReply PlaceSettled(const SettledProblem& problem, int64_t ii, int unplaced, bool by_stages,
                          int64_t* work) {
  const int64_t placing = kPlacing >> std::min(unplaced, 20);
  const auto within = [&](const SettledQuestion& question, int64_t most) {
    int64_t share = std::min(most, *work);
    *work -= share;
    SettledReply reply = AskSettled(problem, question, &share);
    *work += std::max<int64_t>(share, 0);
    return reply;
  };
  SettledQuestion question{ii, {}, {}, {}, {}, {}};
  SettledReply reply;
  if (by_stages)
    reply.asked = true;
  else
    reply = within(question, placing);
  for (int64_t stages = 1; stages <= kStages && reply.answer == Answer::kUnknown; ++stages) {
    question.stages = stages;
    SettledReply few = within(question, placing / 2);
    if (few.answer == Answer::kSat) reply = std::move(few);
  }
  return reply;
}

}  // namespace tilec::scheduler
