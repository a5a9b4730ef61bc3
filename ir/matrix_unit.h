// The matrix unit of a machine: four questions in which units differ, and nothing else of them.
//
//   Place   where the accumulator of a product lies           here: a layout, tensor memory or not
//   Stage   where and how an operand must lie                 here: rules by side and width
//   Issue   the ops that make a product, and who issues them  ir/lower/issue_*.cc
//   Await   what ends products in flight                      the same files
//
// Passes, planners, verifier and proof ask these; only a unit's own files know its instructions:
// one of each in ir/lower, ir/warp_check and backend, named in docs/adding_a_matrix_unit.md.
//
// At the warp level one op, `mma`, is a product on any unit; its attribute `unit` says which. Where
// products complete in groups, mma_fence, mma_commit and mma_wait order them; where they complete
// at once there is none of these three. Where they complete at an mbarrier there is no such value:
// `tc_mma` adds to tensor memory.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/layout.h"
#include "ir/type.h"

namespace tilec::ir {

enum class MatrixUnit : uint8_t {
#define UNIT(id, ...) k##id,
#include "ir/matrix_units.def"
#undef UNIT
};

// Tensor memory of a CTA: lanes, columns of 32 bits, and the least that is allocated (PTX ISA,
// "Tensor Memory"); and the step in which products have columns there (of 16, because with 128 rows
// N is a multiple of 16).
inline constexpr int64_t kTensorLanes = 128, kTensorColumns = 512, kLeastTensorColumns = 32;
inline constexpr int64_t kTensorColumnStep = 16;

// What ends a product.
enum class Completion : uint8_t {
  kAtOnce,   // it is complete when its instructions are: nothing is awaited
  kGroups,   // committed groups end in order, and a wait says how many may be left
  kBarrier,  // an mbarrier's phase
};

struct MatrixUnitInfo {
  const char* name = "";
  Completion completion = Completion::kAtOnce;
  bool async_reads = false;        // of shared memory, through the asynchronous proxy
  int64_t rows = 1;                // of M that four warps multiply at once: M is padded to that
  int64_t columns = 1;             // step of N …
  int64_t integer_columns = 1;     // … of integers
  int64_t most_columns = 0;        // of N that one product may have
  int64_t depth_bytes = 0;         // of K that an instruction takes: K is padded to that
  int64_t left_register_bits = 0;  // most bits of a type whose A may come from registers; 0: none
  int64_t left_tensor_bits = 0;    // … may come from tensor memory
  int64_t mn_major_bits = 0;       // width of the types that need not be contiguous along K
  const char* scales = nullptr;    // the feature of a machine whose unit multiplies scaled blocks
  int least = 0, most = 0;         // compute capabilities that have it
  bool specific = false;           // only architectures with a suffix, as 'a'
  bool lowered = false;            // products are compiled for it
};
const MatrixUnitInfo& Info(MatrixUnit unit);
// Names of the units that a machine may have, as files and texts say them; nullopt: there is none
// of this name. What says nothing of it (the warp op `mma` without `unit`) means kOfOld.
std::vector<std::string> MatrixUnitNames();
std::optional<MatrixUnit> MatrixUnitNamed(std::string_view name);
inline constexpr MatrixUnit kOfOld = MatrixUnit::kWgmma;

struct Op;
// The unit of a warp op `mma`.
MatrixUnit UnitOf(const Op& mma);
// Its operands without the tiles of scales that a scaled product has behind all others.
size_t PlainOperands(const Op& mma);
// Is it such an op whose result is in flight behind it?
bool FliesFrom(const Op& op);

// A product of tiles M × K and K × N.
struct ProductShape {
  DType dtype = DType::kF32;  // of the operands
  int64_t m = 0, n = 0, k = 0;
  bool mn_major_b = false;  // B lies as [K, N]
};

// Do its accumulators lie in tensor memory? Then products are no values of the warp level
// (warp_ops.def), and threads have them in registers only between a load and a store.
bool InTensorMemory(MatrixUnit unit);
// Columns that an accumulator of m × n takes there.
int64_t TensorColumns(int64_t m, int64_t n);
// … and a left operand of 16 bits, m × k: two elements lie in a column.
int64_t TensorOperandColumns(int64_t m, int64_t k);
// Columns that a load or a store of tensor memory by `warpgroups` touches, as (first, one behind
// the last), one pair for each run: those of a slice lie in every block.
std::vector<std::pair<int64_t, int64_t>> TensorRuns(const Op& access, const Type& tile,
                                                    int warpgroups);
// … and the scales of a scaled product's operand of `rows` rows (of A) or columns (of B), `scales`
// along K: words of four.
int64_t TensorScaleColumns(int64_t rows, int64_t scales);
// How threads hold such scales in front of tmem_scales: every warp has those of all rows, thread t
// of it of rows t, t + 32, …; `rows_dim` is the dim of the tile that is rows.
Layout ScalesLayout(int64_t rows, int64_t scales, int rows_dim, int warpgroups);
// … and in front of a product that is complete at once (mma with `block`): warp by warp those of
// its own rows (of A: `left`) or columns, words of four along K. What a quad's threads have of them
// is told apart by the instruction's thread-id (PTX ISA, "Block Scaling"): of A a pair
// of threads has rows l/4 and l/4 + 8 of one block of 16 rows, the other pair those of the next
// one; of B each thread has column l/4 of a block of eight columns. Where there are fewer blocks,
// several threads have the same.
struct ScalesAtOnce {
  bool left = true;
  int64_t rows = 0;    // of the product: M of A, N of B
  int64_t scales = 0;  // along K
  int rows_dim = 0;    // the dim of the tile that is rows
};
Layout ScalesLayout(const ScalesAtOnce& of, int warpgroups, WgSplit split, int64_t across);
// Blocks that the threads of a quad hold beside each other, of so many of a warp.
int64_t BlocksOfQuad(bool left, int64_t blocks);
// How many of K share a scale, of a left operand and its scales; an e2m1x2 is two of K.
int64_t BlockOfScale(const Type& operand, const Type& scales);
// "m", "n", "none".
const char* NameOf(WgSplit split);
// How the warpgroups of a role share a tile [M, N] that lies in `layout`, if each thread has rows
// of it as tensor memory has lanes; nullopt: it does not.
std::optional<WgSplit> SplitOfLanes(MatrixUnit unit, const Type& tile, const Layout& layout,
                                    int warpgroups);

// Place: how the warpgroups of a role share a product, and who holds what of its accumulator.
struct Accumulator {
  WgSplit split = WgSplit::kNone;
  Layout layout;
};
Accumulator Place(MatrixUnit unit, const ProductShape& shape, int warpgroups);
// The layout that an accumulator of m × n columns has with that split; columns are padded.
// `across`: how many warps of a warpgroup stand side by side along N (1, 2 or 4); the others are
// stacked along M.
Layout AccumulatorOf(MatrixUnit unit, DType dtype, int64_t m, int64_t n, int warpgroups,
                     WgSplit split, int64_t across = 1);
// The grid of a warpgroup's warps whose operands take the fewest bytes of shared memory for each
// step of K: every warp reads the rows and the columns of its own part. 1 where the unit reads
// operands in place.
int64_t WarpsAcross(MatrixUnit unit, const ProductShape& shape, int warpgroups, WgSplit split);

// Stage: rows (of M or N) and bytes of K that the instructions touch, padding included, and what
// the types allow.
int64_t StagedRows(MatrixUnit unit, DType dtype, int64_t m);     // of A
int64_t StagedColumns(MatrixUnit unit, DType dtype, int64_t n);  // of B
int64_t StagedDepth(MatrixUnit unit, DType dtype, int64_t k);    // elements
bool MayBeMnMajor(MatrixUnit unit, DType dtype);
// The layout in which a tile [M, K] is the left operand as it is, in registers; nullopt: it must
// lie in shared memory. Of 16 bits it is that of accumulators, of 8 bits quads have fours of them.
std::optional<Layout> LeftInRegisters(MatrixUnit unit, const Type& tile, int warpgroups,
                                      WgSplit split);

}  // namespace tilec::ir
