// Warp-level matrix instructions: mma.sync, ldmatrix, stmatrix.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/emulator/element.h"

namespace tilec::runtime::emulator {

// mma.sync.aligned.m16n8kK.row.col.d.a.b.c
struct MmaShape {
  int k = 16;
  Element a = Element::kBf16;
  Element b = Element::kBf16;
  Element c = Element::kF32;
  Element d = Element::kF32;
  bool satfinite = false;

  int a_registers() const { return 16 * k * static_cast<int>(ElementBytes(a)) / 128; }
  int b_registers() const { return 8 * k * static_cast<int>(ElementBytes(b)) / 128; }
  int d_registers() const { return d == Element::kF16 ? 2 : 4; }
  int c_registers() const { return c == Element::kF16 ? 2 : 4; }
};

// f16 k8/k16, bf16 k8/k16, tf32 k4/k8, s8/u8 k16/k32, e4m3/e5m2 k16/k32.
bool ValidateMmaShape(const MmaShape& shape, std::string* error);

// Every pointer is at the 32 lanes of one register. d may alias c.
void MmaSync(const MmaShape& shape, const uint32_t* const* a, const uint32_t* const* b,
             const uint32_t* const* c, uint32_t* const* d, Arithmetic arithmetic);

struct MatrixFault {
  enum class Kind : uint8_t { kNone, kMisaligned, kRange } kind = Kind::kNone;
  int lane = -1;
  uint32_t address = 0;
};

// Of ldmatrix.m8n8.xCOUNT{.trans}.b16: `addresses` are 32 lanes of offsets into smem (only the
// first 8·count are looked at).
struct MatrixRows {
  int count;
  bool transpose;
  const uint32_t* addresses;
};
// On a fault no register is changed.
bool LdMatrix(const MatrixRows& rows, const uint8_t* smem, uint32_t smem_size,
              uint32_t* const* registers, MatrixFault* fault);
bool StMatrix(const MatrixRows& rows, uint8_t* smem, uint32_t smem_size,
              const uint32_t* const* registers, MatrixFault* fault);

}  // namespace tilec::runtime::emulator
