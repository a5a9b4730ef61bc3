// One walk over the states of a program: from every state that was not met before, whatever its
// roles may do next. How it goes on, and what is forgotten on the way, differs: what relates the
// iterations of roles (related_walk.cc), or what the roles agree on alone (agreed_walk.h).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/warp_check/check.h"
#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

// No nest whose roles agree came near this; one that has more is given up, not walked for minutes.
// (120'000 ops are too few: seed 16 of `nests --kind=branches` is proved by more.)
inline constexpr int64_t kMostAgreedStates = 4000, kMostNestStates = 2500, kMostNestOps = 500'000;
inline constexpr int kNestDepth = 2;  // WarpCheckOptions::agree_depth where CTAs do not stay

enum class Walked { kProved, kFound, kTooLarge };

// Another walk begins; what all walked together is kept.
void Restart(WarpCheckStats* stats);

// The states met so far.
class SeenStates {
 public:
  // False: one from which whatever may fail from here fails as well was met before.
  bool Add(Moment moment) {
    std::vector<Moment>& like = all_[std::move(moment.key)];
    const bool covered = std::any_of(like.begin(), like.end(),
                                     [&](const Moment& old) { return old.Covers(moment); });
    if (!covered) like.push_back(std::move(moment));
    return !covered;
  }

 private:
  std::unordered_map<std::string, std::vector<Moment>> all_;
};

// How far a walk has come: one that a limit of ops ended goes on from here with a higher one.
struct WalkProgress {
  SeenStates seen;
  std::vector<State> todo;
  std::vector<State> spare;  // walked to their ends: what comes next takes their memory
  int64_t states = 0;
  bool begun = false;
};

Walked WalkOn(Machine& machine, const WarpCheckOptions& options, WarpCheckStats* stats,
              WalkProgress* progress);

// One program, by what relates the iterations of its roles.
Walked WalkRelated(const Program& program, const WarpCheckOptions& options, WarpCheckStats* stats,
                   std::optional<Finding>* finding);

}  // namespace tilec::ir::warp_check
