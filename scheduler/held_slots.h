// What an iteration takes where rings have two slots.
//
// A slot is held while its copy is on its way and until the product that reads it is done. With
// three slots one is copied while one is read and one waits; with two the copy of the next but one
// iteration begins when this one's product ends, so that an iteration takes half of all of it:
//
//     (latency of a copy from memory + its share of the L2 + the product) / 2
//
// H200, pairs that stay: 688x30768x18472 in 176x256x64 2065 cycles an iteration (1600 by the units
// alone), 45936x664x19072 of [K, M] and [K, N] in 256x168x64 1979 (1534). Two slots are what is
// left beside a tile that is staged as a whole: one that is stored transposed, or whose rows are no
// multiple of 32 bytes. One slot: each iteration waits for its own copies.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "ir/function.h"
#include "ir/lower/plan.h"
#include "ir/target.h"
#include "scheduler/extract.h"
#include "scheduler/graph.h"

namespace tilec::scheduler {

// Cycles of an iteration; 0: its rings have three slots. `plan`: of `fn`, made if it is asked for.
int64_t HeldBySlots(const ir::Function& fn, const ir::Target& target, const Graph& graph,
                    std::optional<ir::LayoutPlan>* plan);

// … beside a product that threads decode an operand for: it is awaited in its iteration, in front
// of the last instruction that makes the next operand, if the tensor core works half of the time or
// more. (H200, 8192x8192x4096 of 8 bits: 256x128x64 878 us, 256x128x128 794.)
int64_t LostInDecoding(const ir::Function& fn, const ir::Target& target,
                       const Extraction& extraction, int64_t cycles);

}  // namespace tilec::scheduler
