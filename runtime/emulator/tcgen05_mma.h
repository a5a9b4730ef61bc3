// One tcgen05.mma or tcgen05.cp on the memories it works on: where operands lie in shared and
// tensor memory, where results go (PTX ISA 9.7.16.10.5, layouts A, B, D to G), and the copies
// of 9.7.16.9. Knows nothing of threads, time or order.
//
// The words of layouts, where the ISA has figures only: row and column of a result are those that
// CUTLASS' accumulator traits and Triton's tensor memory encoding agree on; A in tensor memory is
// read from the lane that its result goes to.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "runtime/emulator/tcgen05_math.h"
#include "runtime/emulator/tensor_memory.h"

namespace tilec::runtime::emulator {

// What a CTA of the instruction's one or two has.
struct TensorPart {
  TensorMemory* tensor = nullptr;
  uint8_t* shared = nullptr;
  uint32_t shared_bytes = 0;
};

// Operands as the issuing thread gave them.
struct MmaOperands {
  TensorAddress d, a, scale_a, scale_b;  // `a`: if A is in tensor memory
  TensorDescriptor a_desc, b_desc;
  bool accumulate = false;
  uint32_t scale_c = 0;
  std::array<uint32_t, 8>
      disabled{};  // lanes that keep what they have: bit 32·w + l; [4…7] of the odd CTA
};

// Rows [row, row + rows) and columns [n, n + columns) of the result, in lanes and columns of a CTA.
struct MmaBlock {
  uint32_t cta, lane, row, rows, n, columns, column;
};
std::vector<MmaBlock> BlocksOf(const MmaTask& task, uint32_t lane_base);

// Lanes and columns of tensor memory.
struct TensorBox {
  uint32_t cta, lane, lanes, column, columns;
  enum class Use : uint8_t { kResult, kOperand, kScale } use;
};

// Do addresses fit the layouts: lanes of D, A and scales, N within the columns?
bool CheckMmaAddresses(const MmaTask& task, const MmaOperands& o, std::string* error);
// Every box of tensor memory that the instruction reads or writes; columns may lie outside.
std::vector<TensorBox> BoxesOf(const MmaTask& task, const MmaOperands& o);

// 16-byte chunks of an operand in shared memory of one CTA: f(offset). `per_row` of AsyncChunks.
void ForEachMmaChunk(const MmaTask& task, bool operand_b, const TensorDescriptor& d,
                     const std::function<void(uint32_t offset)>& f);
// Rows of A, or of B, that each CTA holds.
uint32_t RowsPerCta(const MmaTask& task, bool operand_b);
uint32_t ChunksPerRow(const MmaTask& task, bool operand_b);

// False: a descriptor reaches outside of shared memory, or scale factors differ between the
// quarters
// (`scales_differ`).
bool RunMma(const MmaTask& task, const MmaOperands& o, const TensorPart* parts,
            Arithmetic arithmetic, std::string* error, bool* scales_differ);

// ---- tcgen05.cp ----

enum class CopyShape : uint8_t { k128x256b, k128x128b, k64x128b02, k64x128b01, k32x128b };
struct TensorCopy {
  CopyShape shape = CopyShape::k128x256b;
  uint32_t rows() const;     // of the source
  uint32_t columns() const;  // of tensor memory
  // Lanes of row r: how many, and the k-th.
  uint32_t copies() const;
  uint32_t Lane(uint32_t r, uint32_t k) const;
};
bool RunCopy(const TensorCopy& copy, TensorAddress to, const TensorDescriptor& from,
             const TensorPart& part, std::string* error);
void ForEachCopyChunk(const TensorCopy& copy, const TensorDescriptor& from,
                      const std::function<void(uint32_t offset)>& f);

// tcgen05.shift.down: of 8 columns, lanes 32·q … 32·q + 30 move one lane up in number.
void RunShift(TensorAddress at, TensorMemory* memory);

}  // namespace tilec::runtime::emulator
