// The order and the stages of a turn, as read, beside the slots of the schedule: some turn of the
// schedule, from some cut on, must have them. See compare.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/obeyed/compare.h"

namespace tilec::obeyed {

// One op in the turn.
struct Seen {
  int op = 0;
  double at = 0;  // where in the turn: the median of its instructions
  std::vector<int> instrs;
  int stage = -1;  // turns behind the loop; −1: not told
  int before = -1;
  int stretch = 0;  // events that others see, before it
  // Turns stand one behind the other, and it goes along with a reduction that meets where that of
  // another of these turns does: it may be in any of them, as the plan says.
  bool any_turn = false;
  // Products of one place in the source, as slices of rows that one role has: which of them is
  // which is not told, nor the stage of each, but their mean is.
  std::vector<int> alike;  // all of them; empty: it is alone
  double mean = 0;         // of their stages
};

struct InOrder {
  std::vector<std::string> faults;
  int moved = 0;  // ops that stand elsewhere by a rule
};

// `last_stretch`: events of the turn that others see. Of products that are alike the order is the
// best that they may have.
InOrder CheckOrder(const WantedLoop& wanted, const std::vector<Seen>& seen, int last_stretch);

// The compiler's two departures, both because ptxas serializes products otherwise: what reads the
// old value of an accumulator that a product of the turn updates runs before that product; and
// what reads a product's result a turn later runs at the end of the result's own turn. So does
// LLVM with the first op on a carried value that begins as a constant, and with what reads the old
// value of one that arithmetic of the turn updates: it needs no registers of its own then. And one
// that it tells of a loop: what reads a load that others read, too, runs at the end of the turn
// that brings it.
bool MayMove(const WantedLoop& wanted, int op);

// Has the role with this slice the op? −1: the only one.
bool Mine(const Wanted& op, int slice);
bool Reads(const Wanted& reader, int from);
bool IsPass(const Wanted& op);

}  // namespace tilec::obeyed
