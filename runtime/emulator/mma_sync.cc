// All mma.sync fragments are one picture: register q of lane l holds the 32 bits at byte
// 4·(l%4) + 16·(q/2) of row l/4 + 8·(q%2) of A, and byte 4·(l%4) + 16·q of column l/4 of B.
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

bool LdMatrix(int count, bool transpose, const uint32_t* addresses, const uint8_t* smem,
              uint32_t smem_size, uint32_t* const* registers, MatrixFault* fault) {
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

bool StMatrix(int count, bool transpose, const uint32_t* addresses, uint8_t* smem,
              uint32_t smem_size, const uint32_t* const* registers, MatrixFault* fault) {
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
