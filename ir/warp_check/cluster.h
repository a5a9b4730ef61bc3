// A cluster of CTAs, walked as one CTA with all their roles.
//
// CTAs of a cluster fill each other's rings and give slots back to each other, so their roles are
// proved together: buffers, barriers and roles of every CTA stand side by side, a copy to all is a
// copy to each, an arrival at all one at each. What the verifier knows of one CTA then needs no
// word about clusters. The number of a CTA in the grid is that of its cluster times the cluster's
// size, plus its rank.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "ir/function.h"

namespace tilec::ir::warp_check {

struct OneCta {
  Function fn;
  std::vector<OpId> origin;  // by op of `fn`: the op of the program that it stands for
};

// With `alone`, one CTA that makes all the copies itself: what it does in time is the same.
OneCta AsOneCta(const Function& fn, bool alone = false);

// CTAs of a cluster meet before any of them writes to another, and before any of them ends. The op
// that lacks it, if one does: an invalid id stands for the end of the function.
std::optional<OpId> LacksMeeting(const Function& fn);

}  // namespace tilec::ir::warp_check
