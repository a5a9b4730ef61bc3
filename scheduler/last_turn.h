// What of a loop's last iteration somebody reads. A loop that carries a value which nobody reads
// behind it (a scan's state) need not make it in its last iteration, and LLVM takes that out where
// this iteration has code of its own: so whoever reads the program back must know it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "ir/function.h"
#include "scheduler/extract.h"

namespace tilec::scheduler {

// Ops of the graph whose work outlives the loop, by name: those that write memory, branches, and
// those that make what is read behind it; of these, how many iterations before the last one.
std::map<std::string, int> Outliving(const ir::Function& fn, ir::OpId loop,
                                     const Extraction& extraction);

}  // namespace tilec::scheduler
