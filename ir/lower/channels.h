// Which loads a producer role takes over, and the rings between it and the compute role.
//
// A channel is a group of TMA loads that share one ring: they stand next to each other in one block
// and their first reader is the same op, so one full barrier announces them together and one empty
// barrier takes them back together (lowering.md, step 8). The producer must be able to run ahead:
// its control (loop bounds, conditions, coordinates) may depend on parameters, constants and
// read-only scalars only; otherwise the kernel keeps one role.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/function.h"
#include "ir/lower/plan.h"
#include "ir/lower/role_needs.h"

namespace tilec::ir {

// One place in the program where a channel makes a transfer.
struct ChannelSite {
  // Of one compute role, in the loads' block: the op that reads first (last), or contains it.
  struct Readers {
    OpId first, last;
    bool operator==(const Readers&) const = default;
  };
  std::vector<OpId> loads;  // program order, one block
  std::map<int, Readers> readers;
  std::set<OpId> reads;  // the readers themselves, in whatever block
  bool operator==(const ChannelSite&) const = default;
};

struct ChannelPlan {
  // Several sites share a ring if they move tiles of the same tensor, type and layout and hold
  // them one after another: both sides walk the sites in the same order, so slots stay in step.
  std::vector<ChannelSite> sites;
  bool generic_reads = false;  // read by ordinary loads, not only by the tensor core
  bool in_loop = false;
  bool around = false;  // its loop contains another one with channels: one filling is enough
  int64_t bytes = 0;    // full boxes of one filling: what the barrier expects
};

struct ChannelSet {
  std::vector<ChannelPlan> channels;
  std::set<ValueId> control;  // scalars the producer recomputes
  std::set<OpId> structure;   // loops and branches it walks
};

// nullopt: nothing to gain or the producer's control cannot be replicated.
std::optional<ChannelSet> PlanChannels(const Function& fn, const Plan& plan,
                                       const std::vector<RoleNeeds>& needs);

// Bytes the boxes of one TMA load deliver.
int64_t BoxBytes(const Type& tile, const SmemLayout& smem);

}  // namespace tilec::ir
