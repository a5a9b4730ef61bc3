// Loops whose products hang on each other: S = Q·K, P = f(S), O += P·V. Several warpgroups have
// something else to do while one of them waits. One alone has not, and an iteration takes about as
// long as its chain whatever order its ops are in (H200, decoding: 2080 to 2806 cycles where a
// schedule says 1312 and the chain is 2459).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "scheduler/extract.h"
#include "scheduler/graph.h"
#include "scheduler/program_cut.h"

namespace tilec::scheduler {

constexpr int64_t kWholeRows = 64;  // of an instruction of a warpgroup

// Are the rows of all products one warpgroup's? Several would share the columns and the waits.
bool OfOneWarpgroup(const ir::Function& fn, const std::vector<OpOrigin>& origins);

// Does a product wait for what comes of another one of its iteration? `tensor`: their unit.
bool Chained(const Graph& graph, int tensor);

// The longest chain of one iteration, in cycles.
int64_t ChainOf(const Graph& graph);

// Do the iterations of the loop stay in the program's order? A pipeline of one warpgroup's chain
// stands in a program with what fills it, what empties it and the loop as it was for few turns:
// twice the code, which is what assembling takes time for. It gains nothing where what an iteration
// loads comes no faster than its chain is done, and for this CTA alone (H200, one query, 128 keys,
// D 128: eight sizes 0.992 to 1.004 of the pipeline's speed).
bool StaysInOrder(const CutProgram& cut, const LoopReport& loop, const ir::Target& target);

// Does one warpgroup work on two iterations at a time, if the solver's order is kept? It makes the
// next iteration's S while it computes of this one's. (H200, attention in 64x64, cycles a turn: D
// 64 1028 to 1066 where units are busy for 963 and the chain is 1412, D 128 1058 to 1195, 1075 and
// 1800.) Not where two warpgroups share the columns of few rows and meet for what they reduce
// (D 256 in 64x64 2964, 1312 and 2317), nor where a tile is one head's few queries: what that loads
// comes from memory, and a turn took its chain however it was ordered.
bool IterationsOverlap(const ir::Function& fn, const CutProgram& cut, const LoopReport& loop,
                  const ir::Target& target);

}  // namespace tilec::scheduler
