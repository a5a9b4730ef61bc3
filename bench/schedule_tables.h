// Tables of docs/scheduler.md other than the times per graph.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tilec::scheduler {

// What happens when a freedom or a resource is taken away from attention forward.
int PrintAblations();

// How times grow with the number of ops: attention of 1 to 6 row slices on a machine that grows
// with them. `svg`: a file for the picture, or empty.
int PrintGrowth(const std::string& svg);

}  // namespace tilec::scheduler
