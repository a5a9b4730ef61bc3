// Which stores may write where a store of the same CTA writes as well: two stores of a tensor, or
// one in a loop whose position does not carry it on. The last one counts. Threads meet before they
// store such a tensor again; one copy of TMA is ordered behind another only by a wait until the
// first has been written, so whoever plans and emits copies asks here.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "ir/function.h"
#include "ir/lower/plan.h"

namespace tilec::ir {

// By store: the stores that may write some element of it too; itself, if iterations of a loop may.
// Tiles of a grid are apart, also where a CTA walks over several. A store that is not named here
// writes elements that no other store of its CTA writes.
using StoresOver = std::map<OpId, std::vector<OpId>>;
StoresOver StoredOver(const Function& fn);
// Another store than itself writes some of its elements.
bool MeetsOthers(const Function& fn, const StoresOver& over, const Op& store);
// … in every iteration of a tile's own loop? Only a wait until all has been written orders copies,
// and that takes longer there than threads need to store.
bool OverOthersInTurns(const Function& fn, const StoresOver& over, OpId store);
// Of stores that write the same elements TMA makes all or none: no fence orders its copies behind
// what threads store to global memory.
void StoreTogether(const StoresOver& over, std::map<OpId, StorePlan>& stores);

}  // namespace tilec::ir
