// A cluster of CTAs, walked as one CTA with all their roles.
//
// CTAs of a cluster fill each other's rings and give slots back to each other, so their roles are
// proved together: buffers, barriers and roles of every CTA stand side by side, a copy to all is a
// copy to each, an arrival at all one at each. A product of a pair is one in each CTA, issued by
// one thread of the first; what only that CTA does is left out of the other. What the verifier
// knows of one CTA then needs no word about clusters. The number of a CTA in the grid is that of
// its cluster times the cluster's size, plus its rank.
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

// kAlone: one CTA that makes all the copies itself, and reads for the others what they read of it.
// What it does in time is the same.
// kExchange: of all CTAs, what belongs to warp_cluster_reduce, and the barriers between.
enum class Unfold { kCluster, kAlone, kExchange };
OneCta AsOneCta(const Function& fn, Unfold how = Unfold::kCluster);

// Do CTAs copy for each other; do they combine tiles (warp_cluster_reduce)?
//
// If they only combine, they are proved apart, for eight CTAs with loops of their own lengths would
// have too many states. Behind the last barrier of a warp_cluster_reduce nobody else touches the
// buffer or the barriers of a CTA, so for everything around it the op is a box: it writes the
// buffer when it begins and is done with it when it ends. One CTA alone is proved with that box,
// all of its roles and trip counts; what goes on inside the box, in all CTAs at once and without
// anything else, is a straight line, at whose end each CTA writes its whole buffer in the name of
// whoever comes behind. A wait inside is for arrivals inside, which every CTA makes
// once it comes there, and alone it does: so together they end.
//
// A number that each CTA puts into the buffers of all (IsPushed) may come as early as another CTA
// is there. No barrier says that its bytes are free, so nothing else may have them (MeetsPushed).
bool SharesCopies(const Function& fn);
bool Exchanges(const Function& fn);
bool IsPushed(const Function& fn, const Op& op);
// An op that has something to do with the bytes of such a buffer and is not its exchange.
std::optional<OpId> MeetsPushed(const Function& fn);
// An op that touches barriers of a warp_cluster_reduce of which it is none, or a second one of them
// at the same barriers.
std::optional<OpId> MeetsExchange(const Function& fn);
// An op of its role that touches the buffer of a warp_cluster_reduce behind it, where no barrier
// says that others have read it. (Ops of other roles are found by the walk.)
std::optional<OpId> WritesExchanged(const Function& fn);

// An op of tensor memory, if there is one, that is of a pair of CTAs where others are not, or the
// other way round: the machine has them all of one kind.
std::optional<OpId> MixesPairs(const Function& fn);

// A wait, if there is one, that does not see what other CTAs release at its barrier.
std::optional<OpId> LacksScope(const Function& fn);

// CTAs of a cluster meet before any of them writes to another, and before any of them ends; those
// of a pair behind getting tensor memory, and before giving it back. The op that lacks it, if one
// does: an invalid id stands for the end of the function.
std::optional<OpId> LacksMeeting(const Function& fn);

}  // namespace tilec::ir::warp_check
