// Tensor maps and the tiled TMA.
//
// A tensor map is opaque to programs, so the emulator has its own encoding, with a magic number
// and a checksum: bytes that were not made by EncodeTensorMap are refused instead of guessed at.
// A map is data of the program all the same: a kernel can write one, checksum and all. Every field
// is therefore checked again whenever a map is read, and sizes are computed in 64 bits.
//
// A box is laid down densely, innermost dimension first, from the destination offset (with a
// swizzle wider than the box, rows begin a swizzle span apart); then the *absolute* shared address
// is permuted (SwizzleAddress), so a tile need not begin at a pattern boundary. Elements outside
// the tensor read as zero or as the fill NaN.
//
// Seen on an H200 and reproduced here: the first coordinate must lie on 16 bytes (anything else
// faults); stores cannot begin at negative coordinates (the same fault); stores and reductions are
// clipped to whole 16-byte chunks of a row, so up to 15 bytes behind the tensor's last column are
// changed too; the fill NaN is 0x7ff7 in every 16 bits; tf32 tensors are rounded to nearest even
// when loaded, not when stored.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/device.h"
#include "runtime/emulator/element.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime::emulator {

// Permutation of a shared address for a swizzle of 0, 32, 64 or 128 bytes: of chunks of 16 bytes,
// or in 128 of 32.
constexpr uint32_t SwizzleAddress(uint32_t a, uint32_t swizzle_bytes, uint32_t atom = 16) {
  if (atom == 32) return a ^ ((a >> 7 & 3) << 5);
  uint32_t mask = swizzle_bytes == 128 ? 7 : swizzle_bytes == 64 ? 3 : swizzle_bytes == 32 ? 1 : 0;
  return a ^ ((a >> 7 & mask) << 4);
}

// What a tensor map says, decoded; dimensions innermost first, unused ones of extent 1.
struct TensorMapInfo {
  Element element = Element::kU8;
  uint32_t rank = 0;
  uint64_t base = 0;
  uint64_t dims[5] = {1, 1, 1, 1, 1};
  uint64_t strides[5] = {};  // bytes; strides[0] is the element size
  uint32_t box[5] = {1, 1, 1, 1, 1};
  uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  uint32_t swizzle_bytes = 0, swizzle_atom = 16;
  int32_t packed = 1;  // elements of four bits: the box has bytes, coordinates count two in each
  bool fill_nan = false;
  // Of a copy that takes four rows from anywhere: a box of one row of a tensor of two dimensions is
  // one of these four, and coords[1] is not looked at.
  bool four_rows = false;
  int32_t rows[4] = {};

  // Elements of the box in shared memory along dimension i: ceil(box / element stride).
  uint32_t extent(int i) const { return (box[i] + element_strides[i] - 1) / element_strides[i]; }
  // Bytes a transaction counts: all elements of the box, outside ones included.
  // A box may be larger than any shared memory: up to 2^43 bytes.
  uint64_t box_bytes() const;
  uint32_t row_bytes() const { return extent(0) * ElementBytes(element); }
  // Distance of rows in shared memory, and the bytes the box occupies there.
  uint32_t row_pitch() const { return row_bytes() < swizzle_bytes ? swizzle_bytes : row_bytes(); }
  uint64_t smem_bytes() const { return box_bytes() / row_bytes() * row_pitch(); }
};

// Checks every rule of the hardware's encoder; all broken rules are reported, not only the first.
Result<TensorMap> EncodeTensorMap(const TensorMapDesc& desc, DiagSink& diags);
// False: these 128 bytes are no tensor map of this emulator, or break a rule of EncodeTensorMap.
// `why` (may be null) gets the field and its value, as the end of "the tensor map at 0x… ".
bool DecodeTensorMap(const uint8_t* bytes, TensorMapInfo* info, std::string* why = nullptr);

