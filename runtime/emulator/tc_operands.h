// Operands of tensor cores as the kernels of tc_kernels.inc take them: rows and elements widened,
// split into parts, arranged. Here and not in a file of its own, so that it is compiled into the
// loops of tc_math.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "runtime/emulator/dispatch.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tc_kernels.h"
#include "runtime/emulator/tc_math.h"

namespace tilec::runtime::emulator {

constexpr int kMaxRows = 64;
constexpr int kMaxColumns = 256;

constexpr CodeLayout LayoutOf(Element e) {
  switch (e) {
    case Element::kF16: return {10, 5, 15, 0};
    case Element::kBf16: return {7, 8, 127, 0};
    case Element::kTf32: return {10, 8, 127, 13};
    case Element::kE4m3: return {3, 4, 7, 0, false};
    case Element::kE5m2: return {2, 5, 15, 0};
    case Element::kU8:
    case Element::kS8:
    case Element::kU16:
    case Element::kS16:
    case Element::kU32:
    case Element::kS32:
    case Element::kU64:
    case Element::kS64:
    case Element::kF32:
    case Element::kF64: break;
  }
  return {};
}

// Operand codes widened to 32 bits, `count` of them per row.
template <typename T>
void WidenRows(const uint8_t* rows, int row_count, int k, uint32_t* out) {
  for (int r = 0; r < row_count; r++) {
    const uint8_t* row = rows + r * kTileRowBytes;
    for (int i = 0; i < k; i++) {
      T v;
      std::memcpy(&v, row + i * sizeof(T), sizeof(T));
      out[r * k + i] = static_cast<uint32_t>(v);  // s8 sign-extends
    }
  }
}

inline void WidenElements(Element e, const uint8_t* rows, int row_count, int k, uint32_t* out) {
  switch (ElementBytes(e)) {
    case 1:
      if (e == Element::kS8) return WidenRows<int8_t>(rows, row_count, k, out);
      return WidenRows<uint8_t>(rows, row_count, k, out);
    case 2: return WidenRows<uint16_t>(rows, row_count, k, out);
    case 4: return WidenRows<uint32_t>(rows, row_count, k, out);
  }
}

inline const std::array<uint32_t, 256>& Fp8Table(Element e) {
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 2> t;
    for (int i = 0; i < 256; i++) {
      t[0][i] = Bits(E4m3ToF32(static_cast<uint8_t>(i)));
      t[1][i] = Bits(E5m2ToF32(static_cast<uint8_t>(i)));
    }
    return t;
  }();
  return tables[e == Element::kE4m3 ? 0 : 1];
}

// Codes to f32 patterns, in place.
inline void ToF32(Element e, bool negate, uint32_t* v, int count) {
  switch (e) {
    case Element::kBf16:
      for (int i = 0; i < count; i++) v[i] <<= 16;
      break;
    case Element::kTf32:
      for (int i = 0; i < count; i++) v[i] &= 0xffffe000u;
      break;
    case Element::kF16:
      for (int i = 0; i < count; i++) {
        const uint32_t magnitude = v[i] & 0x7fffu;
        const uint32_t finite = Bits(FloatOf(magnitude << 13) * 0x1p112f);
        const uint32_t special = magnitude << 13 | 0x7f800000u;
        v[i] = (magnitude >= 0x7c00 ? special : finite) | (v[i] & 0x8000u) << 16;
      }
      break;
    case Element::kE4m3:
    case Element::kE5m2: {
      const auto& table = Fp8Table(e);
      for (int i = 0; i < count; i++) v[i] = table[v[i]];
      break;
    }
    case Element::kU8:
    case Element::kS8:
    case Element::kU16:
    case Element::kS16:
    case Element::kU32:
    case Element::kS32:
    case Element::kU64:
    case Element::kS64:
    case Element::kF32:
    case Element::kF64: break;
  }
  if (negate) {
    for (int i = 0; i < count; i++) v[i] ^= 0x80000000u;
  }
}

struct NumberParts {
  int32_t *magnitude, *exponent, *sign;
};
inline void ToParts(Element e, bool negate, const uint32_t* codes, int count,
                    const NumberParts& out) {
  const auto [magnitude, exponent, sign] = out;
  const CodeLayout f = LayoutOf(e);
  const int sign_bit = f.mantissa_bits + f.exponent_bits;
  const uint32_t mask = (1u << f.mantissa_bits) - 1;
  const int32_t flip = negate ? -1 : 0;
  for (int i = 0; i < count; i++) {
    const uint32_t code = codes[i] >> f.drop;
    const auto field =
        static_cast<int32_t>(code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
    const auto m = static_cast<int32_t>((code & mask) | (field != 0 ? mask + 1 : 0));
    magnitude[i] = m;
    const int32_t x = (field != 0 ? field : 1) - f.bias;
    exponent[i] = m == 0 ? kZeroExponent : x;
    sign[i] = -static_cast<int32_t>(code >> sign_bit & 1) ^ flip;
  }
}

// [rows][k] → [warp][row group][k][L], each row repeated over four lanes.
template <typename T>
void ExpandA(const T* v, int warps, int k, int lanes, T* out) {
  const int rows_per_group = lanes / 4;
  for (int group = 0; group < warps * 16 / rows_per_group; group++) {
    for (int j = 0; j < rows_per_group; j++) {
      const T* row = v + (group * rows_per_group + j) * k;
      T* to = out + group * k * lanes + j * 4;
      for (int i = 0; i < k; i++) {
        const T x = row[i];
        T* cell = to + i * lanes;
        cell[0] = cell[1] = cell[2] = cell[3] = x;
      }
    }
  }
}

// [n][k] → [n/8][parity][k][4].
template <typename T>
void ArrangeB(const T* v, int n, int k, T* out) {
  for (int block = 0; block < n / 8; block++) {
    for (int parity = 0; parity < 2; parity++) {
      const T* r0 = v + (block * 8 + parity) * k;
      T* to = out + (block * 2 + parity) * k * 4;
      for (int i = 0; i < k; i++) {
        to[i * 4 + 0] = r0[i];
        to[i * 4 + 1] = r0[2 * k + i];
        to[i * 4 + 2] = r0[4 * k + i];
        to[i * 4 + 3] = r0[6 * k + i];
      }
    }
  }
}

constexpr int kMaxK = 32;

}  // namespace tilec::runtime::emulator
