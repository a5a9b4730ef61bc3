// A .sched file for a graph: read, matched by hash and by names, judged. An edited schedule or one
// from yesterday's graph is taken if it is still lawful, and refused with what moved if not.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "ir/schedule.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// `file`: id of `text` in the caller's SourceMap, or −1. Fails with S340 (ops differ) or S341 (laws
// broken); warns with S342 where the graph changed and the schedule still holds: it then carries
// the hash of this graph.
Result<ir::Schedule> LoadSchedule(const Graph& graph, std::string_view text, int32_t file,
                                  DiagSink& diags);

}  // namespace tilec::scheduler
