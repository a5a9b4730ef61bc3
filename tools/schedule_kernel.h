// tilec schedule FILE[:KERNEL]: the loop of a kernel, with given tile sizes or with those that the
// model likes best.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scheduler/graph.h"
#include "tools/session.h"

namespace tilec::tools {

// The graph of the kernel's loop with most work, its rows cut as is best.
Result<scheduler::Graph> GraphOfKernel(Session& session);

// --tune=model: a table of all tile sizes and slicings, best first, in cycles per unit of work.
Result<> RankTunes(Session& session);

}  // namespace tilec::tools
