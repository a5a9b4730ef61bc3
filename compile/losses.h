// What a solved schedule has and the program that was made of it has not. Nothing of a schedule is
// lost in silence: what is found here is said (R607), and refused where somebody wrote the schedule
// (R608).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/lower/sequential.h"
#include "ir/target.h"
#include "scheduler/program.h"

namespace tilec::compile {

// A load that the schedule brings ahead of its consumers, and that the program makes where it is
// read, or brings less far ahead.
struct Loss {
  Span load;
  std::string tensor;
  int64_t slots = 0;  // of its ring in the schedule; 0: it is in flight in registers
  int64_t made = 0;   // of its ring in the program; 0: it has none
  std::string why;
  std::vector<std::pair<size_t, std::string>> ops;  // loops of the schedule, names there
};

// `fn`: the tile function that was lowered; `made`: rings of the program; `no_producer`: why one
// role runs it, where one does. Each place of the source once, in program order, and rings that are
// not there before those that are less deep.
std::vector<Loss> LossesOf(const scheduler::ProgramSchedule& schedule, const ir::Function& fn,
                           const ir::ScheduledResources& made, const ir::NoProducer& no_producer,
                           const ir::Target& target);

// What the loops of a schedule gave up, among their notes.
void NoteLosses(const std::vector<Loss>& losses, scheduler::ProgramSchedule* schedule);

// "its ring of 3 slots for `A`: …", for messages; the others are counted.
std::string Describe(const std::vector<Loss>& losses);

}  // namespace tilec::compile