// What `tensormap.replace` writes, in the words and numbers of the PTX ISA.
enum class MapField : uint8_t {
  kGlobalAddress,
  kRank,  // less one
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kElementType,
  kInterleave,
  kSwizzle,
  kSwizzleAtomicity,
  kFill,
};
// 128 bytes of zeros become a map of one dimension before the first field is written: compilers
// begin with zeros. Values that make no map are kept and found when the map is used, as are those
// that the emulator lacks. False: no map and no zeros; `why` as above.
bool ReplaceInTensorMap(uint8_t* bytes, MapField field, uint32_t ordinal, uint64_t value,
                        std::string* why);

// May `bytes` bytes at `address` of global memory be read (or written)? A pure question, asked once
// per row of a box before the row is touched; a second time for the bytes behind a clipped row of a
// store or reduction, which are left alone when the answer is no.
using GlobalCheck = std::function<bool(uint64_t address, uint64_t bytes, bool write)>;

enum class TmaError : uint8_t {
  kNone,
  kSmemRange,        // the box does not fit between smem_offset and smem_size
  kSmemAlign,        // smem_offset is no multiple of 128
  kGlobal,           // GlobalCheck said no; see address and bytes
  kCoordinateAlign,  // the first coordinate is not on 16 bytes
  kNegativeStore,    // a store starts at a negative coordinate
  kReduceType,       // reduction not defined for the element type
};

struct TmaResult {
  TmaError error = TmaError::kNone;
  uint64_t bytes = 0;    // of the full box: what complete_tx counts; fits 32 bits where ok()
  uint64_t address = 0;  // kGlobal: the row refused
  uint64_t row_bytes = 0;
  int dimension = -1;  // kNegativeStore
  bool ok() const { return error == TmaError::kNone; }
};

// For messages; complete sentence fragments with numbers.
std::string Describe(const TmaResult& result, const TensorMapInfo& map, uint32_t smem_offset);

enum class TmaReduceOp : uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

// `smem` is the CTA's shared memory from offset 0. `coords` has map.rank entries.
TmaResult TmaLoad(const TensorMapInfo& map, const int32_t* coords, uint8_t* smem,
                  uint32_t smem_size, uint32_t smem_offset, const GlobalCheck& check);
// Where a box is stored from.
struct BoxSource {
  const uint8_t* smem;
  uint32_t smem_size, smem_offset;
};
TmaResult TmaStore(const TensorMapInfo& map, const int32_t* coords, const BoxSource& from,
                   const GlobalCheck& check);
TmaResult TmaReduce(const TensorMapInfo& map, const int32_t* coords, TmaReduceOp op,
                    const BoxSource& from, const GlobalCheck& check);

// The checks of the three functions above without moving anything: where this says kNone, a copy
// with the same arguments is inside of everything as long as allocations stay what they are.
// `reduces`: the operation of a reduction, which is a store.
struct BoxMove {
  bool store = false;
  std::optional<TmaReduceOp> reduces;
};
TmaResult TmaCheck(const TensorMapInfo& map, const int32_t* coords, const BoxMove& move,
                   uint32_t smem_size, uint32_t smem_offset, const GlobalCheck& check);

// Is `op` defined for tensors of this element type?
bool ReduceDefined(TmaReduceOp op, Element e);
// Element-wise `count` times: global[i] = op(global[i], source[i]), each atomically. Also for 1-D
// bulk reductions, whose f32 addition is documented to flush subnormals (that of the tensor form
// does not, seen on an H200).
void ReduceRow(TmaReduceOp op, Element e, uint8_t* global, const uint8_t* source, uint64_t count,
               bool flush = false);

// The global bytes of a box that lie inside the tensor, row by row.
void ForEachGlobalRow(const TensorMapInfo& map, const int32_t* coords,
                      const std::function<void(uint64_t address, uint64_t bytes)>& f);

// The shared-memory chunks of a box, for shadow memory: calls f(offset, bytes) with maximal runs.
void ForEachBoxRun(const TensorMapInfo& map, uint32_t smem_offset,
                   const std::function<void(uint32_t offset, uint32_t bytes)>& f);

}  // namespace tilec::runtime::emulator
