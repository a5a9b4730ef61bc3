// Whether several CTAs should share the turns of a tile's loop (ir/passes/split_reductions.h), and
// how many: what the model of whole kernels says of each number, where less than half of the
// multiprocessors have a tile.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/isa.h"
#include "ir/target.h"
#include "scheduler/kernel_time.h"

namespace tilec::scheduler {

struct SplitChoice {
  int64_t ctas = 1;             // for each tile
  double ms = 0, alone_ms = 0;  // of that many, of one; 0: not known
  double whole_flops = 0;       // of products, with edges as whole tiles
};

// What is known of a launch before its program is lowered; none: the least.
using ShapeOf = std::function<LaunchShape(const ir::Function&, const ir::WorkCount&)>;

// `fn`: cleaned up, at the tile level. `names`: values of its dims and integer scalars. `times`: as
// of SharedBy. `most`: CTAs for each tile.
SplitChoice ChooseSplit(const ir::Function& fn, const ir::Target& target, const Bindings& names,
                        double times, int64_t most = ir::isa::kPortableClusterCtas,
                        const ShapeOf& shape_of = {});

}  // namespace tilec::scheduler
