// Which decisions of different roles are one decision. Roles that share work walk the same loops
// and take the same branches; this finds out which, from the text of the program alone, so that the
// walk need not know what any of them is about.
//
// Two scalars are congruent if they are made by the same ops of congruent operands: for values a
// loop carries, if the loops are congruent and so are what goes in and what each iteration hands
// on. Two loops are congruent if their bounds (or conditions) are, and what stands around them. The
// coarsest such partition is found by refining the one in which all that looks alike is equal. By
// induction over the iterations, congruent scalars are equal in the same iteration of congruent
// loops. So a *question* (does iteration j exist, is the condition true) has one answer for all
// roles that ask it in the same iteration of the loop around, its *context*. Whatever else relates
// answers is forgotten, which adds behaviours and hides none.
//
// A scalar that one role hands to another is congruent to what it takes, if both are executed in
// the same iterations: the walk demands that puts and takes alternate (hands.cc), so the n-th is
// the n-th.
//
// A branch on `lo < end` around a loop over lo..end, or behind it, asks what the loop asks first;
// behind it only if no role has the branch without the loop.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/warp_check/program.h"

namespace tilec::ir::warp_check {

//
// Of two loops one after the other with congruent bounds the second must run as often as the first,
// however often that was: answers that are remembered grow with the iterations, and the walk has no
// end. `by_place`: such loops ask questions of their own, unless they are copies of one loop of the
// source.
struct Agreement {
  explicit Agreement(const Program& program, bool by_place = false);

  // Of a loop, a branch or an elect; -1: not one of them.
  struct Control {
    int32_t question = -1;
    int32_t loop = -1;     // whose iterations are counted: of congruent loops at one place, one
    int32_t context = -1;  // the loop around it, by that number; -1: none
  };
  std::vector<Control> of;  // by op
  int32_t questions = 0, loops = 0;
  bool in_sequence =
      false;  // loops of different places ask one question: `by_place` tells them apart
  std::vector<int32_t> context_of;          // by question
  std::vector<std::vector<char>> has_loop;  // by role, by loop
  // Where a role asks a question: the op, and the way to it from the loop around (blocks from its
  // body inwards, each with the place of the op that leads on).
  struct Site {
    OpId op, around;
    std::vector<std::pair<BlockId, int32_t>> way;
  };
  std::vector<std::vector<std::vector<Site>>> sites;  // by role, by question
};

}  // namespace tilec::ir::warp_check
