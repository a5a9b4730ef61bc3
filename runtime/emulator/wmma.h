// The shapes of wmma and what a fragment of one holds.
//
// Which lane holds which element the ISA leaves open: here lane l has the elements l·E … l·E + E −
// 1 of the matrix in row-major order, E being its elements over 32. Fragments of f16 have room for
// twice as many; what is left repeats.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/emulator/ptx_ast.h"

namespace tilec::runtime::emulator {

enum class WmmaRole : uint8_t { kA, kB, kC };

struct WmmaShape {
  std::string_view name;
  uint8_t m, n, k;
};
inline constexpr WmmaShape kWmmaShapes[] = {{"m16n16k16", 16, 16, 16},
                                            {"m32n8k16", 32, 8, 16},
                                            {"m8n32k16", 8, 32, 16},
                                            {"m16n16k8", 16, 16, 8},
                                            {"m8n8k4", 8, 8, 4}};

inline uint32_t WmmaRows(const WmmaShape& s, WmmaRole r) { return r == WmmaRole::kB ? s.k : s.m; }
inline uint32_t WmmaColumns(const WmmaShape& s, WmmaRole r) {
  return r == WmmaRole::kA ? s.k : s.n;
}
inline uint32_t WmmaElements(const WmmaShape& s, WmmaRole r) {  // of a lane
  return WmmaRows(s, r) * WmmaColumns(s, r) / 32;
}
// Elements in a register.
inline uint32_t WmmaPacked(Type t) {
  const int bits = TypeBits(t);
  return bits >= 32 ? 1 : 32 / static_cast<uint32_t>(bits);
}
inline uint32_t WmmaRegisters(Type t, uint32_t elements) {
  return (elements + WmmaPacked(t) - 1) / WmmaPacked(t);
}
inline bool WmmaHas(const WmmaShape& s, WmmaRole r, Type t) {
  const bool c = r == WmmaRole::kC;
  if (s.k == 4) return t == Type::kF64;
  if (s.k == 8) return c ? t == Type::kF32 : t == Type::kTF32;
  if (c) return t == Type::kF16 || t == Type::kF32 || t == Type::kS32;
  return t == Type::kF16 || t == Type::kBF16 || t == Type::kS8 || t == Type::kU8;
}

}  // namespace tilec::runtime::emulator
