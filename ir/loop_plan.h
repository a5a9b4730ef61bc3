// From cycles to code: what a schedule of one loop means for the order, the stages and the roles of
// the loop's ops.
//
// A schedule says when ops issue; a program knows only order. Each role's ops run in the cyclic
// order of their slots, and where the role's iteration begins is free. It begins where fewest
// products are in flight (a product that is in flight when an iteration ends has to be awaited
// there), then where the fewest stages and the fewest carried bytes result.
//
// What a schedule does not place: scalars, ops that only rename elements, and loads of tensors
// nobody writes are computed where they are used, by every role and stage that uses them; the load
// role has them from the rings.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

// A schedule of one loop, by ops of its body. Ops missing here are those that need no place.
struct LoopSchedule {
  struct Time {
    int role = 0;       // compute role, 0…
    int64_t cycle = 0;  // issue of iteration 0
  };
  // `to` may not issue before `from` has: in iteration i + distance of `to`, iteration i of `from`.
  struct Token {
    OpId from, to;
    int64_t distance = 0;
  };
  int64_t ii = 1;
  int64_t tensor = 0;  // cycles of an iteration in which the tensor core works
  int warpgroups = 1;  // of a compute role
  std::map<OpId, Time> ops;
  std::set<OpId> replicated;  // without a place although not IsReplicated: every role computes them
  std::vector<Token> tokens;
  std::set<OpId> in_flight;  // products that are so from their issue to a wait (ir/matrix_unit.h)
  // Sums stay where products add to them, so that a product that only products follow costs nothing
  // at an iteration's end. Then iterations of the roles begin where they read the same loads.
  bool in_place = false;
  // What a role makes of a product is used as few iterations later as the order within an iteration
  // allows, not when it was scheduled: fewer tiles are held from one iteration to the next. For
  // loops of one compute role.
  bool close = false;
};

// One op in the iteration of its role.
struct PlannedOp {
  OpId op;
  int role = -1;  // −1: every role that needs it
  int stage = 0;  // in iteration i it works for iteration i − stage
};

// Token between two planned ops: in iteration T + iterations of `to`, iteration T of `from`.
struct PlannedToken {
  OpId from, to;
  int turns = 0;  // 0 or 1
};

struct LoopPlan {
  std::vector<PlannedOp> order;  // of an iteration; operands of the same iteration stand above
  int stages = 0;                // the largest stage
  std::vector<PlannedToken> tokens;
  std::vector<std::string> notes;  // what was given up, and why
  // Where the order is not the schedule's, because ptxas would serialize the products otherwise.
  // It may cost nothing (scheduler/in_turns.h).
  std::vector<std::string> departures;
  std::set<OpId> awaited;  // products that are complete when their turn ends
  // Products that go on, iteration after iteration, with what they made: in flight when an
  // iteration ends. The lowering lets them, but for rings of fewer than three slots.
  int going_on = 0;
};

// A value of the body as its readers find it: defined by `value`'s op, through `args.size()`
// carried values (indices, the one read first in front), so so many iterations back.
struct BodyRef {
  enum class Kind { kOutside, kPosition, kDefined, kUnclear };
  Kind kind = Kind::kUnclear;
  ValueId value;
  std::vector<size_t> args;
};
BodyRef Resolve(const Function& fn, OpId loop, ValueId v);

// Ops that are computed where they are used (see above).
bool IsReplicated(const Function& fn, const Op& op);

// nullopt, with `why`: the loop or the schedule has a form this lowering does not know.
std::optional<LoopPlan> PlanLoop(const Function& fn, OpId loop, const LoopSchedule& schedule,
                                 std::string* why);

}  // namespace tilec::ir
