// Boxes against an element-by-element model: every element of every box is located by its
// coordinates, with the swizzle written as a permutation of chunks inside rows of the pattern.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tensor_map.h"
#include "tests/unit/emulator_units/tma_model.h"

namespace tilec::runtime::emulator {

namespace {

TEST(Tma, AtomsOf32Bytes) {
  Tensor t = Make("f32", {40, 30}, {32, 16}, 0);
  const std::vector<uint8_t> plain = Loaded(t.desc, 4, 3);
  t.desc.swizzle_bytes = 128;
  t.desc.swizzle_atom = 32;
  const std::vector<uint8_t> moved = Loaded(t.desc, 4, 3);
  for (uint32_t row = 0; row < 16; row++)
    for (uint32_t byte = 0; byte < 128; byte++)
      ASSERT_EQ(moved[1024 + row * 128 + ((byte / 32 ^ row % 4) * 32 + byte % 32)],
                plain[1024 + row * 128 + byte]);
}

TEST(Tma, ElementsOfFourBits) {
  Tensor t = Make("u8", {96, 30}, {64, 16}, 128);
  const std::vector<uint8_t> bytes = Loaded(t.desc, 48, 3);
  t.desc.dtype = "u4";
  t.desc.dims[0] *= 2;
  t.desc.box[0] *= 2;
  EXPECT_EQ(Loaded(t.desc, 96, 3), bytes);
}

TEST(Tma, LoadPlacesEveryElement) {
  for (const Config& c : Configs()) {
    for (bool nan : {false, true}) {
      const Element element = *ElementFromName(c.dtype);
      if (nan && (!IsFloat(element) || ElementBytes(element) == 1)) continue;
      Tensor t = Make(c.dtype, c.dims, c.box, c.swizzle, c.element_strides, nan);
      const uint32_t size = ElementBytes(t.info.element);
      for (const auto& coords : Corners(c)) {
        for (uint32_t base : {1024u, 1024u + 128u, 4096u + 384u}) {
          std::vector<uint8_t> smem(kSmem, 0xa5), want(kSmem, 0xa5);
          ForEachElement(t.info, coords.data(), [&](uint32_t e, const int64_t* x, bool inside) {
            uint8_t value[8] = {};
            if (inside) {
              std::memcpy(value, t.Element(x), size);
              if (element == Element::kTf32) Round(value);
            } else if (nan) {
              for (uint32_t b = 0; b < size; b++) value[b] = b % 2 ? 0x7f : 0xf7;
            }
            for (uint32_t b = 0; b < size; b++) want[SwizzledAt(base, e + b, c.swizzle)] = value[b];
          });
          int checks = 0;
          const TmaResult r = TmaLoad(t.info, coords.data(), smem.data(), kSmem, base,
                                      [&](uint64_t address, uint64_t bytes, bool write) {
                                        checks++;
                                        EXPECT_FALSE(write);
                                        EXPECT_TRUE(t.Check(address, bytes));
                                        return t.Check(address, bytes);
                                      });
          ASSERT_TRUE(r.ok());
          EXPECT_EQ(r.bytes, t.info.box_bytes());
          EXPECT_LE(checks * size * t.info.extent(0), r.bytes);
          ASSERT_EQ(smem, want) << c.dtype << " swizzle " << c.swizzle << " rank " << c.dims.size();
        }
      }
    }
  }
}

TEST(Tma, StoreWritesInsideOnly) {
  for (const Config& c : Configs()) {
    Tensor t = Make(c.dtype, c.dims, c.box, c.swizzle, c.element_strides);
    const uint32_t size = ElementBytes(t.info.element);
    std::vector<uint8_t> smem(kSmem);
    std::mt19937 random(23);
    for (auto& b : smem) b = static_cast<uint8_t>(random());
    for (const auto& coords : Corners(c)) {
      const std::vector<uint8_t> before = t.memory;
      auto check = [&](uint64_t address, uint64_t bytes, bool write) {
        EXPECT_TRUE(write);
        return t.Check(address, bytes);
      };
      const TmaResult r = TmaStore(t.info, coords.data(), {smem.data(), kSmem, 2048}, check);
      const bool negative = *std::min_element(coords.begin(), coords.end()) < 0;
      if (negative) {
        EXPECT_EQ(r.error, TmaError::kNegativeStore);
        EXPECT_EQ(t.memory, before);
        continue;
      }
      ASSERT_TRUE(r.ok());
      std::vector<uint8_t> got = t.memory;
      t.memory = before;  // same storage, so the map stays good
      ForEachElement(t.info, coords.data(), [&](uint32_t e, const int64_t* x, bool) {
        // Clipped to whole 16-byte chunks in the first dimension, to elements in the others.
        const uint64_t first_of_chunk = static_cast<uint64_t>(x[0]) * size / 16 * 16 / size;
        bool written = first_of_chunk < t.info.dims[0];
        for (uint32_t i = 1; i < t.info.rank; i++) {
          written = written && x[i] < static_cast<int64_t>(t.info.dims[i]);
        }
        for (uint32_t b = 0; written && b < size; b++) {
          t.Element(x)[b] = smem[SwizzledAt(2048, e + b, c.swizzle)];
        }
      });
      ASSERT_EQ(got, t.memory) << c.dtype << " swizzle " << c.swizzle;
    }
  }
}

TEST(Tma, ReduceCombinesEachElement) {
  for (int swizzle : {0, 64}) {
    Tensor t = Make("f32", {50, 9}, {16, 8}, swizzle);
    for (size_t i = 0; i + 4 <= t.memory.size(); i += 4) {
      const float v = static_cast<float>(i % 97) * 0.25f;
      std::memcpy(&t.memory[i], &v, 4);
    }
    std::vector<uint8_t> smem(kSmem);
    for (size_t i = 0; i < kSmem; i += 4) {
      const float v = static_cast<float>(i % 31) - 11.5f;
      std::memcpy(&smem[i], &v, 4);
    }
    const int32_t coords[5] = {40, 3};
    const std::vector<uint8_t> before = t.memory;
    ASSERT_TRUE(TmaReduce(t.info, coords, TmaReduceOp::kAdd, {smem.data(), kSmem, 1024},
                          [&](uint64_t a, uint64_t n, bool) { return t.Check(a, n); })
                    .ok());
    const std::vector<uint8_t> got = t.memory;
    t.memory = before;
    ForEachElement(t.info, coords, [&](uint32_t e, const int64_t* x, bool) {
      // 50 columns: columns 50 and 51 share the last chunk.
      if (x[0] >= 52 || x[1] >= 9) return;
      float a, b;
      std::memcpy(&a, t.Element(x), 4);
      std::memcpy(&b, &smem[SwizzledAt(1024, e, static_cast<uint32_t>(swizzle))], 4);
      a += b;
      std::memcpy(t.Element(x), &a, 4);
    });
    EXPECT_EQ(got, t.memory);
  }
}

template <typename T>
T ReduceOne(TmaReduceOp op, Element e, T a, T b, bool flush = false) {
  alignas(8) uint8_t cell[8];
  std::memcpy(cell, &a, sizeof a);
  ReduceRow(op, e, cell, reinterpret_cast<const uint8_t*>(&b), 1, flush);
  std::memcpy(&a, cell, sizeof a);
  return a;
}

TEST(Tma, ReduceOperators) {
  using Op = TmaReduceOp;
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kAdd, Element::kU32, 0xffffffffu, 2), 1u);
  EXPECT_EQ(ReduceOne<int32_t>(Op::kMin, Element::kS32, -5, 3), -5);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kMin, Element::kU32, 0xfffffffbu, 3), 3u);
  EXPECT_EQ(ReduceOne<int64_t>(Op::kMax, Element::kS64, -5, 3), 3);
  EXPECT_EQ(ReduceOne<uint64_t>(Op::kXor, Element::kU64, 0xf0f0, 0xffff), 0x0f0fu);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kAnd, Element::kU32, 0xf0f0, 0xff), 0xf0u);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kOr, Element::kU32, 0xf000, 0xff), 0xf0ffu);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kInc, Element::kU32, 7, 7), 0u);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kInc, Element::kU32, 6, 7), 7u);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kDec, Element::kU32, 0, 7), 7u);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kDec, Element::kU32, 9, 7), 7u);
  EXPECT_EQ(ReduceOne<uint32_t>(Op::kDec, Element::kU32, 5, 7), 4u);
  EXPECT_EQ(ReduceOne<uint16_t>(Op::kAdd, Element::kF16, F32ToF16(1.5f), F32ToF16(2.0f)),
            F32ToF16(3.5f));
  EXPECT_EQ(ReduceOne<uint16_t>(Op::kAdd, Element::kBf16, F32ToBf16(256.0f), F32ToBf16(1.0f)),
            F32ToBf16(256.0f));
  EXPECT_EQ(ReduceOne<uint16_t>(Op::kMax, Element::kBf16, F32ToBf16(-1.0f), kCanonicalNan16),
            F32ToBf16(-1.0f));
  EXPECT_EQ(ReduceOne<float>(Op::kAdd, Element::kF32, 0x1p-130f, 0x1p-130f), 0x1p-129f);
  // The 1-D form flushes subnormals, on the way in and on the way out.
  EXPECT_EQ(ReduceOne<float>(Op::kAdd, Element::kF32, 0x1p-130f, 0x1p-130f, true), 0.0f);
  EXPECT_EQ(ReduceOne<float>(Op::kAdd, Element::kF32, 0x1.8p-126f, -0x1p-126f, true), 0.0f);
  EXPECT_EQ(ReduceOne<double>(Op::kAdd, Element::kF64, 0.5, 0.25), 0.75);
  EXPECT_FALSE(ReduceDefined(Op::kMin, Element::kF32));
  EXPECT_FALSE(ReduceDefined(Op::kAdd, Element::kE4m3));
  EXPECT_FALSE(ReduceDefined(Op::kAnd, Element::kF16));
  EXPECT_FALSE(ReduceDefined(Op::kAdd, Element::kS64));
}

