// Which shared-memory buffer a product operand, a staged load or a staged store wants, and which
// accesses TMA can make. Facts of hopper.md §3–4 and §13 in one place.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "ir/uses.h"

namespace tilec::ir {

// Does the machine's matrix unit take this product's dtypes?
bool IsOnUnit(const Function& fn, const Op& dot, const Target& target);
// Does the product add to what a loop carries, or to what another product makes? Such products are
// awaited together.
bool AddsUp(const Function& fn, const Op& dot);
// The products of an iteration that add, one after another, to a value that the loop carries and
// that nobody else looks at, in order; none: something else happens to it.
std::vector<OpId> AddedUp(const Function& fn, const Uses& uses, const Op& loop, size_t carried);
// Is the value computed element by element from nothing but loaded tiles, constants and scalars, so
// that no product is awaited for it? What a loop carries may be made of anything. `turn`: only of
// what is loaded and computed in this block.
bool MadeOfLoads(const Function& fn, ValueId v, BlockId turn = {});

// Does a tile that threads hold so become a left operand in registers without shared memory?
bool BecomesLeft(MatrixUnit unit, const Type& tile, const Layout& held, int warpgroups,
                 WgSplit split);

// What readers want of a buffer that holds a tile_rows x tile_cols tile.
struct BufferNeed {
  int64_t tile_rows = 0;
  int64_t tile_cols = 0;
  int64_t rows = 0;  // at least so many rows and columns are read
  int64_t cols = 0;
  bool cols_contracted = false;  // cells right of the tile must read as zero
  bool rows_contracted = false;  // … below the tile
  int64_t col_piece = 0;  // not 0: warpgroups start at its multiples, so panels must not cross them
  bool plain = false;     // row-major without panels or swizzle (multiply-add products)

  // Both readers' wishes; false if they exclude each other.
  bool Merge(const BufferNeed& other);
  // Swizzle: as wide as whole panels of the contracted dim allow; free dims are padded up.
  SmemLayout Layout(DType dtype) const;
  // Must the cells around the tile be zeroed once (nothing else may then use the bytes)?
  bool NeedsZero(DType dtype) const;
  // Can boxes fill it without writing a wrong value where zero must stand?
  bool TmaFits(DType dtype) const;
};

// Why threads bring the tile, and no copy that runs ahead, in words; "": because of what reads it.
std::string WhyByThreads(const Function& fn, const Op& load, const Target& target);

// A load, store or atomic of a tile whose rows and columns are two ranges, the columns contiguous,
// from a tensor whose base and strides TMA takes. Stores and atomics only if clipping to the range
// is clipping to the tensor.
struct TileAccess {
  int row_dim = -1;
  int col_dim = -1;
};
// The same for a load that threads copy while others compute (cp.async), where there is no copy
// engine.
struct ThreadCopy {
  TileAccess tile;
  int64_t bytes = 0;  // of one copy
};
std::optional<ThreadCopy> ThreadCopyAccess(const Function& fn, const Op& load,
                                           const Target& target);
// Likewise beside a copy engine, for one row that begins where the engine takes none: a warp copies
// it; and how it lies, in panels of a chunk for each lane.
std::optional<ThreadCopy> RowCopyAccess(const Function& fn, const Op& load, const Target& target);
SmemLayout RowLayout(const Type& row);
std::optional<TileAccess> TmaAccess(const Function& fn, const Op& op, const Target& target);
// Do threads load this tile whatever its tensor is: by positions one by one, or because its rows
// begin where no copy may?
bool ByThreads(const Function& fn, const Op& load);

// What TMA and threads can do alike. (It cannot order f32; threads can do no more with
// 16 bits than add.)
bool EngineCombines(const std::string& kind, DType dtype);

// Exact panels for a TMA store (no column may be written twice).
// How a tile that is read more than once lies in shared memory; nullopt if TMA cannot bring it.
std::optional<SmemLayout> RereadLayout(const Type& tile);

// Elements of a row that threads may load or store together, as far as the tensor's alignment and
// the tile's bounds allow; at most 16 bytes.
constexpr int64_t kAccessBytes = 16;
int64_t AccessLimit(const Function& fn, const Op& op);
// Elements of a thread in a row, by what is accessed so. As wide as 16 bytes of the narrowest
// dtype, or less where that is cheaper.
struct RowAccess {
  int64_t elements = 0, bytes = 1;  // of the tile; of an element
  int64_t limit = 1;                // AccessLimit
};
int64_t AccessVector(const std::vector<RowAccess>& accesses);

// Can TMA store the tile, out of a buffer that threads write?
bool CanStage(const Function& fn, const Op& store, const Target& target);
// Is the tile a transpose of what threads have, which they put into that buffer transposed?
bool StoresTransposed(const Function& fn, const Op& store, const Target& target);
std::optional<SmemLayout> StagingLayout(const Type& tile);
// Halves of an odd number of 16 bytes each: no swizzle, no conflicts, two boxes where those of 32
// bytes are eleven (176 columns of 16 bits). For tensors whose rows begin amid sectors: a piece of
// a row is of one sector more than its bytes.
std::optional<SmemLayout> StagingInHalves(const Type& tile);

// The layout of a tile that keeps only dims keep[i] of `layout`'s (as new dim i).
Layout KeepDims(const Layout& layout, const std::vector<int>& keep);
// Inserts dims of extent 1 so that `layout` of Squeezed(shape) becomes one of shape.
Layout Unsqueeze(const Layout& layout, const std::vector<int64_t>& shape);

}  // namespace tilec::ir
