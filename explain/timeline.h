// The first iterations of a schedule laid out in time: what the drawings and the trace show.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/explain.h"

namespace tilec::explain {

struct Bar {
  int op = 0;
  int64_t iteration = 0;
  int64_t begin = 0, end = 0;  // cycles; cycle 0 is the start of iteration 0's first stage
  int row = 0;                 // of its lane
};

struct Lane {
  enum class Kind {
    kRole,    // instruction stream of a role
    kFlight,  // what a role started and what completes behind its back
    kUnit,    // reservations
    kShared,  // fluid unit: demand, `level` over time instead of bars
  };
  Kind kind = Kind::kRole;
  int index = 0;  // of the role or unit
  std::string name;
  std::vector<Bar> bars;  // by begin
  int rows = 1;
  // Cycles wanted per cycle from `first` on, until the next; average over each op's latency.
  std::vector<std::pair<int64_t, double>> level;
};

struct Timeline {
  int64_t ii = 1;
  int iterations = 0;
  int stages = 1;
  int64_t end = 0;  // everything has completed
  int64_t steady_begin = 0, steady_end = 0;
  std::vector<Lane> lanes;  // a role and its flights, …, then units
};

Timeline MakeTimeline(const Explanation& e, int iterations);
// As many iterations as show two steady periods between prologue and epilogue.
Timeline TwoPeriods(const Explanation& e);

}  // namespace tilec::explain
