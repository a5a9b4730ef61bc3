// Loads that no ring brings. Where a kernel multiplies nothing no role runs ahead: its threads load
// where they read, by every stage that reads (ir/loop_plan.h), and what hides their waits are other
// CTAs. A schedule that has rings for them promises what no program of them is.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "ir/program_plan.h"
#include "scheduler/extract.h"

namespace tilec::scheduler {

// Which loads of a kernel may have a ring, by how its tiles are laid out: all where it multiplies,
// and what an author gave a depth, so that its loss is said.
std::function<bool(ir::OpId)> RingsOf(const ir::Function& fn, const ir::LayoutPlan& tiles);

// What `ring` denies loses the ring that ExtractLoop gave it: the load, with all that the machine
// has to do for it, is done with its first reader, and nobody waits for it. So is a gather. What
// the kernel itself writes keeps a place of its own, among the ops of the role that computes.
void LoadWhereRead(const ir::Function& fn, const std::function<bool(ir::OpId)>& ring,
                   Extraction* loop);

}  // namespace tilec::scheduler
