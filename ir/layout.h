// Register layouts: which thread and register of a role hold which element of a tile.
//
// A layout is two mixed-radix numbers. The thread index (0 … threads−1, counted from the role's
// first thread) is split into `thread` digits, fastest first; the register index into `reg` digits,
// fastest first. Each digit adds digit·stride to one coordinate:
//
//   coordinate[d] = Σ over digits with dim d of  digit · stride
//
// A thread digit with dim −1 replicates: threads that differ only in it hold the same elements.
// Extents need not be powers of two and the covered box may exceed the tile: registers whose
// coordinate lies outside the tile's shape are padding and hold anything (readers mask them).
//
// Accumulators of products, blocked layouts for coalesced access and slices of both
// are all of this form, so one set of functions serves every tile.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/type.h"

namespace tilec::ir {

struct LayoutDigit {
  int64_t extent = 1;
  int dim = -1;  // −1: replicated (thread digits only)
  int64_t stride = 0;
  bool operator==(const LayoutDigit&) const = default;
};

struct Layout {
  int rank = 0;
  std::vector<LayoutDigit> thread;  // product of extents = threads of the role
  std::vector<LayoutDigit> reg;
  bool operator==(const Layout&) const = default;

  int64_t threads() const;
  int64_t regs() const;
  // Coordinate of register `reg` of thread `thread`.
  std::vector<int64_t> Coord(int64_t thread_index, int64_t reg_index) const;
  // The part of the coordinate that comes from the register index (add the thread part).
  std::vector<int64_t> RegCoord(int64_t reg_index) const;
  std::vector<int64_t> ThreadCoord(int64_t thread_index) const;
  // One past the largest coordinate covered along each dim.
  std::vector<int64_t> Extent() const;
};

// How the warpgroups of a role share a matrix product.
enum class WgSplit { kM, kN, kNone };  // kNone: every warpgroup computes everything

// The accumulator of an M x N tile over `warpgroups` warpgroups. M is padded to 64·(blocks);
// kM: warpgroup g owns rows [g·64·b, (g+1)·64·b), b = ceil(M / 64 / warpgroups);
// kN: warpgroup g owns columns [g·n, (g+1)·n), n = N/warpgroups rounded up to 8.
// Register order per thread: for each 64-row block, the instruction's order (N/2 registers).
// across: warps of a warpgroup side by side along N (1, 2 or 4); the others are stacked along M.
Layout AccumulatorLayout(int64_t m, int64_t n, int warpgroups, WgSplit split, int64_t across = 1);
// Consecutive elements of the last dim per thread (`vector` of them), lanes along the last dim
// first, then outward; the rest in registers. Any rank >= 1.
Layout BlockedLayout(const std::vector<int64_t>& shape, int64_t vector, int64_t threads);
// A tile that memory is met in rows along `first` by some accesses and along `second` by others
// (one side of a transpose and the other). Every thread has blocks of so many elements along both,
// so that either side moves vectors; a warp's blocks make pieces of rows along both.
struct CrossedDim {
  int dim = 0;
  int64_t vector = 1;  // elements of a thread in a row
  int64_t line = 1;    // elements of a row that should be accessed together
};
Layout CrossedLayout(const std::vector<int64_t>& shape, const CrossedDim& first,
                     const CrossedDim& second, int64_t threads);
// The least power of two that is no smaller.
int64_t CeilPow2(int64_t n);
// Every thread holds the whole (small) tile.
Layout ReplicatedLayout(const std::vector<int64_t>& shape, int64_t threads);
// Layout of a reduction of `layout` over `dim`, or of the operand of a broadcast along it: thread
// digits of `dim` replicate, register digits of `dim` vanish, higher dims move down by one.
Layout SliceLayout(const Layout& layout, int dim);
// Dims renamed: new dim i is old dim perm[i].
Layout PermuteLayout(const Layout& layout, const std::vector<int64_t>& perm);

// Registers of a thread that hold consecutive elements along a dim: `extent` of them, `step` apart.
struct RegisterRun {
  int digit = -1;  // of Layout::reg; −1: there are none
  int64_t extent = 1;
  int64_t step = 1;
};
RegisterRun RunAlong(const Layout& layout, int dim);
// All registers in groups of `vector` consecutive elements; it divides the run's extent.
std::vector<std::vector<int>> RunGroups(const Layout& layout, const RegisterRun& run,
                                        int64_t vector);

// If every element of `to` sits in the same thread under `from` at a register index that is the
// same for all threads: for each register of `to` the register of `from` (−1: padding).
std::optional<std::vector<int>> RegisterMap(const Layout& from, const Layout& to,
                                            const std::vector<int64_t>& shape);

// Where a quad's threads have pairs of columns, 2t and 2t + 1 of each eight, as accumulators lie:
// the layout in which they have fours, 4t … 4t + 3 of each sixteen, as products read 8-bit left
// operands. nullopt: `pairs` is no such layout, or its columns are no sixteens.
std::optional<Layout> FoursOf(const Layout& pairs);

// The same columns interleaved: of n, that of number c is 2c, or 2(c − n/2) + 1 from n/2 on, so
// that a thread has the columns that it has in FoursOf. nullopt: as there.
std::optional<Layout> InterleavedColumns(const Layout& pairs);

// The first `width` columns of a layout whose registers alone tell panels of that width apart.
Layout ColumnsLayout(const Layout& layout, int64_t width);
// The same for columns [first, first + width) of `from`, width being `to`'s last extent: threads
// stay, each register of `to` is one of `from`. −1: the tile's `columns`, whole eights, end before
// (the last slice of cluster_reduce may be shorter).
std::optional<std::vector<int>> ColumnsMap(const Layout& from, const Layout& to, int64_t first,
                                           int64_t columns = INT64_MAX);

// Runs of consecutive threads, `parts` of them of equal length: if run p holds rows (dim 0)
// [p·n, (p+1)·n) and nobody else does, n; else 0.
int64_t RowsOfParts(const Layout& layout, int parts);

// "t(4:1*2 8:0*1 4:0*16) r(2:1*1 2:0*8 32:1*8)": extent:dim*stride, replicated "4:-".
std::string ToText(const Layout& layout);
std::optional<Layout> ParseLayout(std::string_view text, int rank);

}  // namespace tilec::ir
