// Tensor memory of one CTA: 128 lanes x 512 columns of 32-bit words (PTX ISA 9.7.16.1), who has
// which columns, and which word of it each register of tcgen05.ld and tcgen05.st is (9.7.16.2.3).
//
// A column's lanes lie side by side here, because everything that works on tensor memory works on
// many lanes of one column: a register of `.32x32b` is 32 of them, a product has a row per lane.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilec::runtime::emulator {

inline constexpr uint32_t kTensorLanes = 128;
inline constexpr uint32_t kTensorColumns = 512;
inline constexpr uint32_t kTensorUnit = 32;  // columns: the unit of allocation

// Bits 31–16 of an address are the lane, bits 15–0 the column (9.7.16.1.1).
struct TensorAddress {
  uint32_t lane = 0, column = 0;
  static TensorAddress Of(uint32_t bits) { return {bits >> 16, bits & 0xffff}; }
};

class TensorMemory {
 public:
  TensorMemory() : words_(kTensorLanes * kTensorColumns, kFresh) {}

  // The 128 lanes of a column.
  uint32_t* Column(uint32_t c) { return words_.data() + c * kTensorLanes; }
  const uint32_t* Column(uint32_t c) const { return words_.data() + c * kTensorLanes; }

  // Words that something was written to since their column was allocated.
  void SetWritten(uint32_t column, uint32_t lane, uint32_t lanes);
  bool Written(uint32_t column, uint32_t lane, uint32_t lanes) const;

  // First column of `columns` free ones, a power of two, at a multiple of it; none: no room.
  std::optional<uint32_t> Allocate(uint32_t columns);
  // False: [column, column + columns) is not exactly what one Allocate gave.
  bool Free(uint32_t column, uint32_t columns);
  bool Live(uint32_t column, uint32_t columns) const;  // all inside of allocations?
  uint32_t used() const { return used_; }              // columns
  // "columns [0, 256) and [256, 288)", for messages; "nothing".
  std::string Allocations() const;

 private:
  static constexpr uint32_t kFresh = 0xffffffffu;  // NaN in every format
  struct Range {
    uint32_t column, columns;
  };

  std::vector<uint32_t> words_;
  std::array<std::array<uint64_t, 2>, kTensorColumns> written_{};
  std::vector<Range> live_;  // by column
  uint32_t used_ = 0;
};

enum class TensorShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };
std::optional<TensorShape> TensorShapeFromName(std::string_view name);

// What a tcgen05.ld or tcgen05.st moves between the registers of a warp and tensor memory.
struct TensorTransfer {
  TensorShape shape = TensorShape::k32x32b;
  uint32_t num = 1;         // .xN
  bool packed = false;      // .pack::16b, .unpack::16b: a register is the low halves of two columns
  uint32_t half_split = 0;  // of .16x32bx2: columns from the first access to the second

  bool Valid() const;          // does the ISA have this .num for the shape (table 49)?
  uint32_t registers() const;  // per thread
  uint32_t lanes() const { return shape == TensorShape::k32x32b ? 32 : 16; }
  uint32_t columns() const;  // of one access; .16x32bx2 has two, half_split apart
  uint32_t accesses() const { return shape == TensorShape::k16x32bx2 ? 2 : 1; }
  // Where register r of thread t is, relative to the address; packed: the first of two columns.
  TensorAddress Word(uint32_t r, uint32_t t) const;

  // registers[r]: 32 threads. The address must be one that the accesses stay inside with.
  void Load(const TensorMemory& memory, TensorAddress at, uint32_t* const* registers) const;
  void Store(TensorMemory* memory, TensorAddress at, const uint32_t* const* registers) const;
};

}  // namespace tilec::runtime::emulator
