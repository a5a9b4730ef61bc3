// What a tcgen05.mma is told to do: the qualifiers of the instruction, its instruction descriptor
// (PTX ISA 9.7.16.4.2, tables 42 to 44) and its shared memory descriptors (9.7.16.4.1, table 40).
// Decoding is validation: every field, every reserved bit and every combination of table 39
// (shapes), 51 (transposition, negation), 52 (N of transposed 8-bit B), 54 (swizzles) and 57
// (scales).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tilec::runtime::emulator {

enum class MmaKind : uint8_t { kF16, kTf32, kF8f6f4, kI8, kMxf8f6f4, kMxf4, kMxf4nvf4 };
std::string_view MmaKindName(MmaKind kind);  // "f16"
bool IsScaled(MmaKind kind);

// Element formats of A and B.
enum class MmaFormat : uint8_t { kF16, kBf16, kTf32, kE4m3, kE5m2, kE2m3, kE3m2, kE2m1, kU8, kS8 };
std::string_view MmaFormatName(MmaFormat format);

enum class MmaResult : uint8_t { kF16, kF32, kS32 };

// The qualifiers.
struct MmaForm {
  MmaKind kind = MmaKind::kF16;
  uint8_t group = 1;   // .cta_group
  uint8_t scales = 0;  // per row and instruction: 1, 2, 4 (.scale_vec::NX); 0: not scaled
  bool ws = false;
  bool a_in_tensor = false;
};

// A decoded instruction descriptor.
struct MmaTask {
  MmaForm form;
  MmaFormat a = MmaFormat::kF16, b = MmaFormat::kF16;
  MmaResult d = MmaResult::kF32;
  uint32_t m = 0, n = 0;
  bool negate_a = false, negate_b = false;
  bool transpose_a = false, transpose_b = false;  // MN-major in shared memory
  bool saturate = false;
  bool scale_ue4m3 = false;  // else ue8m0
  uint8_t scale_id_a = 0, scale_id_b = 0;

  // Elements of one instruction along K: 32 bytes of A and B (table 39).
  uint32_t k() const;
  // Elements in 16 bytes of shared memory. Formats of 4 and 6 bits lie 16 to 16 bytes there,
  // padded, but for the mxf4 kinds (9.7.16.10.4).
  uint32_t per_chunk() const { return k() / 2; }
};

// False: `error` says which field is wrong, and how.
bool DecodeMmaTask(const MmaForm& form, uint32_t bits, MmaTask* out, std::string* error);

// A decoded shared memory descriptor.
struct TensorDescriptor {
  uint32_t start = 0, lbo = 0, sbo = 0;  // bytes
  uint32_t base_offset = 0;              // lines of 128 bytes
  uint8_t mode = 0;  // 0 none, 1 128 B in atoms of 32 B, 2 128 B, 4 64 B, 6 32 B

  // Bytes of a row of the swizzle's pattern; 16 without one.
  uint32_t span() const;
  // The byte where the 16 bytes at `offset` of the unswizzled layout lie.
  uint32_t Address(uint32_t offset) const;
  // K-major: 16-byte chunk c (0, 1) of the K step of row r (of M or N).
  uint32_t KMajor(uint32_t r, uint32_t c) const;
  // MN-major: the chunk of MN elements [c · per chunk, (c + 1) · per chunk) at k.
  uint32_t MnMajor(uint32_t c, uint32_t k) const;
};

bool DecodeTensorDescriptor(uint64_t bits, TensorDescriptor* out, std::string* error);
// Can an operand that is MN-major, or not, of this kind have the descriptor's swizzle (table 54)?
bool SwizzleFits(const MmaTask& task, bool mn_major, const TensorDescriptor& d, std::string* error);

}  // namespace tilec::runtime::emulator
