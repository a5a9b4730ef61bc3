// What rows ask of the memory and of the caches in front of it, of programs without products: rows
// that are read again come from the L2 or from memory, by how many CTAs read theirs at a time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"

namespace tilec::scheduler {

// What comes from memory, or goes there: what `together` CTAs have read is in the L2 still, if it
// holds that; and as much of it as it holds, if they walk back.
double FarBytes(const ir::Function& fn, const ir::WorkCount& work, const ir::Target& target,
                int64_t together);

// Bytes of memory that take as long as what passes an SM's first cache where threads bring rows,
// weights of each row as well; 0: an engine does. `far`: of them come from memory or go there.
double NearBytes(const ir::Function& fn, const ir::TargetModel& model, const ir::WorkCount& work,
                 double far);

}  // namespace tilec::scheduler
