// mma.sync with the fragment tables of the ISA spelled out per shape; ldmatrix and stmatrix by
// coordinates.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mma_sync.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"

namespace tilec::runtime::emulator {
namespace {

struct Registers {
  uint32_t cells[4][kLanes] = {};
  uint32_t* at[4] = {cells[0], cells[1], cells[2], cells[3]};
};

uint32_t CodeOf(Element e, int v) {
  const auto f = static_cast<float>(v);
  switch (e) {
    case Element::kF16: return F32ToF16(f);
    case Element::kBf16: return F32ToBf16(f);
    case Element::kTf32: return Bits(f);
    case Element::kE4m3: return F32ToE4m3(f);
    case Element::kE5m2: return F32ToE5m2(f);
    default: return static_cast<uint32_t>(v) & 0xff;
  }
}

// Element i of the thread's A fragment → (row, k), as the ISA numbers a0, a1, …
void PositionA(int size, int k, int i, int lane, int* row, int* col) {
  const int group = lane / 4, t = lane % 4;
  if (size == 2) {  // k8: a0,a1 | a2,a3; k16: … | a4,a5 | a6,a7
    *row = group + ((i / 2) % 2 ? 8 : 0);
    *col = t * 2 + i % 2 + (i >= 4 ? 8 : 0);
  } else if (size == 4) {
    *row = group + (i % 2 ? 8 : 0);
    *col = t + (i >= 2 ? 4 : 0);
  } else {
    *row = group + ((i / 4) % 2 ? 8 : 0);
    *col = t * 4 + i % 4 + (i >= 8 ? 16 : 0);
  }
  ASSERT_LT(*col, k);
}

void PositionB(int size, int i, int lane, int* k, int* col) {
  const int t = lane % 4;
  *col = lane / 4;
  if (size == 2) *k = t * 2 + i % 2 + (i >= 2 ? 8 : 0);
  if (size == 4) *k = t + (i >= 1 ? 4 : 0);
  if (size == 1) *k = t * 4 + i % 4 + (i >= 4 ? 16 : 0);
}

TEST(MmaSync, EveryShape) {
  std::vector<MmaShape> shapes;
  for (int k : {8, 16}) {
    shapes.push_back({.k = k});
    shapes.push_back({.k = k, .a = Element::kF16, .b = Element::kF16});
    shapes.push_back(
        {.k = k, .a = Element::kF16, .b = Element::kF16, .c = Element::kF16, .d = Element::kF16});
  }
  for (int k : {4, 8}) shapes.push_back({.k = k, .a = Element::kTf32, .b = Element::kTf32});
  for (int k : {16, 32}) {
    shapes.push_back({.k = k, .a = Element::kE4m3, .b = Element::kE5m2});
    shapes.push_back(
        {.k = k, .a = Element::kS8, .b = Element::kU8, .c = Element::kS32, .d = Element::kS32});
    shapes.push_back(
        {.k = k, .a = Element::kU8, .b = Element::kS8, .c = Element::kS32, .d = Element::kS32});
  }
  std::mt19937 random(2);
  for (const MmaShape& s : shapes) {
    std::string error;
    ASSERT_TRUE(ValidateMmaShape(s, &error)) << error;
    const int size = static_cast<int>(ElementBytes(s.a));
    int a[16][32] = {}, b[32][8] = {}, c[16][8];
    Registers ra, rb, rc, rd;
    for (int lane = 0; lane < kLanes; lane++) {
      for (int i = 0; i < s.a_registers() * 4 / size; i++) {
        int row, k;
        PositionA(size, s.k, i, lane, &row, &k);
        const int v = static_cast<int>(random() % 8) - (s.a == Element::kU8 ? 0 : 4);
        a[row][k] = v;
        const uint32_t code = CodeOf(s.a, v);
        std::memcpy(reinterpret_cast<uint8_t*>(&ra.cells[i * size / 4][lane]) + i * size % 4, &code,
                    size);
      }
      for (int i = 0; i < s.b_registers() * 4 / size; i++) {
        int k, col;
        PositionB(size, i, lane, &k, &col);
        const int v = static_cast<int>(random() % 8) - (s.b == Element::kU8 ? 0 : 4);
        b[k][col] = v;
        const uint32_t code = CodeOf(s.b, v);
        std::memcpy(reinterpret_cast<uint8_t*>(&rb.cells[i * size / 4][lane]) + i * size % 4, &code,
                    size);
      }
      for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + (i >= 2 ? 8 : 0), col = lane % 4 * 2 + i % 2;
        const int v = static_cast<int>(random() % 64) - 32;
        c[row][col] = v;
        if (s.c == Element::kF16) {
          const uint16_t code = F32ToF16(static_cast<float>(v));
          std::memcpy(reinterpret_cast<uint8_t*>(&rc.cells[i / 2][lane]) + i % 2 * 2, &code, 2);
        } else {
          rc.cells[i][lane] =
              s.c == Element::kS32 ? static_cast<uint32_t>(v) : Bits(static_cast<float>(v));
        }
      }
    }
    for (Arithmetic mode : {Arithmetic::kFast, Arithmetic::kExact}) {
      MmaSync(s, ra.at, rb.at, rc.at, rd.at, mode);
      for (int lane = 0; lane < kLanes; lane++) {
        for (int i = 0; i < 4; i++) {
          const int row = lane / 4 + (i >= 2 ? 8 : 0), col = lane % 4 * 2 + i % 2;
          int sum = c[row][col];
          for (int k = 0; k < s.k; k++) sum += a[row][k] * b[k][col];
          uint32_t got = rd.cells[s.d == Element::kF16 ? i / 2 : i][lane];
          if (s.d == Element::kF16) got = got >> (16 * (i % 2)) & 0xffff;
          const uint32_t want = s.d == Element::kS32   ? static_cast<uint32_t>(sum)
                                : s.d == Element::kF16 ? F32ToF16(static_cast<float>(sum))
                                                       : Bits(static_cast<float>(sum));
          ASSERT_EQ(got, want) << ElementName(s.a) << " k" << s.k << " at " << row << "," << col;
        }
      }
    }
  }
}

TEST(MmaSync, AccumulatesInPlace) {
  Registers a, b, d;
  for (int l = 0; l < kLanes; l++) {
    for (int i = 0; i < 4; i++) a.cells[i][l] = 0x3f803f80, d.cells[i][l] = Bits(2.0f);
    for (int i = 0; i < 2; i++) b.cells[i][l] = 0x3f803f80;
  }
  MmaSync({}, a.at, b.at, d.at, d.at, Arithmetic::kFast);
  MmaSync({}, a.at, b.at, d.at, d.at, Arithmetic::kExact);
  for (int l = 0; l < kLanes; l++) EXPECT_EQ(d.cells[3][l], Bits(34.0f));
}

// fp8 is two f16 steps over k mod 4 < 2 and the rest, and then + C: with one product per step far
// larger than C, the sum of products is cut before C is added, and C is rounded, not cut.
TEST(MmaSync, ExactFp8InTwoSteps) {
  const MmaShape s = {.k = 32, .a = Element::kE5m2, .b = Element::kE5m2};
  Registers a, b, c, d;
  auto put = [](Registers& r, bool is_a, int k, float v) {
    // Row 0 (lanes 0 to 3): byte k%4 of lane (k/4)%4, register 2·(k/16) of A, k/16 of B.
    uint32_t& cell = r.cells[(is_a ? 2 : 1) * (k / 16)][k / 4 % 4];
    cell |= uint32_t{F32ToE5m2(v)} << (8 * (k % 4));
  };
  // Step one: 2^24 and 1 (aligned away: 25 fraction bits below 2^24 keep it); step two cancels.
  put(a, true, 0, 0x1p14f), put(b, false, 0, 0x1p15f);    // 2^29
  put(a, true, 5, 0x1p0f), put(b, false, 5, 0x1p3f);      // 8: kept by F = 25
  put(a, true, 17, 0x1p-1f), put(b, false, 17, 0x1p-1f);  // 1/4: cut next to 2^29
  put(a, true, 2, -0x1p14f), put(b, false, 2, 0x1p15f);   // −2^29, in the second step
  put(a, true, 31, 0x1p-3f), put(b, false, 31, 0x1p-3f);  // 2^-6: cut
  c.cells[0][0] = Bits(1.0f + 0x1p-23f);
  MmaSync(s, a.at, b.at, c.at, d.at, Arithmetic::kExact);
  // 2^29 + 8 is cut to 24 bits: 2^29. Then zero, then C.
  EXPECT_EQ(d.cells[0][0], Bits(1.0f + 0x1p-23f));
  b.cells[0][0] &= 0xff00ffffu;  // without the cancelling product
  c.cells[0][0] = Bits(48.0f);   // half a unit and more: rounded up, not cut
  MmaSync(s, a.at, b.at, c.at, d.at, Arithmetic::kExact);
  EXPECT_EQ(d.cells[0][0], Bits(0x1p29f + 64.0f));
}

TEST(MmaSync, ShapesAreChecked) {
  std::string error;
  EXPECT_FALSE(ValidateMmaShape({.k = 4}, &error));
  EXPECT_FALSE(ValidateMmaShape({.k = 16, .a = Element::kTf32, .b = Element::kTf32}, &error));
  EXPECT_FALSE(ValidateMmaShape({.k = 16, .c = Element::kF16}, &error));
  EXPECT_FALSE(ValidateMmaShape({.k = 16, .satfinite = true}, &error));
  EXPECT_FALSE(ValidateMmaShape({.k = 32, .a = Element::kS8, .b = Element::kS8}, &error));
}

TEST(Matrix, LoadAndStore) {
  std::mt19937 random(4);
  for (int count : {1, 2, 4}) {
    for (bool transpose : {false, true}) {
      std::vector<uint8_t> smem(8192);
      for (auto& b : smem) b = static_cast<uint8_t>(random());
      uint32_t addresses[kLanes];
      for (int l = 0; l < kLanes; l++) addresses[l] = static_cast<uint32_t>(l * 7 % 32) * 80 + 16;
      for (int l = 8 * count; l < kLanes; l++) addresses[l] = 0xdeadbeef;  // ignored
      auto element = [&](const std::vector<uint8_t>& m, int j, int row, int col) {
        uint16_t v;
        std::memcpy(&v, &m[addresses[8 * j + row] + col * 2], 2);
        return uint32_t{v};
      };
      Registers r;
      MatrixFault fault;
      ASSERT_TRUE(LdMatrix({count, transpose, addresses}, smem.data(), 8192, r.at, &fault));
      for (int j = 0; j < count; j++) {
        for (int l = 0; l < kLanes; l++) {
          const int u = l / 4, v = 2 * (l % 4);
          const uint32_t lo = transpose ? element(smem, j, v, u) : element(smem, j, u, v);
          const uint32_t hi = transpose ? element(smem, j, v + 1, u) : element(smem, j, u, v + 1);
          ASSERT_EQ(r.cells[j][l], lo | hi << 16);
        }
      }
      // Storing what was loaded into cleared rows restores exactly them.
      std::vector<uint8_t> copy(8192, 0), want(8192, 0);
      for (int i = 0; i < 8 * count; i++) std::memcpy(&want[addresses[i]], &smem[addresses[i]], 16);
      ASSERT_TRUE(StMatrix({count, transpose, addresses}, copy.data(), 8192, r.at, &fault));
      EXPECT_EQ(copy, want);
    }
  }
}

TEST(Matrix, Faults) {
  std::vector<uint8_t> smem(1024);
  uint32_t addresses[kLanes] = {};
  Registers r;
  r.cells[0][0] = 77;
  MatrixFault fault;
  addresses[9] = 24;
  EXPECT_TRUE(LdMatrix({1, false, addresses}, smem.data(), 1024, r.at, &fault));
  r.cells[0][0] = 77;
  EXPECT_FALSE(LdMatrix({2, false, addresses}, smem.data(), 1024, r.at, &fault));
  EXPECT_EQ(fault.kind, MatrixFault::Kind::kMisaligned);
  EXPECT_EQ(fault.lane, 9);
  EXPECT_EQ(fault.address, 24u);
  EXPECT_EQ(r.cells[0][0], 77u);
  addresses[9] = 1024;
  EXPECT_FALSE(StMatrix({4, false, addresses}, smem.data(), 1024, r.at, &fault));
  EXPECT_EQ(fault.kind, MatrixFault::Kind::kRange);
  addresses[9] = 1008;
  EXPECT_TRUE(StMatrix({4, false, addresses}, smem.data(), 1024, r.at, &fault));
}

}  // namespace
}  // namespace tilec::runtime::emulator
