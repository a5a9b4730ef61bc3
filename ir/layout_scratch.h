// How data crosses threads through shared memory, decided once for the lowering (which reserves the
// bytes) and the backend (which emits the accesses): plans for `convert`, `warp_reduce`,
// `warp_argreduce`, `warp_scan`, `warp_rearrange` and atomics with a result, and the bytes of
// scratch they need. 0 bytes: registers and shuffles suffice.
//
// Scratch must start at a multiple of 16.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/layout.h"
#include "ir/type.h"

namespace tilec::ir {

// `convert` writes the tile, viewed as [product of leading dims, last dim], row-major with rows of
// `pitch` bytes (padded so that rows start in different banks) and reads it back.
struct ScratchTile {
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t pitch = 0;  // bytes
};
ScratchTile ConvertScratchTile(const Type& type);
// 0 if RegisterMap(from, to) exists, or if quads exchange bytes (then the op's `scratch` is -1).
int64_t ConvertScratchBytes(const Type& type, const Layout& from, const Layout& to);

// Do quads make `to` of `from` by exchanging bytes among their four lanes (FoursOf)?
bool ExchangedInQuads(const Type& type, const Layout& from, const Layout& to);

// A reduction over `axis` combines, in this order: registers of one thread; lanes at xor distances
// `lane_xors`; and threads that differ in `cross` digits, through scratch. Every cross combination
// `w` of a group `g` of threads (threads that agree in all digits of other dims) writes one partial
// per result register at ((w·regs + r)·groups + g)·slot_bytes.
struct ThreadDigit {
  int64_t place = 1;  // digit = (thread / place) % extent
  int64_t extent = 1;
};
struct ReducePlan {
  std::vector<int64_t> lane_xors;
  std::vector<ThreadDigit> lane_parts;  // what the xors cover: one lane of it (digit 0) writes
  std::vector<ThreadDigit> cross;
  std::vector<ThreadDigit> group;
  int64_t cross_count = 1;  // product of cross extents
  int64_t groups = 1;       // product of group extents
  int64_t regs = 1;         // registers of the result
};
ReducePlan PlanReduce(const Layout& layout, int axis);
// A scan along `axis` takes the digits of that dim from the smallest stride to the largest. At
// each, blocks that are scanned already are put side by side: what comes before a block is combined
// into it, and the blocks' totals become one. In registers one after the other; in lanes by xor
// shuffles, which leave every lane with the total; across warps through scratch, where the first
// thread of what shares a total writes it: block `w` of group `g` of threads at ((w·reps +
// r)·groups + g) slots, r counting the registers that differ in more than digits already done.
struct ScanLevel {
  enum class Kind { kRegisters, kLanes, kWarps };
  Kind kind = Kind::kRegisters;
  int reg_digit = -1;  // kRegisters: of Layout::reg
  ThreadDigit digit;   // kLanes, kWarps
  int64_t stride = 1;
  int64_t extent = 1;
  // kWarps:
  std::vector<ThreadDigit> group;    // threads that agree in these have one total
  std::vector<ThreadDigit> writers;  // done already: of them digit 0 writes
  int64_t groups = 1, reps = 1;
};
struct ScanPlan {
  std::vector<ScanLevel> levels;
};
// nullopt: digits along the axis overlap.
std::optional<ScanPlan> PlanScan(const Layout& layout, int axis);
int64_t ScanScratchBytes(const Type& type, const ScanPlan& plan);

// `rearrange` writes the operand row-major without padding and reads element by element; an operand
// of one element is in every thread.
int64_t RearrangeScratchBytes(const Type& operand);

// What an atomic found, for all replicas of the thread that made it: as `convert` writes and reads
// a tile; scalars (no layout) are in every thread. 0: there are no replicas.
int64_t FetchScratchBytes(const Type& type, const Layout* layout);

// Bytes per partial: the accumulator (f32 for floats up to 32 bits, i32/i64), plus an i32 position.
int64_t ReduceSlotBytes(DType dtype);
// `type`: of the operand. with_index: argreduce.
int64_t ReduceScratchBytes(const Type& type, const Layout& layout, int axis,
                           bool with_index = false);

}  // namespace tilec::ir
