// Tiles that one compute role makes and another reads.
//
// Where a schedule gives an op and its reader to different roles, the value between them becomes a
// pair of reshapes that change no shape: the first, in the role that makes it, puts it; the second,
// in the role that reads it, takes it (ir/lower/role_needs.h). Everything else stays as it is: in
// the order of the program it is one value, so the interpreter still checks what follows.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "ir/function.h"
#include "ir/loop_plan.h"

namespace tilec::ir {

// When a value of `maker` that `role` reads is put, and when it is taken.
struct PutAndTake {
  int64_t put = 0, take = 0;
};
using PassTimes = std::function<PutAndTake(OpId maker, OpId reader, int role)>;

// In the loop's body, before it is rewritten: values of one iteration that pass between roles of
// the schedule, which gets the times of the new ops.
void PassInLoop(Function& fn, OpId loop, LoopSchedule& schedule, const PassTimes& times,
                int64_t* next_token);

// In the whole function, by the marks `role`: what is left to pass, each value right behind its
// definition. What writes without a mark gets the role that makes most of what it writes. False,
// with `why`: control depends on what one role computes.
bool PassTiles(Function& fn, int64_t* next_token, std::string* why);

}  // namespace tilec::ir
