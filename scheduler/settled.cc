// SPDX-License-Identifier: Apache-2.0
#include "scheduler/settled.h"

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "scheduler/modulo.h"
#include "scheduler/routes.h"
#include "scheduler/search.h"
#include "support/expr.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kNoPiece = INT64_MIN / 4;
// Of one question about one division: decisions by the square of the number of ops.
constexpr int64_t kMostDives = 3'000'000;
constexpr int64_t kPlacing = 1'200'000;  // where any schedule will do
constexpr int kMostEnds = 8;             // schedules that registers or memory do not bear
constexpr int64_t kStages = 3;           // what is short needs few registers

// Two ops that take turns: v begins between `after` and `until` cycles behind some begin of u.
struct Turn {
  int u, v;
  int64_t after, until;
};

// The same as one of them sees it.
struct Side {
  int other;
  int64_t after, until;
};

struct Stream {
  std::vector<std::pair<int, int64_t>> users;  // op, cycles for which it is alone
  int64_t busy = 0;
};

// What is decided so far.
struct State {
  std::vector<int64_t> path;   // t(v) − t(u) is at least path[u·n + v]
  std::vector<int64_t> depth;  // of rings, at least
};

class Dive {
 public:
  Dive(const Graph& graph, const SolveOptions& options, const RoleOffer& offer,
       const std::vector<int>& group, const SettledQuestion& question, int64_t* work,
       bool only_refute)
      : g_(graph),
        options_(options),
        offer_(offer),
        group_(group),
        q_(question),
        ii_(question.ii),
        inverse_(1.0 / static_cast<double>(question.ii)),
        n_(static_cast<int>(graph.ops.size())),
        only_refute_(only_refute),
        work_(work),
        left_(std::min(kMostDives, *work) / Price()) {}

  SettledReply Run() {
    SettledReply reply;
    State state;
    if (!Begin(&state)) {
      reply.answer = known_ ? Answer::kUnsat : Answer::kUnknown;
      return reply;
    }
    const int64_t before = left_;
    reply.answer = Search(state);
    *work_ -= (before - left_) * Price();
    if (reply.answer == Answer::kSat && !only_refute_) reply.placement = std::move(found_);
    return reply;
  }

 private:
  int64_t Price() const { return int64_t{n_} * n_ + 1; }  // of one decision
  int64_t& At(State& s, int u, int v) const { return s.path[static_cast<size_t>(u) * n_ + v]; }
  int64_t At(const State& s, int u, int v) const { return s.path[static_cast<size_t>(u) * n_ + v]; }
  bool Load(int v) const { return g_.ops[v].variable_latency; }
  // ⌊t / II⌋ and the rest: most of the work, so by multiplication, put right where it is off by
  // one.
  int64_t Period(int64_t t) const {
    int64_t period = static_cast<int64_t>(static_cast<double>(t) * inverse_);
    while (period * ii_ > t) --period;
    while (t - period * ii_ >= ii_) ++period;
    return period;
  }
  int64_t Slot(int64_t t) const { return t - Period(t) * ii_; }
  int64_t RingSlot(int v) const { return g_.ops[v].smem_bytes + g_.machine.barrier_bytes; }

  // Of schedules of any length the refutation is to rest on dependences and turns alone.
  bool Tied() const { return q_.stages || q_.smem_bytes; }

  int64_t Delay(const GraphEdge& e) const {
    const bool apart = group_[e.from] != group_[e.to];
    int64_t delay = e.delay + (apart ? e.transfer : int64_t{0});
    if (q_.slack && apart && !g_.ops[e.from].streaming) delay += *q_.slack;
    return delay;
  }

