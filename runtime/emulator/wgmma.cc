// Operands are fetched as rows of 32 bytes along K, whatever their type: one K step of every wgmma
// is 32 bytes, two 16-byte chunks, and the register fragment of A is the same 32-bit grid for all
// types. Only MN-major operands (16-bit types) need a transposition, in 8×8 blocks.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/wgmma.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/emulator/tc_math.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint32_t kWgmmaAddressMask = 0x3ffff;  // descriptors address 18 bits of shared memory

bool Is8BitFloat(Element e) { return e == Element::kE4m3 || e == Element::kE5m2; }
bool Is8BitInteger(Element e) { return e == Element::kS8 || e == Element::kU8; }
bool Is16BitFloat(Element e) { return e == Element::kF16 || e == Element::kBf16; }

// Offsets of 16-byte chunks before the permutation, relative to the start of the operand.
struct ChunkLayout {
  MatrixDescriptor d;
  uint32_t span;  // bytes of a row of the swizzle pattern: 16, 32, 64, 128

  explicit ChunkLayout(const MatrixDescriptor& desc)
      : d(desc), span(desc.swizzle_bytes == 0 ? 16 : desc.swizzle_bytes) {}

  // K-major: row r, 16-byte half c (0, 1) of the K step.
  uint32_t KMajor(uint32_t r, uint32_t c) const {
    return r % 8 * span + r / 8 * d.sbo + c * (d.swizzle_bytes == 0 ? d.lbo : 16);
  }
  // MN-major, 16-bit: eight consecutive MN elements (chunk m) at one k.
  uint32_t MnMajor(uint32_t m, uint32_t k) const {
    if (d.swizzle_bytes == 0) return m * d.sbo + k % 8 * 16 + k / 8 * d.lbo;
    const uint32_t chunks = span / 16;
    return m % chunks * 16 + m / chunks * d.lbo + k % 8 * span + k / 8 * d.sbo;
  }
  // The base offset says in which of its lines of 128 bytes the pattern begins: an H200 takes it
  // off the line that the permutation is chosen by, and changes no other bit.
  uint32_t Address(uint32_t offset) const {
    const uint32_t at = (d.start + offset) & kWgmmaAddressMask;
    const uint32_t away = d.base_offset << 7;
    return at ^ SwizzleAddress(at - away, d.swizzle_bytes) ^ (at - away);
  }
};

typedef uint16_t V8 __attribute__((vector_size(16)));

