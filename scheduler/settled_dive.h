// The search behind settled.h, of one question about one division of ops among roles. It takes the
// laws as inequalities between the cycles of two ops, halves the choices of how many whole periods
// lie between two that take turns, and keeps the longest paths between all ops.
//
// settled_laws.cc: the laws as they stand before anything is decided. settled.cc: what follows from
// a choice, and which is next. settled_ends.cc: a schedule, where all choices are made.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/in_time.h"
#include "scheduler/search.h"
#include "scheduler/settled.h"

namespace tilec::scheduler {

class Dive {
 public:
  Dive(const SettledProblem& problem, const std::vector<int>& group,
       const SettledQuestion& question, int64_t* work, bool only_refute)
      : g_(problem.graph),
        options_(problem.options),
        offer_(problem.offer),
        group_(group),
        q_(question),
        ii_(question.ii),
        inverse_(1.0 / static_cast<double>(question.ii)),
        n_(static_cast<int>(problem.graph.ops.size())),
        only_refute_(only_refute),
        work_(work),
        left_(std::min(kMostDives, *work) / Price()) {}

  SettledReply Run();

 private:
  // Decisions by the square of the number of ops.
  static constexpr int64_t kMostDives = 3'000'000;
  static constexpr int kMostEnds = 8;  // schedules that registers or memory do not bear
  static constexpr int64_t kNoPiece = INT64_MIN / 4;

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

  // settled_laws.cc
  bool Begin(State* s);
  bool Part(State* s);
  bool BuildTurns();
  bool TakeTurns(Stream stream);
  bool BuildRings();

  // settled.cc
  bool Add(State* s, int u, int v, int64_t least);
  void Changed(int row);
  void Forget();
  bool Round(State* s);
  bool StreamsFit(const State& s);
  int64_t AliveLeast(const State& s, int v) const;
  int64_t AliveLeast(const State& s, int v, int e) const;
  int64_t DepthLeast(const State& s, int v) const;
  bool LivesFit(const State& s);
  const Turn* Choose(const State& s) const;
  Answer Search(State& s);

  template <typename A, typename B>
  Answer Either(const State& s, const A& lower, const B& upper, bool lower_first) {
    Answer all = Answer::kUnsat;
    for (const bool first : {true, false}) {
      State next = s;
      moved_.assign(n_, 0);
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

  // settled_ends.cc
  Answer Leaf(const State& s);
  bool Holds(const scheduler::Search::Found& found) const;
  void Join(std::vector<int64_t>* t) const;
  Answer Shallower(const State& s, const Needs& needs);

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
  std::vector<char> moved_;    // by op: a path from or to it is longer than before the last choice
  std::vector<std::vector<Side>> sides_;
  std::vector<int> turn_;  // by pair: index into turns_, −1: none
  std::vector<Turn> turns_;
  std::vector<Stream> streams_;  // the fullest first
  std::vector<int64_t> most_;
  int64_t smem_ = 0;
  std::vector<std::vector<int>> readers_;  // value edges by producer
  std::vector<int> in_registers_;          // values that are
  std::vector<int64_t> alive_;             // their instances at any time, at least
  std::vector<int> piece_, to_;
  int pieces_ = 1;
  std::vector<Job> jobs_;
  std::vector<std::pair<int64_t, size_t>> ready_;
  Placement found_;
};

}  // namespace tilec::scheduler