TEST(Tma, Refusals) {
  Tensor t = Make("bf16", {100, 50}, {64, 32}, 128);
  std::vector<uint8_t> smem(8192);
  const int32_t zero[5] = {};
  auto yes = [](uint64_t, uint64_t, bool) { return true; };
  EXPECT_EQ(TmaLoad(t.info, zero, smem.data(), 8192, 64, yes).error, TmaError::kSmemAlign);
  EXPECT_EQ(TmaLoad(t.info, zero, smem.data(), 8192, 4096 + 128, yes).error, TmaError::kSmemRange);
  EXPECT_TRUE(TmaLoad(t.info, zero, smem.data(), 8192, 4096, yes).ok());
  const uint64_t row3 = t.info.base + 3 * t.info.strides[1];
  auto no_row3 = [&](uint64_t address, uint64_t, bool) { return address != row3; };
  const TmaResult r = TmaLoad(t.info, zero, smem.data(), 8192, 4096, no_row3);
  EXPECT_EQ(r.error, TmaError::kGlobal);
  EXPECT_EQ(r.address, row3);
  EXPECT_EQ(r.row_bytes, 128u);
  EXPECT_NE(Describe(r, t.info, 4096).find("128 bytes"), std::string::npos);
  // Bytes behind a clipped row are left alone where they may not be written.
  const int32_t edge[5] = {96, 0};
  const uint64_t behind = t.info.base + 100 * 2;
  const uint8_t old = t.memory[behind - reinterpret_cast<uint64_t>(t.memory.data())];
  smem.assign(8192, static_cast<uint8_t>(old + 1));
  auto not_behind = [&](uint64_t address, uint64_t, bool) { return address != behind; };
  EXPECT_TRUE(TmaStore(t.info, edge, {smem.data(), 8192, 0}, not_behind).ok());
  EXPECT_EQ(t.memory[behind - reinterpret_cast<uint64_t>(t.memory.data())], old);
  EXPECT_TRUE(TmaStore(t.info, edge, {smem.data(), 8192, 0}, yes).ok());
  EXPECT_EQ(t.memory[behind - reinterpret_cast<uint64_t>(t.memory.data())],
            static_cast<uint8_t>(old + 1));
  for (int x : {1, -1, 4, 12}) {
    const int32_t at[5] = {x, 0};
    const TmaResult bad = TmaLoad(t.info, at, smem.data(), 8192, 0, yes);
    EXPECT_EQ(bad.error, TmaError::kCoordinateAlign);
    EXPECT_NE(Describe(bad, t.info, 0).find("multiple of 8 bf16"), std::string::npos);
  }
  Tensor narrow = Make("bf16", {100, 50}, {16, 32}, 128);
  EXPECT_EQ(narrow.info.box_bytes(), 1024u);
  EXPECT_EQ(narrow.info.smem_bytes(), 4096u);
  EXPECT_EQ(TmaLoad(narrow.info, zero, smem.data(), 8192, 4096 + 128, yes).error,
            TmaError::kSmemRange);
  Tensor f64 = Make("f64", {20, 30}, {16, 8}, 128);
  EXPECT_EQ(TmaReduce(f64.info, zero, TmaReduceOp::kAdd, {smem.data(), 8192, 0}, yes).error,
            TmaError::kReduceType);
}

TEST(Tma, BoxRunsCoverExactlyTheBox) {
  for (const Config& c : Configs()) {
    Tensor t = Make(c.dtype, c.dims, c.box, c.swizzle, c.element_strides);
    std::vector<int> seen(kSmem), want(kSmem);
    ForEachBoxRun(t.info, 1152, [&](uint32_t offset, uint32_t bytes) {
      for (uint32_t i = 0; i < bytes; i++) seen[offset + i]++;
    });
    const int32_t origin[5] = {};
    ForEachElement(t.info, origin, [&](uint32_t e, const int64_t*, bool) {
      for (uint32_t b = 0; b < ElementBytes(t.info.element); b++) {
        want[SwizzledAt(1152, e + b, static_cast<uint32_t>(c.swizzle))]++;
      }
    });
    EXPECT_EQ(seen, want);
  }
}

}  // namespace

}  // namespace tilec::runtime::emulator
