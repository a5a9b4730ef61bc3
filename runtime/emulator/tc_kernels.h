// The inner loops of tc_math, built once per instruction set (tc_kernels.inc). L is the number of
// host lanes: a group of operand A is L/4 rows, each repeated over four lanes; a group of B is
// four columns of one parity.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/emulator/tc_math.h"

namespace tilec::runtime::emulator {

// Bit layout of a floating-point operand type.
struct CodeLayout {
  int mantissa_bits;
  int exponent_bits;
  int bias;
  int drop;  // low bits of the code the tensor core does not see
  bool infinities = true;
};

// One operand prepared for exact arithmetic: unsigned significands, exponents, sign masks (0, −1);
// the numbers themselves. `plain` arithmetic reads the numbers and `narrow` exponents, the other
// kind the rest.
struct ExactParts {
  const int32_t* magnitude = nullptr;
  const int32_t* exponent = nullptr;
  const int32_t* sign = nullptr;
  const float* value = nullptr;
  const int16_t* narrow =
      nullptr;  // exponents; of A, two groups of rows beside each other: [k][2 · L]
};

struct ExactRule {
  int product_shift;  // left shift that puts a product on F fraction bits
  int c_left;         // the same for C (one of the two is zero)
  int c_right;
  int fraction_bits;  // F
  int result_bits;    // mantissa bits kept in the result: 23, or 13 for fp8
  bool to_f16;        // leave a value rounded to odd, to be rounded to f16 by the caller
};

// Exponent of a zero: below everything, also added to any other.
inline constexpr int32_t kZeroExponent = -4096;

// Numbers with exponents between these, and zeros, are plain: products are normal in f32, and so is
// the power of two that brings any of them to F fraction bits.
inline constexpr int32_t kPlainLow = -45, kPlainHigh = 60;

// acc points to [warps][kMaxAccumulators] registers; n8 is the number of 8-column blocks. A is
// [warp][16 rows / (L/4)][k][L], B is [n8][2][k][4].
using FastKernel = void (*)(const float* a, const float* b, int warps, int n8, int k,
                            bool accumulate, uint32_t* const (*acc)[kMaxAccumulators]);
using ExactKernel = void (*)(const ExactParts& a, const ExactParts& b, const ExactRule& rule,
                             bool plain, int warps, int n8, int k, bool accumulate,
                             uint32_t* const (*acc)[kMaxAccumulators]);
using IntKernel = void (*)(const int32_t* a, const int32_t* b, int warps, int n8, int k,
                           bool accumulate, bool saturate,
                           uint32_t* const (*acc)[kMaxAccumulators]);

// Narrow exponents of numbers, L at a time; false if one is not plain, infinite or NaN.
using NarrowKernel = bool (*)(const CodeLayout& layout, const uint32_t* codes, int count,
                              int16_t* exponents);

struct TcKernels {
  int lanes;
  FastKernel fast;
  ExactKernel exact;
  IntKernel integer;
  NarrowKernel narrow;
};

extern const TcKernels kTcKernelsBase;
#if defined(__x86_64__)
extern const TcKernels kTcKernelsAvx2;
extern const TcKernels kTcKernelsAvx512;
#endif

}  // namespace tilec::runtime::emulator