// in[k] holds eight MN elements; out row mn gets element k. `out` rows are kTileRowBytes apart.
void Transpose8x8(const V8* in, uint8_t* out) {
  V8 a[8], b[8];
  for (int i = 0; i < 4; i++) {
    a[2 * i] = __builtin_shufflevector(in[i], in[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    a[2 * i + 1] = __builtin_shufflevector(in[i], in[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 4; i++) {
    b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 4; i++) {
    a[2 * i] = __builtin_shufflevector(b[i], b[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
    a[2 * i + 1] = __builtin_shufflevector(b[i], b[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i++) std::memcpy(out + i * kTileRowBytes, &a[i], 16);
}

// Reads `rows` rows (M or N) of the operand. False: a chunk at *outside is not in shared memory.
bool Fetch(const MatrixDescriptor& desc, bool mn_major, int rows, SharedView smem, uint8_t* out,
           uint32_t* outside) {
  const ChunkLayout layout(desc);
  if (smem.size < 16) return *outside = 0, false;
  const uint32_t last = smem.size - 16;
  if (!mn_major) {
    for (int r = 0; r < rows; r++) {
      for (int c = 0; c < 2; c++) {
        const uint32_t at = layout.Address(layout.KMajor(r, c));
        if (at > last) return *outside = at, false;
        std::memcpy(out + r * kTileRowBytes + c * 16, smem.bytes + at, 16);
      }
    }
    return true;
  }
  for (int m = 0; m < rows / 8; m++) {
    for (int half = 0; half < 2; half++) {
      V8 block[8];
      for (int k = 0; k < 8; k++) {
        const uint32_t at = layout.Address(layout.MnMajor(m, half * 8 + k));
        if (at > last) return *outside = at, false;
        std::memcpy(&block[k], smem.bytes + at, 16);
      }
      Transpose8x8(block, out + m * 8 * kTileRowBytes + half * 16);
    }
  }
  return true;
}

// Register q of lane l: row 16·w + l/4 + 8·(q%2), bytes 4·(l%4) + 16·(q/2) of the K step.
void FetchRegisters(const uint32_t* const (*a)[4], uint8_t* out) {
  for (int w = 0; w < 4; w++) {
    for (int q = 0; q < 4; q++) {
      for (int l = 0; l < 32; l++) {
        const int row = 16 * w + l / 4 + 8 * (q % 2);
        std::memcpy(out + row * kTileRowBytes + 16 * (q / 2) + 4 * (l % 4), &a[w][q][l], 4);
      }
    }
  }
}

// An operand in shared memory, as its descriptor says.
struct DescribedOperand {
  const char* name;
  uint64_t bits;
  bool mn_major;
  int rows;
};

bool FetchOperand(const DescribedOperand& operand, SharedView smem, uint8_t* out,
                  std::string* error) {
  const auto [name, bits, mn_major, rows] = operand;
  MatrixDescriptor desc;
  std::string why;
  if (!DecodeDescriptor(bits, &desc, &why)) {
    *error = fmt::format("descriptor of {} (0x{:016x}): {}", name, bits, why);
    return false;
  }
  uint32_t outside = 0;
  if (!Fetch(desc, mn_major, rows, smem, out, &outside)) {
    *error = fmt::format(
        "descriptor of {} (0x{:016x}: start {}, leading offset {}, stride offset {}, swizzle {}) "
        "reaches byte {} of {} bytes of shared memory",
        name, bits, desc.start, desc.lbo, desc.sbo, desc.swizzle_bytes, outside + 15, smem.size);
    return false;
  }
  return true;
}

bool RefuseWgmma(std::string* error, std::string why) {
  *error = std::move(why);
  return false;
}

}  // namespace

bool ValidateWgmmaShape(const WgmmaShape& s, std::string* error) {
  const auto types = [&] {
    return fmt::format("{}.{}.{}", ElementName(s.d), ElementName(s.a), ElementName(s.b));
  };
  bool types_ok = false;
  if (Is16BitFloat(s.a)) {
    types_ok =
        s.b == s.a && (s.d == Element::kF32 || (s.d == Element::kF16 && s.a == Element::kF16));
  } else if (s.a == Element::kTf32) {
    types_ok = s.b == s.a && s.d == Element::kF32;
  } else if (Is8BitFloat(s.a)) {
    types_ok = Is8BitFloat(s.b) && (s.d == Element::kF32 || s.d == Element::kF16);
  } else if (Is8BitInteger(s.a)) {
    types_ok = Is8BitInteger(s.b) && s.d == Element::kS32;
  }
  if (!types_ok) return RefuseWgmma(error, fmt::format("wgmma has no types {}", types()));
  if (s.n < 8 || s.n > 256 || s.n % 8 != 0) {
    return RefuseWgmma(error, fmt::format("n is {}: it must be a multiple of 8 in 8…256", s.n));
  }
  if (s.d == Element::kS32 && s.n > 32 && s.n % 16 != 0) {
    return RefuseWgmma(error,
                       fmt::format("n is {}: above 32, integer wgmma needs a multiple of 16", s.n));
  }
  if ((s.transpose_a || s.transpose_b) && !Is16BitFloat(s.a)) {
    return RefuseWgmma(
        error, fmt::format("{} operands are K-major only: the transpose must be 0", types()));
  }
  if (s.transpose_a && s.a_in_registers) {
    return RefuseWgmma(error, "an A operand in registers cannot be transposed");
  }
  if ((s.negate_a || s.negate_b) && s.d == Element::kS32) {
    return RefuseWgmma(error, "integer wgmma has no negated operands");
  }
  if (s.satfinite && s.d != Element::kS32) {
    return RefuseWgmma(error, ".satfinite belongs to integer wgmma only");
  }
  return true;
}

bool DecodeDescriptor(uint64_t bits, MatrixDescriptor* out, std::string* error) {
  constexpr uint64_t kReserved =
      0xc000ull | 0xc0000000ull | 0x1c00000000000ull | 0x3ff0000000000000ull;
  if (bits & kReserved) {
    return RefuseWgmma(error, fmt::format("reserved bits 0x{:x} are set", bits & kReserved));
  }
  out->base_offset = static_cast<uint32_t>(bits >> 49 & 7);
  if (out->base_offset != 0 && bits >> 62 == 0) {
    return RefuseWgmma(
        error, fmt::format("base offset is {} although nothing is swizzled", out->base_offset));
  }
  constexpr uint32_t kSpans[4] = {0, 128, 64, 32};
  out->start = static_cast<uint32_t>(bits & 0x3fff) << 4;
  out->lbo = static_cast<uint32_t>(bits >> 16 & 0x3fff) << 4;
  out->sbo = static_cast<uint32_t>(bits >> 32 & 0x3fff) << 4;
  out->swizzle_bytes = kSpans[bits >> 62];
  return true;
}

bool Wgmma(const WgmmaShape& s, const WgmmaInputs& inputs, const WgmmaRegisters& registers,
           Arithmetic arithmetic, std::string* error) {
  alignas(64) uint8_t a[64 * kTileRowBytes];
  alignas(64) uint8_t b[256 * kTileRowBytes];
  if (s.a_in_registers) {
    FetchRegisters(registers.a, a);
  } else if (!FetchOperand({"A", inputs.desc_a, s.transpose_a, 64}, inputs.smem, a, error)) {
    return false;
  }
  if (!FetchOperand({"B", inputs.desc_b, s.transpose_b, s.n}, inputs.smem, b, error)) return false;
  const TileMath math = {.a = s.a,
                         .b = s.b,
                         .d = s.d,
                         .warps = 4,
                         .n = s.n,
                         .k = s.k(),
                         .accumulate = inputs.scale_d,
                         .negate_a = s.negate_a,
                         .negate_b = s.negate_b,
                         .satfinite = s.satfinite,
                         .arithmetic = arithmetic};
  MultiplyTile(math, a, b, registers.acc);
  return true;
}

void ForEachOperandChunk(const WgmmaShape& s, bool operand_b, const MatrixDescriptor& desc,
                         const std::function<void(uint32_t offset)>& f) {
  const ChunkLayout layout(desc);
  const int rows = operand_b ? s.n : 64;
  if (operand_b ? s.transpose_b : s.transpose_a) {
    for (int m = 0; m < rows / 8; m++) {
      for (int k = 0; k < s.k(); k++) f(layout.Address(layout.MnMajor(m, k)));
    }
    return;
  }
  for (int r = 0; r < rows; r++) {
    for (int c = 0; c < 2; c++) f(layout.Address(layout.KMajor(r, c)));
  }
}

}  // namespace tilec::runtime::emulator
