// mma.sync with block scaling: D = (A · SA) (B · SB) + C, kinds mxf8f6f4, mxf4 and mxf4nvf4.
//
// Written from the PTX ISA 9.1: "Block Scaling for mma.sync" (9.7.14.3), the fragments of m16n8k32
// and m16n8k64 (9.7.14.5.10 and .11), and the containers of 4 and 6 bits (9.7.14.5.14). That lanes
// 0 and 2 of a quad give the scale of row l/4 and lanes 1 and 3 that of row l/4 + 8 is a picture
// there (figure 43); CUTLASS writes it as a layout (mma_traits_sm120.hpp, SFALayout).
//
//   exact  all scaled products and C are added exactly and rounded once, to nearest even
//   fast   the products of a block exactly, blocks one after the other in f32, starting from C
//
// Nobody published what the silicon of sm_120 rounds, and none was compared: where f32 holds all
// partial sums, both give what every unit must.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/emulator/element.h"
#include "runtime/emulator/tcgen05_descriptor.h"

namespace tilec::runtime::emulator {

struct ScaledShape {
  MmaFormat a = MmaFormat::kE4m3;
  MmaFormat b = MmaFormat::kE4m3;
  bool four_bits = false;  // m16n8k64, two elements in a byte; else m16n8k32
  bool ue4m3 = false;      // type of the scales; else ue8m0
  uint8_t scales = 1;      // .scale_vec::NX

  int k() const { return four_bits ? 64 : 32; }
};

// Which byte of the scales' registers, and which lanes of a quad give them.
struct ScaleSelectors {
  uint16_t byte_a = 0, thread_a = 0, byte_b = 0, thread_b = 0;
};
// The ISA's table 37; what else has no defined behaviour.
bool ValidateSelectors(const ScaledShape& shape, const ScaleSelectors& s, std::string* error);

// The registers of a warp: every pointer is at the 32 lanes of one. d may alias anything.
struct ScaledRegisters {
  const uint32_t *const *a, *const *b, *const *c;
  const uint32_t *scales_a, *scales_b;
  uint32_t* const* d;
};
void MmaScaled(const ScaledShape& shape, const ScaledRegisters& registers,
               const ScaleSelectors& selectors, Arithmetic arithmetic);

}  // namespace tilec::runtime::emulator
