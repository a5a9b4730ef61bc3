// Which loads a producer role takes over, and the rings between it and the compute role.
//
// A channel is a group of TMA loads that share one ring: they stand next to each other in one block
// and their first reader is the same op, so one full barrier announces them together and one empty
// barrier takes them back together (docs/lowering/roles.md). Joined, those of one iteration of a
// loop whose readers are products are a group whatever product reads them: a slot and a wait less
// for each role, and each slot is held until the last of them. The producer must be able to run
// ahead: what it cannot compute of its control (loop bounds, conditions, coordinates) is handed to
// it (producer_share.h); where that cannot be, the kernel keeps one role.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "ir/lower/producer_share.h"
#include "ir/program_plan.h"

namespace tilec::ir {

struct ChannelSet {
  std::vector<PlannedRing> rings;
  ProducerShare share;
  bool joined = false;  // loads that other products read share slots
};

// nullopt: nothing to gain or the producer's control cannot be known to it; `why`, if given, says.
// `room`: bytes of shared memory.
std::optional<ChannelSet> PlanChannels(const Function& fn, const LayoutPlan& plan,
                                       const std::vector<RoleNeeds>& needs, int64_t room,
                                       bool joined = false, NoProducer* why = nullptr);

// The ring's first load, in program order, into the place of the slot that the load of a site
// fills.
OpId FirstOfPlace(const Function& fn, const LayoutPlan& plan, const PlannedRing& ring, size_t site,
                  OpId load);

// Bytes the boxes of one TMA load deliver.
int64_t BoxBytes(const Type& tile, const SmemLayout& smem);
// … of a load in a ring, of which a full barrier is told: none of what threads bring.
int64_t ToldBytes(const LoadPlan& load, const Type& tile);

}  // namespace tilec::ir
