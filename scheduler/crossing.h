// Ways for values in registers from one compute role to another: a store into shared memory and a
// load from it, at the prices of the machine file, along every edge that may cross.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ir/target.h"
#include "scheduler/extract.h"

namespace tilec::scheduler {

// Edges whose machine has no such ops keep their transfer time alone.
void AddRoutes(const ir::Target& target, Extraction* loop);

}  // namespace tilec::scheduler
