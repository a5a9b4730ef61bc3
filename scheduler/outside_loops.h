// What a CTA does outside of its innermost loops, and how often it enters those: the time of whole
// kernels (kernel_time.h) is this, the loops' turns, and what comes of CTAs beside each other. Of
// kernels without products it is most of the time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/kernel_time.h"

namespace tilec::scheduler {

struct OutsideLoops {
  double cycles = 0, busy = 0, hot = 0;  // per instance
  bool combines = false;                 // CTAs of a cluster put together what they have
  std::map<ir::OpId, double> turns;      // without products: what a turn takes, op after op
  std::map<ir::OpId, double> entries;    // of innermost loops, per instance
};
OutsideLoops FindOutsideLoops(const ir::Function& fn, const ir::Target& target,
                              const ir::WorkCount& work, const LaunchShape& shape);

// The unit that the clock depends on most; −1: none.
int HotUnit(const ir::Target& target);

}  // namespace tilec::scheduler
