// Successive halving: of many candidates the fastest, by timing them in turns. Each round times all
// that are left, one after the other, in several turns there and back; medians order them, and the
// slower half is left out, until two are left, which are timed a last time. So most of the time
// goes to those that are hard to tell apart, and what a clock does in the meantime hits all alike.
//
// Knows no device: who times what is given. Decides by the times alone, so that the same times give
// the same winner.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tilec::api {

struct HalvingOptions {
  double seconds = 1;  // of launches, all together
  int turns = 5;       // of each round
};

// What timing a candidate once gave.
struct Timed {
  double ms = 0;     // of a launch; 0: it cannot be timed, and is left out
  double spent = 0;  // milliseconds
};
// Times candidate `i` for about `ms` milliseconds.
using TimeOne = std::function<Timed(size_t i, double ms)>;
// Before a round of candidates that are left, from 0.
using BeginRound = std::function<void(int round)>;

struct Standing {
  size_t candidate = 0;
  double ms = 0;   // the median of the last round that it was in; 0: never timed
  int rounds = 0;  // that it was in
};

struct Halved {
  std::vector<Standing> order;  // who was longest in it first, then by time
  double spent_ms = 0;
  bool complete = true;  // else the seconds were spent first
};

// Candidate `kept` is never left out for being slow: the others are measured beside it to the end.
// The first turn of all is taken whatever it costs.
Halved Halve(size_t count, size_t kept, const HalvingOptions& options, const TimeOne& time,
             const BeginRound& begin = nullptr);

}  // namespace tilec::api
