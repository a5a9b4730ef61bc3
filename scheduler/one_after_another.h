// What a turn of several warpgroups takes whose products wait for what comes of others.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/extract.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// Cycles, of which `chained_percent` is still to be taken; `origins`: of the graph's ops.
int64_t OneAfterAnother(const ir::Function& fn, const ir::Target& target, const Graph& graph,
                        const std::vector<OpOrigin>& origins);

}  // namespace tilec::scheduler
