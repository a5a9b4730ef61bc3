// All mma.sync fragments are one picture: register q of lane l holds the 32 bits at byte
// 4·(l%4) + 16·(q/2) of row l/4 + 8·(q%2) of A, and byte 4·(l%4) + 16·q of column l/4 of B.
//
// Hopper has no fp8 mma.sync of its own (only wgmma): the instruction is two f16 steps, one over
// the k with k mod 4 < 2 and one over the rest, starting from zero, and an addition of C. The exact
// mode does the same; this rule was fitted to outputs of an H200.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mma_sync.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/emulator/floats.h"
#include "runtime/emulator/tc_math.h"

namespace tilec::runtime::emulator {

bool ValidateMmaShape(const MmaShape& s, std::string* error) {
  bool types_ok = false;
  int step = 0;  // smallest k; twice that is allowed too
  switch (s.a) {
    case Element::kF16:
    case Element::kBf16:
      step = 8;
      types_ok =
          s.b == s.a && ((s.c == Element::kF32 && s.d == Element::kF32) ||
                         (s.a == Element::kF16 && s.c == Element::kF16 && s.d == Element::kF16));
      break;
    case Element::kTf32:
      step = 4;
      types_ok = s.b == s.a && s.c == Element::kF32 && s.d == Element::kF32;
      break;
    case Element::kE4m3:
    case Element::kE5m2:
      step = 16;
      types_ok = (s.b == Element::kE4m3 || s.b == Element::kE5m2) && s.c == s.d &&
                 (s.d == Element::kF32 || s.d == Element::kF16);
      break;
    case Element::kS8:
    case Element::kU8:
      step = 16;
      types_ok = (s.b == Element::kS8 || s.b == Element::kU8) && s.c == Element::kS32 &&
                 s.d == Element::kS32;
      break;
    case Element::kU16:
    case Element::kS16:
    case Element::kU32:
    case Element::kS32:
    case Element::kU64:
    case Element::kS64:
    case Element::kF32:
    case Element::kF64: break;
  }
  if (!types_ok) {
    *error = fmt::format("mma.sync has no types {}.{}.{}.{}", ElementName(s.d), ElementName(s.a),
                         ElementName(s.b), ElementName(s.c));
    return false;
  }
  if (s.k != step && s.k != 2 * step) {
    *error = fmt::format("mma.sync m16n8k{} does not exist for {}: k is {} or {}", s.k,
                         ElementName(s.a), step, 2 * step);
    return false;
  }
  if (s.satfinite && s.d != Element::kS32) {
    *error = ".satfinite belongs to integer mma.sync only";
    return false;
  }
  return true;
}

namespace {

uint16_t Fp8ToF16(Element e, uint8_t code) {
  return F32ToF16(e == Element::kE4m3 ? E4m3ToF32(code) : E5m2ToF32(code));
}

// Elements k of a row with (k mod 4) / 2 == half, as f16.
void WidenHalf(Element e, int k, int half, int rows, const uint8_t* from, uint8_t* to) {
  for (int r = 0; r < rows; r++) {
    int n = 0;
    for (int i = half * 2; i < k; i += i % 2 == 0 ? 1 : 3) {
      const uint16_t v = Fp8ToF16(e, from[r * kTileRowBytes + i]);
      std::memcpy(to + r * kTileRowBytes + 2 * n++, &v, 2);
    }
  }
}

void MmaFp8Exact(const MmaShape& s, const uint8_t* a, const uint8_t* b, const uint32_t* const* c,
                 uint32_t* const* d) {
  uint32_t sum[4][kLanes];
  uint32_t* acc[1][kMaxAccumulators] = {{sum[0], sum[1], sum[2], sum[3]}};
  for (int half = 0; half < 2; half++) {
    alignas(64) uint8_t wide_a[16 * kTileRowBytes] = {};
    alignas(64) uint8_t wide_b[8 * kTileRowBytes] = {};
    WidenHalf(s.a, s.k, half, 16, a, wide_a);
    WidenHalf(s.b, s.k, half, 8, b, wide_b);
    const TileMath math = {.a = Element::kF16,
                           .b = Element::kF16,
                           .d = s.d,
                           .warps = 1,
                           .n = 8,
                           .k = s.k / 2,
                           .accumulate = half == 1,
                           .arithmetic = Arithmetic::kExact};
    MultiplyTile(math, wide_a, wide_b, acc);
  }
  for (int i = 0; i < s.d_registers(); i++) {
    for (int l = 0; l < kLanes; l++) {
      const uint32_t x = sum[i][l], y = c[i][l];
      if (s.d == Element::kF32) {
        d[i][l] = Bits(AddF32(FloatOf(x), FloatOf(y)));
        continue;
      }
      constexpr uint16_t kOne = 0x3c00;
      const uint32_t lo = FmaF16(static_cast<uint16_t>(x), kOne, static_cast<uint16_t>(y));
      const uint32_t hi =
          FmaF16(static_cast<uint16_t>(x >> 16), kOne, static_cast<uint16_t>(y >> 16));
      d[i][l] = lo | hi << 16;
    }
  }
}

}  // namespace

void MmaSync(const MmaShape& s, const uint32_t* const* a, const uint32_t* const* b,
             const uint32_t* const* c, uint32_t* const* d, Arithmetic arithmetic) {
  alignas(64) uint8_t rows_a[16 * kTileRowBytes] = {};
  alignas(64) uint8_t rows_b[8 * kTileRowBytes] = {};
  for (int q = 0; q < s.a_registers(); q++) {
    for (int l = 0; l < kLanes; l++) {
      const int row = l / 4 + 8 * (q % 2);
      std::memcpy(rows_a + row * kTileRowBytes + 16 * (q / 2) + 4 * (l % 4), &a[q][l], 4);
    }
  }
  for (int q = 0; q < s.b_registers(); q++) {
    for (int l = 0; l < kLanes; l++) {
      std::memcpy(rows_b + l / 4 * kTileRowBytes + 16 * q + 4 * (l % 4), &b[q][l], 4);
    }
  }
  if (arithmetic == Arithmetic::kExact && IsFloat(s.a) && ElementBytes(s.a) == 1) {
    return MmaFp8Exact(s, rows_a, rows_b, c, d);
  }
  uint32_t* acc[1][kMaxAccumulators] = {};
  for (int i = 0; i < s.d_registers(); i++) {
    acc[0][i] = d[i];
    if (d[i] != c[i]) std::memmove(d[i], c[i], kLanes * sizeof(uint32_t));
  }
  const TileMath math = {.a = s.a,
                         .b = s.b,
                         .d = s.d,
                         .warps = 1,
                         .n = 8,
                         .k = s.k,
                         .satfinite = s.satfinite,
                         .arithmetic = arithmetic};
  MultiplyTile(math, rows_a, rows_b, acc);
}

namespace {

bool CheckAddresses(int count, const uint32_t* addresses, uint32_t smem_size, MatrixFault* fault) {
  for (int lane = 0; lane < 8 * count; lane++) {
    const uint32_t at = addresses[lane];
    if (at % 16 != 0) return *fault = {MatrixFault::Kind::kMisaligned, lane, at}, false;
    if (smem_size < 16 || at > smem_size - 16) {
      return *fault = {MatrixFault::Kind::kRange, lane, at}, false;
    }
  }
  return true;
}

}  // namespace

bool LdMatrix(const MatrixRows& rows, const uint8_t* smem, uint32_t smem_size,
              uint32_t* const* registers, MatrixFault* fault) {
  const auto [count, transpose, addresses] = rows;
  if (!CheckAddresses(count, addresses, smem_size, fault)) return false;
  uint32_t out[4][kLanes];  // addresses may be one of the destination registers
  for (int j = 0; j < count; j++) {
    uint16_t m[8][8];
    for (int r = 0; r < 8; r++) std::memcpy(m[r], smem + addresses[8 * j + r], 16);
    for (int l = 0; l < kLanes; l++) {
      const int r = l / 4, c = 2 * (l % 4);
      const uint32_t lo = transpose ? m[c][r] : m[r][c];
      const uint32_t hi = transpose ? m[c + 1][r] : m[r][c + 1];
      out[j][l] = lo | hi << 16;
    }
  }
  for (int j = 0; j < count; j++) std::memcpy(registers[j], out[j], sizeof out[j]);
  return true;
}

bool StMatrix(const MatrixRows& rows, uint8_t* smem, uint32_t smem_size,
              const uint32_t* const* registers, MatrixFault* fault) {
  const auto [count, transpose, addresses] = rows;
  if (!CheckAddresses(count, addresses, smem_size, fault)) return false;
  for (int j = 0; j < count; j++) {
    uint16_t m[8][8];
    for (int l = 0; l < kLanes; l++) {
      const int r = l / 4, c = 2 * (l % 4);
      const auto lo = static_cast<uint16_t>(registers[j][l]);
      const auto hi = static_cast<uint16_t>(registers[j][l] >> 16);
      (transpose ? m[c][r] : m[r][c]) = lo;
      (transpose ? m[c + 1][r] : m[r][c + 1]) = hi;
    }
    for (int r = 0; r < 8; r++) std::memcpy(smem + addresses[8 * j + r], m[r], 16);
  }
  return true;
}

}  // namespace tilec::runtime::emulator