  // The laws as they stand before anything is decided. False: they contradict each other, or
  // (`known_`) one is of a kind that is not known here.
  bool Begin(State* s) {
    s->path.assign(static_cast<size_t>(n_) * n_, kNoPiece);
    s->depth.assign(n_, 0);
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
  bool Part(State* s) {
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

  bool BuildTurns() {
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

  bool TakeTurns(Stream stream) {
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
  bool BuildRings() {
    most_.assign(n_, 0);
    readers_.resize(n_);
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

  // t(v) − t(u) >= least, and what follows from it. False: it contradicts the rest.
  bool Add(State* s, int u, int v, int64_t least) {
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
      for (int j : to_) row[j] = std::max(row[j], before + least + after[j]);
      Changed(i);
    }
    return true;
  }

  void Changed(int row) {
    if (changed_[row]) return;
    changed_[row] = true;
    rows_.push_back(row);
  }

  void Forget() {
    for (int row : rows_) changed_[row] = false;
    rows_.clear();
  }

  // No op begins where another or it itself is in the way: at the nearest cycle that is free.
  bool Round(State* s) {
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

  struct Job {
    int64_t release, deadline, left;
  };
  // Whoever must end soonest goes first, interrupted by whoever must sooner: what that order does
  // not do in time, none does (Jackson).
  static bool InTime(std::vector<Job>& jobs) {
    std::sort(jobs.begin(), jobs.end(),
              [](const Job& a, const Job& b) { return a.release < b.release; });
    std::priority_queue<std::pair<int64_t, size_t>> ready;  // soonest deadline first
    int64_t now = 0;
    for (size_t next = 0; next < jobs.size() || !ready.empty();) {
      if (ready.empty()) now = std::max(now, jobs[next].release);
      for (; next < jobs.size() && jobs[next].release <= now; ++next)
        ready.emplace(-jobs[next].deadline, next);
      Job& job = jobs[ready.top().second];
      const int64_t until = next < jobs.size() ? jobs[next].release : INT64_MAX;
      const int64_t worked = std::min(job.left, until - now);
      job.left -= worked;
      now += worked;
      if (job.left > 0) continue;
      if (now > job.deadline) return false;
      ready.pop();
    }
    return true;
  }

  // As each user of a stream sees it: between two of its begins all others work once.
  bool StreamsFit(const State& s) {
    for (const Stream& stream : streams_)
      for (const auto& [first, mine] : stream.users) {
        jobs_.clear();
        for (const auto& [v, cycles] : stream.users) {
          if (v == first) continue;
          Job job{mine, ii_, cycles};
          const int64_t low = At(s, first, v), back = At(s, v, first);
          if (low != kNoPiece && back != kNoPiece && Period(-back) == Period(low)) {
            job.release = Slot(low);
            job.deadline = Slot(-back) + cycles;
          }
          jobs_.push_back(job);
        }
        if (!InTime(jobs_)) return false;
      }
    return true;
  }

  // Instances of v alive when e issues, at least. Of different pieces only slots are known.
  int64_t AliveLeast(const State& s, int v, int e) const {
    int64_t alive = 0;
    for (int i : readers_[v]) {
      const GraphEdge& edge = g_.edges[i];
      if (piece_[v] != piece_[edge.to]) continue;
      const int64_t shift = edge.distance * ii_ + edge.hold;
      alive = std::max(alive, Period(At(s, v, edge.to) + shift));
      if (piece_[v] == piece_[e])
        alive = std::max(alive, Period(At(s, v, e)) - Period(-At(s, e, edge.to) - shift));
    }
    return alive;
  }
  int64_t DepthLeast(const State& s, int v) const {
    int64_t depth = std::max<int64_t>(1, s.depth[v]);
    for (int i : readers_[v]) {
      const GraphEdge& e = g_.edges[i];
      if (piece_[v] == piece_[e.to])
        depth = std::max(depth, CeilDiv(At(s, v, e.to) + e.distance * ii_ + e.hold, ii_));
    }
    return depth;
  }

  bool LivesFit(const State& s) const {
    int64_t bytes = 0;
    for (int v = 0; v < n_; ++v)
      if (g_.ops[v].smem_bytes > 0) bytes += DepthLeast(s, v) * RingSlot(v);
    if (bytes > smem_) return false;
    for (int e = 0; e < n_; ++e) {
      if (g_.ops[e].regs == 0) continue;
      int64_t sum = 0;
      for (int v = 0; v < n_; ++v)
        if (g_.ops[v].regs > 0 && group_[v] == group_[e])
          sum += g_.ops[v].regs * AliveLeast(s, v, e);
      if (sum > g_.machine.max_regs_per_thread) return false;
    }
    return true;
  }

  // The turn that leaves the fewest choices, and of those the one with the least room.
  const Turn* Choose(const State& s) const {
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

  Answer Search(State& s) {
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

  template <typename A, typename B>
  Answer Either(const State& s, const A& lower, const B& upper, bool lower_first) {
    Answer all = Answer::kUnsat;
    for (const bool first : {true, false}) {
      State next = s;
      if (!(first == lower_first ? lower(&next) : upper(&next))) {
        Forget();
        continue;
      }
      const Answer answer = Search(next);
      if (answer == Answer::kSat) return answer;
      if (answer == Answer::kUnknown) all = answer;
    }
    return all;
  }

  // All turns are known: what is left are inequalities, and lives. As early and as late as they
  // allow; then single ops move.
  Answer Leaf(const State& s) {
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

  bool Holds(const scheduler::Search::Found& found) const {
    const Objective o = ObjectiveOf(g_, options_, found);
    if ((q_.cross_bytes && o.cross_bytes > *q_.cross_bytes) || (q_.waits && o.waits > *q_.waits) ||
        (q_.stages && o.stages > *q_.stages) || (q_.smem_bytes && o.smem_bytes > *q_.smem_bytes) ||
        (q_.slack && SlackOf(g_, found) < *q_.slack))
      return false;
    return Check(g_, ToSchedule(g_, options_, found)).violations.empty();
  }

  // Pieces move by whole periods until what they need of each other is there, loads as late as
  // they may.
  void Join(std::vector<int64_t>* t) const {
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
  Answer Shallower(const State& s, const Needs& needs) {
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

  const Graph& g_;
  const SolveOptions& options_;
  const RoleOffer& offer_;
  const std::vector<int>& group_;
  const SettledQuestion& q_;
  const int64_t ii_;
  const double inverse_;
  const int n_;
  const bool only_refute_;
  int64_t* const work_;
  int64_t left_;
  int leaves_ = 0;
  bool known_ = true;
  std::vector<bool> changed_;  // rows of paths since turns were last looked at
  std::vector<int> rows_;      // which
  std::vector<std::vector<Side>> sides_;
  std::vector<int> turn_;  // by pair: index into turns_, −1: none
  std::vector<Turn> turns_;
  std::vector<Stream> streams_;  // the fullest first
  std::vector<int64_t> most_;
  int64_t smem_ = 0;
  std::vector<std::vector<int>> readers_;  // value edges by producer
  std::vector<int> piece_, to_;
  int pieces_ = 1;
  std::vector<Job> jobs_;
  Placement found_;
};

}  // namespace

bool SettledApplies(const Graph& graph, const SolveOptions& options) {
  if (!options.settled || graph.ops.empty() || HasRoutes(graph) || PinsTime(graph)) return false;
  return options.warp_constraints && options.register_limits && options.cross_role_transfers &&
         options.modulo_scheduling && !options.fixed_stages;
}

SettledReply AskSettled(const Graph& graph, const Graph& ties, const SolveOptions& options,
                        const RoleOffer& offer, const SettledQuestion& question, int64_t* work,
                        bool only_refute) {
  SettledReply reply;
  const auto divisions = Divisions(graph, ties, offer);
  if (!divisions) return reply;
  reply.answer = Answer::kUnsat;
  reply.asked = true;
  for (const std::vector<int>& group : *divisions) {
    if (question.cross_bytes || question.waits) {
      const Objective o = ObjectiveOf(
          graph, options, {{std::vector<int64_t>(group.size(), 0), group}, offer, question.ii});
      if (o.cross_bytes > question.cross_bytes.value_or(o.cross_bytes) ||
          o.waits > question.waits.value_or(o.waits))
        continue;
    }
    SettledReply one = Dive(graph, options, offer, group, question, work, only_refute).Run();
    one.asked = true;
    if (one.answer == Answer::kSat) return one;
    if (one.answer == Answer::kUnknown) reply.answer = Answer::kUnknown;
  }
  return reply;
}

SettledReply PlaceSettled(const Graph& graph, const SolveOptions& options, const RoleOffer& offer,
                          int64_t ii, int64_t* work) {
  const auto within = [&](const SettledQuestion& question, int64_t most) {
    int64_t share = std::min(most, *work);
    *work -= share;
    SettledReply reply = AskSettled(graph, graph, options, offer, question, &share);
    *work += std::max<int64_t>(share, 0);
    return reply;
  };
  SettledQuestion question{ii, {}, {}, {}, {}, {}};
  SettledReply reply = within(question, kPlacing);
  for (int64_t stages = 1; stages <= kStages && reply.answer == Answer::kUnknown; ++stages) {
    question.stages = stages;
    SettledReply few = within(question, kPlacing / 2);
    if (few.answer == Answer::kSat) reply = std::move(few);
  }
  return reply;
}

}  // namespace tilec::scheduler
