// A schedule beside the turns of the loop that was emitted for it. What a schedule says in cycles,
// a program can only say in order: every role's turn must run its ops in the cyclic order of their
// slots from some cut on, and the stages are those that follow from that cut. See the .cc for the
// three rules by which the compiler departs from that order, which are the only ones accepted.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/obeyed/ptx_code.h"

namespace tilec::obeyed {

inline constexpr int kNobody = -2;

// One op of the schedule, with what the graph says of it.
struct Wanted {
  std::string name;
  Loc at;
  std::set<Loc> parts;  // places of all its arithmetic, where several ops were made one
  int64_t cycle = 0;
  int slice = -1;        // −1: of all; or kNobody's
  bool product = false;  // on the tensor core
  bool load = false;     // through a ring
  bool meets = false;    // a reduction that may share a barrier with others (ir/lower/meetings.h)
  // What such a reduction reads goes with it to the first of those with which it meets: this one.
  int along = -1;
  bool for_meeting = false;  // a reduction of its turn, at which threads meet, needs it
  // Which tile that goes from one compute role to another it puts or takes (WantedLoop::passes).
  int put = -1, take = -1;
  std::vector<int> reads;      // indices of the ops whose results it reads, of any iteration
  std::vector<int> reads_old;  // those whose result of an iteration before it reads
  int depth = 0;               // load: slots of its ring
  // Last iterations whose results nobody reads: it need not stand behind the loop for them.
  int unread = 0;
};

// A tile that one compute role makes and another reads, through a ring of its own.
struct Pass {
  Loc at;  // of what makes it
  int from = 0, to = 0;
};

struct WantedLoop {
  int64_t ii = 1;
  int slices = 1;      // compute roles that have ops of the loop
  bool apart = false;  // these are the slices of ops, in the order of their warps
  std::vector<Pass> passes;
  int warps = 4;  // of each compute role
  std::vector<Wanted> ops;
  // Arithmetic, too, keeps its order where nothing else is between, and readers stand before the
  // next wait. LLVM moves arithmetic down to its own readers, so that this does not always hold.
  bool strict = true;
  // Products that the compiler said it awaits at the end of the turn although the schedule has them
  // under way there; ops that it said run at the end of the turn of the product they read.
  int awaited_at_end = 0;
  bool results_kept = false;
  // It said that what reads a load runs where the load is read first, at the end of that turn.
  bool drawn_to_loads = false;
  bool loads_lost = false;  // it said that a load has no ring
  // It said that the loop never has as many turns as the schedule has stages. LLVM knows it, too,
  // and takes the pipelined loop out: every loop that is left has all of a turn's ops in that turn.
  bool too_few_turns = false;
  // … but what fills the pipeline and what empties it is all, or all but one turn: no loop of it is
  // left, and a loop around has its ops several times.
  bool no_loop = false;
  // It said that the loop keeps the program's order: of its schedule roles and rings are obeyed.
  bool keeps_order = false;
};

struct Verdict {
  std::vector<std::string> faults;  // empty: obeyed
  int turns = 0, products = 0, masses = 0, unseen = 0, moved = 0, waits = 0, rings = 0;
  int unpipelined = 0;   // loops that never have the turns for their stages
  int chained = 0;       // waits between products of one accumulator
  std::set<int> needed;  // lines of waits without which something is read too early, for mutants
  int passes = 0;        // tiles seen on their way between roles, both ends
  std::vector<std::pair<int, int>> neighbours;  // ops seen one after the other, for mutants
};

Verdict Compare(const Code& code, const WantedLoop& wanted);

}  // namespace tilec::obeyed
