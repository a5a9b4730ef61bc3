// wgmma.mma_async for one warpgroup: descriptors, operand fetch, fragments.
//
// The result is computed when the instruction is issued; what may be observed before wait_group
// is the executor's business. Nothing outside the CTA's shared memory is read whatever the
// descriptor says.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/emulator/element.h"

namespace tilec::runtime::emulator {

struct WgmmaShape {
  int n = 0;
  Element a = Element::kBf16;
  Element b = Element::kBf16;
  Element d = Element::kF32;
  bool a_in_registers = false;
  bool transpose_a = false;  // imm-trans-a: 0 K-major, 1 MN-major
  bool transpose_b = false;
  bool negate_a = false;  // imm-scale-a is −1
  bool negate_b = false;
  bool satfinite = false;

  int k() const { return 32 / static_cast<int>(ElementBytes(a)); }
  // Accumulator registers per thread.
  int accumulators() const { return d == Element::kF16 ? n / 4 : n / 2; }
};

// Is this a combination the ISA has? `error` gets the reason. Call once per instruction at decode.
bool ValidateWgmmaShape(const WgmmaShape& shape, std::string* error);

struct MatrixDescriptor {
  uint32_t start = 0;  // bytes from the start of the CTA's shared memory
  uint32_t lbo = 0;    // bytes
  uint32_t sbo = 0;
  uint32_t swizzle_bytes = 0;  // 0, 32, 64, 128
  uint32_t base_offset = 0;    // lines of 128 bytes
};
// Refuses set reserved bits, and a base offset without a swizzle, in words.
bool DecodeDescriptor(uint64_t bits, MatrixDescriptor* out, std::string* error);

// Registers of the four warps; every pointer is at the 32 lanes of one 32-bit register.
struct WgmmaRegisters {
  uint32_t* acc[4][128] = {};    // [warp][register]
  const uint32_t* a[4][4] = {};  // A fragment when a_in_registers
};

// The shared memory of a CTA.
struct SharedView {
  const uint8_t* bytes;
  uint32_t size;
};
// What the four warps give an instruction beside registers; A's descriptor counts where A is not in
// registers.
struct WgmmaInputs {
  uint64_t desc_a, desc_b;
  bool scale_d;
  SharedView smem;
};

// Runs one instruction. False: the descriptors are wrong or reach outside shared memory; `error`
// says how, and no register has been changed.
bool Wgmma(const WgmmaShape& shape, const WgmmaInputs& inputs, const WgmmaRegisters& registers,
           Arithmetic arithmetic, std::string* error);

// The shared-memory footprint of one descriptor operand (A: 64 rows, B: n rows) in 16-byte chunks,
// for shadow memory and reports: f(offset) per chunk; offsets may lie outside shared memory.
void ForEachOperandChunk(const WgmmaShape& shape, bool operand_b, const MatrixDescriptor& desc,
                         const std::function<void(uint32_t offset)>& f);

}  // namespace tilec::runtime::emulator
