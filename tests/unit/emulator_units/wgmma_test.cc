// wgmma against a model that places single elements by the canonical-layout formulas (rows, spans,
// panels), not by 16-byte chunks, and multiplies with plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/wgmma.h"

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"

namespace tilec::runtime::emulator {
namespace {

constexpr uint32_t kOperandBytes = 227 * 1024;

struct Operand {
  uint32_t start, lbo, sbo, swizzle;
  bool mn_major;
};

uint64_t Descriptor(const Operand& o) {
  const uint64_t mode = o.swizzle == 128 ? 1 : o.swizzle == 64 ? 2 : o.swizzle == 32 ? 3 : 0;
  return uint64_t{o.start >> 4} | uint64_t{o.lbo >> 4} << 16 | uint64_t{o.sbo >> 4} << 32 |
         mode << 62;
}

// Byte address of element (r, k): r along M or N.
uint32_t ElementAddress(const Operand& o, int r, int k, int size) {
  uint32_t offset;
  if (!o.mn_major) {
    const int span = o.swizzle == 0 ? 16 : static_cast<int>(o.swizzle);
    if (o.swizzle == 0) {
      const int per_chunk = 16 / size;
      offset = r / 8 * o.sbo + r % 8 * 16 + k / per_chunk * o.lbo + k % per_chunk * size;
    } else {
      offset = r / 8 * o.sbo + r % 8 * span + k * size;
    }
  } else if (o.swizzle == 0) {
    offset = r / 8 * o.sbo + k / 8 * o.lbo + k % 8 * 16 + r % 8 * 2;
  } else {
    const int wide = static_cast<int>(o.swizzle) / 2;  // elements of one span
    offset = r / wide * o.lbo + k / 8 * o.sbo + k % 8 * o.swizzle + r % wide * 2;
  }
  const uint32_t a = o.start + offset;
  const uint32_t line = a / 128, chunk = a / 16 % 8;
  uint32_t moved = chunk;
  if (o.swizzle == 128) moved = chunk ^ line % 8;
  if (o.swizzle == 64) moved = chunk ^ line % 4;
  if (o.swizzle == 32) moved = chunk ^ line % 2;
  return line * 128 + moved * 16 + a % 16;
}

// Places that keep operands apart and are not all equal.
Operand Place(bool mn_major, uint32_t swizzle, uint32_t start, int rows, int size, int k_step) {
  Operand o = {start, 16, 0, swizzle, mn_major};
  const uint32_t span = swizzle == 0 ? 16 : swizzle;
  if (!mn_major) {
    o.sbo = 8 * span;
    if (swizzle == 0) {
      o.sbo = 128 + 128;  // a gap between row groups
      o.lbo = (static_cast<uint32_t>(rows) / 8) * o.sbo;
    } else {
      o.start += static_cast<uint32_t>(k_step) * 32 % span;  // inside the pattern row
    }
    (void)size;
  } else if (swizzle == 0) {
    o.lbo = 128;
    o.sbo = 256;
  } else {
    o.sbo = 8 * span;
    o.lbo = 2 * o.sbo;
  }
  return o;
}

uint32_t RandomCode(Element e, std::mt19937& random) {
  const uint32_t b = random();
  const float v = (static_cast<float>(b % 4096) - 2048.0f) / 256.0f;
  switch (e) {
    case Element::kF16: return F32ToF16(v);
    case Element::kBf16: return F32ToBf16(v);
    case Element::kTf32: return Bits(v) | (random() & 0x1fff);  // low bits must be ignored
    case Element::kE4m3: return F32ToE4m3(v);
    case Element::kE5m2: return F32ToE5m2(v);
    default: return b & 0xff;
  }
}

double Value(Element e, uint32_t code) {
  switch (e) {
    case Element::kF16: return F16ToF32(static_cast<uint16_t>(code));
    case Element::kBf16: return Bf16ToF32(static_cast<uint16_t>(code));
    case Element::kTf32: return FloatOf(code & 0xffffe000u);
    case Element::kE4m3: return E4m3ToF32(static_cast<uint8_t>(code));
    case Element::kE5m2: return E5m2ToF32(static_cast<uint8_t>(code));
    case Element::kS8: return static_cast<int8_t>(code);
    default: return code;
  }
}

struct Machine {
  std::vector<uint8_t> smem = std::vector<uint8_t>(kOperandBytes);
  std::vector<uint32_t> cells = std::vector<uint32_t>(4 * 128 * 32);
  std::vector<uint32_t> a_cells = std::vector<uint32_t>(4 * 4 * 32);
  WgmmaRegisters registers;
  Machine() {
    for (int w = 0; w < 4; w++) {
      for (int i = 0; i < 128; i++) registers.acc[w][i] = &cells[(w * 128 + i) * 32];
      for (int i = 0; i < 4; i++) registers.a[w][i] = &a_cells[(w * 4 + i) * 32];
    }
  }
  uint32_t& Acc(int row, int col) {  // 32-bit accumulators
    const int w = row / 16, half = row % 16 / 8;
    const int lane = row % 8 * 4 + col % 8 / 2;
    return registers.acc[w][col / 8 * 4 + half * 2 + col % 2][lane];
  }
  uint32_t Half(int row, int col) {  // packed f16 accumulators
    const int w = row / 16, half = row % 16 / 8;
    const int lane = row % 8 * 4 + col % 8 / 2;
    return registers.acc[w][col / 8 * 2 + half][lane] >> (16 * (col % 2)) & 0xffff;
  }
};

void PutElement(std::vector<uint8_t>& smem, uint32_t at, uint32_t code, int size) {
  std::memcpy(&smem[at], &code, size);
}

// Element (r, i) of A in registers, by the ISA's fragment maps of each width.
void PutFragment(Machine& m, int r, int i, uint32_t code, int size) {
  int q, lane, byte;
  const int half = r % 16 / 8;
  if (size == 2) {
    q = half + 2 * (i / 8), lane = r % 8 * 4 + i % 8 / 2, byte = i % 2 * 2;
  } else if (size == 1) {
    q = half + 2 * (i / 16), lane = r % 8 * 4 + i % 16 / 4, byte = i % 4;
  } else {
    q = half + 2 * (i / 4), lane = r % 8 * 4 + i % 4, byte = 0;
  }
  uint32_t* cell = &m.a_cells[((r / 16) * 4 + q) * 32 + lane];
  std::memcpy(reinterpret_cast<uint8_t*>(cell) + byte, &code, size);
}

void RunCase(const WgmmaShape& s, uint32_t swizzle_a, uint32_t swizzle_b, int k_step, bool scale_d,
             uint32_t seed) {
  SCOPED_TRACE(testing::Message() << ElementName(s.a) << "×" << ElementName(s.b) << " n" << s.n
                                  << " swizzles " << swizzle_a << "," << swizzle_b << " trans "
                                  << s.transpose_a << s.transpose_b << " registers "
                                  << s.a_in_registers);
  std::string error;
  ASSERT_TRUE(ValidateWgmmaShape(s, &error)) << error;
  std::mt19937 random(seed);
  Machine m;
  for (auto& b : m.smem) b = 0xff;  // NaN where nothing was written
  const int size = static_cast<int>(ElementBytes(s.a));
  const int k = s.k();
  const Operand a = Place(s.transpose_a, swizzle_a, 2048, 64, size, k_step);
  const Operand b = Place(s.transpose_b, swizzle_b, 96 * 1024, s.n, size, k_step);
  std::vector<uint32_t> ca(64 * k), cb(s.n * k);
  for (auto& c : ca) c = RandomCode(s.a, random);
  for (auto& c : cb) c = RandomCode(s.b, random);
  for (int r = 0; r < 64; r++) {
    for (int i = 0; i < k; i++) {
      if (!s.a_in_registers) {
        PutElement(m.smem, ElementAddress(a, r, i, size), ca[r * k + i], size);
        continue;
      }
      PutFragment(m, r, i, ca[r * k + i], size);
    }
  }
  for (int r = 0; r < s.n; r++) {
    for (int i = 0; i < k; i++)
      PutElement(m.smem, ElementAddress(b, r, i, size), cb[r * k + i], size);
  }
  const bool integer = s.d == Element::kS32;
  for (auto& c : m.cells) {
    const float v = static_cast<float>(random() % 1000) / 8.0f - 60.0f;
    c = integer ? random() : s.d == Element::kF16 ? F32ToF16(v) * 0x10001u : Bits(v);
  }
  Machine before = m;
  before.registers = {};
  Machine copy;  // registers of its own
  copy.cells = m.cells;
  ASSERT_TRUE(Wgmma(s, {Descriptor(a), Descriptor(b), scale_d, {m.smem.data(), kOperandBytes}},
                    m.registers, Arithmetic::kFast, &error))
      << error;
  for (int r = 0; r < 64; r++) {
    for (int c = 0; c < s.n; c++) {
      if (integer) {
        int64_t sum = scale_d ? static_cast<int32_t>(copy.Acc(r, c)) : 0;
        for (int i = 0; i < k; i++) {
          sum += static_cast<int64_t>(Value(s.a, ca[r * k + i])) *
                 static_cast<int64_t>(Value(s.b, cb[c * k + i]));
        }
        if (s.satfinite) sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
        ASSERT_EQ(m.Acc(r, c), static_cast<uint32_t>(sum)) << r << "," << c;
        continue;
      }
      float sum = 0;
      if (scale_d) {
        sum = s.d == Element::kF16 ? F16ToF32(static_cast<uint16_t>(copy.Half(r, c)))
                                   : FloatOf(copy.Acc(r, c));
      }
      for (int i = 0; i < k; i++) {
        float x = static_cast<float>(Value(s.a, ca[r * k + i]));
        float y = static_cast<float>(Value(s.b, cb[c * k + i]));
        if (s.negate_a) x = -x;
        if (s.negate_b) y = -y;
        sum = std::fma(x, y, sum);
      }
      if (s.d == Element::kF16) {
        ASSERT_EQ(m.Half(r, c), sum == 0 ? 0 : F32ToF16(sum)) << r << "," << c;
      } else {
        ASSERT_EQ(m.Acc(r, c), Bits(sum)) << r << "," << c;
      }
    }
  }
}

TEST(Wgmma, EveryLayoutOf16BitTypes) {
  uint32_t seed = 1;
  for (Element e : {Element::kBf16, Element::kF16}) {
    for (bool ta : {false, true}) {
      for (bool tb : {false, true}) {
        for (uint32_t sa : {0u, 32u, 64u, 128u}) {
          for (uint32_t sb : {0u, 32u, 64u, 128u}) {
            const WgmmaShape s = {.n = 8 * static_cast<int>(1 + (seed * 7) % 32),
                                  .a = e,
                                  .b = e,
                                  .transpose_a = ta,
                                  .transpose_b = tb};
            RunCase(s, sa, sb, seed % 4, seed % 3 != 0, seed);
            seed++;
          }
        }
      }
    }
  }
}

TEST(Wgmma, EveryLayoutOfOtherTypes) {
  uint32_t seed = 100;
  const std::pair<Element, Element> pairs[] = {
      {Element::kTf32, Element::kTf32}, {Element::kE4m3, Element::kE5m2},
      {Element::kE5m2, Element::kE4m3}, {Element::kE4m3, Element::kE4m3},
      {Element::kS8, Element::kU8},     {Element::kU8, Element::kS8}};
  for (auto [a, b] : pairs) {
    for (uint32_t sa : {0u, 32u, 64u, 128u}) {
      for (uint32_t sb : {0u, 32u, 64u, 128u}) {
        WgmmaShape s = {.n = 16 * static_cast<int>(1 + seed % 16), .a = a, .b = b};
        if (ElementBytes(a) == 1 && !IsFloat(a)) {
          s.d = Element::kS32;
          s.satfinite = seed % 2 != 0;
        } else if (ElementBytes(a) == 1 && seed % 2) {
          s.d = Element::kF16;
        }
        RunCase(s, sa, sb, seed % 4, seed % 3 != 0, seed);
        seed++;
      }
    }
  }
}

TEST(Wgmma, RegistersNegationAndHalfAccumulators) {
  for (Element e : {Element::kBf16, Element::kF16, Element::kTf32, Element::kE4m3, Element::kS8}) {
    WgmmaShape s = {.n = 48, .a = e, .b = e, .a_in_registers = true};
    if (e == Element::kS8) s.d = Element::kS32;
    RunCase(s, 0, 128, 1, true, 7);
    if (e == Element::kS8) continue;
    s.negate_a = true;
    RunCase(s, 0, 64, 0, true, 8);
    s.negate_b = true;
    RunCase(s, 0, 32, 0, false, 9);
    s.negate_a = false;
    if (e == Element::kF16 || e == Element::kE4m3) s.d = Element::kF16;
    RunCase(s, 0, 128, 2, true, 10);
  }
  for (int n : {8, 16, 24, 256}) {
    RunCase({.n = n, .a = Element::kF16, .b = Element::kF16, .d = Element::kF16}, 128, 128, 3, true,
            11);
  }
}

TEST(Wgmma, FootprintIsWhatIsRead) {
  for (bool mn : {false, true}) {
    for (uint32_t swizzle : {0u, 32u, 64u, 128u}) {
      const WgmmaShape s = {.n = 72, .transpose_a = mn, .transpose_b = mn};
      for (bool operand_b : {false, true}) {
        const int rows = operand_b ? s.n : 64;
        const Operand o = Place(mn, swizzle, 4096, rows, 2, 1);
        std::set<uint32_t> want, got;
        for (int r = 0; r < rows; r++) {
          for (int k = 0; k < 16; k++) want.insert(ElementAddress(o, r, k, 2) / 16 * 16);
        }
        MatrixDescriptor d;
        std::string error;
        ASSERT_TRUE(DecodeDescriptor(Descriptor(o), &d, &error));
        ForEachOperandChunk(s, operand_b, d,
                            [&](uint32_t offset) { EXPECT_TRUE(got.insert(offset).second); });
        EXPECT_EQ(got, want);
      }
    }
  }
}

TEST(Wgmma, DescriptorsAreChecked) {
  MatrixDescriptor d;
  std::string error;
  const Operand o = {4096, 32, 1024, 64, false};
  ASSERT_TRUE(DecodeDescriptor(Descriptor(o), &d, &error));
  EXPECT_EQ(d.start, 4096u);
  EXPECT_EQ(d.lbo, 32u);
  EXPECT_EQ(d.sbo, 1024u);
  EXPECT_EQ(d.swizzle_bytes, 64u);
  for (int bit = 0; bit < 64; bit++) {
    const bool reserved =
        bit == 14 || bit == 15 || bit == 30 || bit == 31 || (bit >= 46 && bit <= 61);
    EXPECT_EQ(DecodeDescriptor(1ull << bit, &d, &error), !reserved) << bit;
  }
  EXPECT_FALSE(DecodeDescriptor(3ull << 49, &d, &error));
  EXPECT_NE(error.find("base offset is 3"), std::string::npos) << error;
  ASSERT_TRUE(DecodeDescriptor(3ull << 49 | 1ull << 62, &d, &error)) << error;
  EXPECT_EQ(d.base_offset, 3u);

  Machine m;
  m.cells[0] = 42;
  const WgmmaShape s = {.n = 64};
  const Operand last = {kOperandBytes - 64 * 128 + 128, 16, 1024, 128, false};
  EXPECT_FALSE(Wgmma(s, {Descriptor(o), Descriptor(last), true, {m.smem.data(), kOperandBytes}},
                     m.registers, Arithmetic::kFast, &error));
  EXPECT_NE(error.find("descriptor of B"), std::string::npos) << error;
  EXPECT_NE(error.find("reaches byte"), std::string::npos) << error;
  EXPECT_EQ(m.cells[0], 42u);
  const Operand fits = {kOperandBytes - 64 * 128, 16, 1024, 128, false};
  EXPECT_TRUE(Wgmma(s, {Descriptor(o), Descriptor(fits), true, {m.smem.data(), kOperandBytes}},
                    m.registers, Arithmetic::kFast, &error));
}

TEST(Wgmma, ShapesAreChecked) {
  std::string error;
  EXPECT_TRUE(ValidateWgmmaShape({.n = 256}, &error));
  EXPECT_FALSE(ValidateWgmmaShape({.n = 12}, &error));
  EXPECT_FALSE(ValidateWgmmaShape({.n = 264}, &error));
  EXPECT_FALSE(ValidateWgmmaShape({.n = 64, .d = Element::kF16}, &error));
  EXPECT_FALSE(ValidateWgmmaShape({.n = 64, .a = Element::kF16}, &error));
  EXPECT_FALSE(ValidateWgmmaShape(
      {.n = 64, .a = Element::kTf32, .b = Element::kTf32, .transpose_b = true}, &error));
  EXPECT_FALSE(ValidateWgmmaShape(
      {.n = 40, .a = Element::kS8, .b = Element::kS8, .d = Element::kS32}, &error));
  EXPECT_TRUE(ValidateWgmmaShape(
      {.n = 24, .a = Element::kS8, .b = Element::kU8, .d = Element::kS32}, &error));
  EXPECT_FALSE(ValidateWgmmaShape({.n = 64, .a_in_registers = true, .transpose_a = true}, &error));
  EXPECT_FALSE(ValidateWgmmaShape({.n = 64, .satfinite = true}, &error));
  EXPECT_FALSE(ValidateWgmmaShape(
      {.n = 64, .a = Element::kS8, .b = Element::kS8, .d = Element::kS32, .negate_a = true},
      &error));
}

}  // namespace
}  // namespace tilec::runtime::emulator
