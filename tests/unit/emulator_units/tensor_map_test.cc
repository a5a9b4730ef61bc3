// Every rule of the encoder is broken once, and the bytes survive a round trip.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/tensor_map.h"

#include <functional>

#include "gtest/gtest.h"

namespace tilec::runtime::emulator {
namespace {

TensorMapDesc Good() {
  TensorMapDesc d;
  d.dtype = "bf16";
  d.base = 0x7f0000000100;
  d.dims = {300, 77, 5};
  d.strides_bytes = {640, 640 * 77};
  d.box = {64, 32, 2};
  d.swizzle_bytes = 128;
  return d;
}

TEST(TensorMap, RoundTrip) {
  DiagSink diags;
  TensorMapDesc d = Good();
  d.element_strides = {3, 2, 1};  // the first is ignored
  d.fill_nan = true;
  d.dims[1] = 1ull << 32;
  Result<TensorMap> map = EncodeTensorMap(d, diags);
  ASSERT_TRUE(map.ok());
  TensorMapInfo info;
  ASSERT_TRUE(DecodeTensorMap(map->bytes, &info));
  EXPECT_EQ(info.element, Element::kBf16);
  EXPECT_EQ(info.rank, 3u);
  EXPECT_EQ(info.base, d.base);
  EXPECT_EQ(info.dims[0], 300u);
  EXPECT_EQ(info.dims[1], 1ull << 32);
  EXPECT_EQ(info.dims[3], 1u);
  EXPECT_EQ(info.strides[0], 2u);
  EXPECT_EQ(info.strides[1], 640u);
  EXPECT_EQ(info.strides[2], 640u * 77);
  EXPECT_EQ(info.element_strides[0], 1u);
  EXPECT_EQ(info.element_strides[1], 2u);
  EXPECT_EQ(info.extent(1), 16u);
  EXPECT_EQ(info.swizzle_bytes, 128u);
  EXPECT_TRUE(info.fill_nan);
  EXPECT_EQ(info.box_bytes(), 64u * 16 * 2 * 2);
}

TEST(TensorMap, DamagedBytesAreRefused) {
  DiagSink diags;
  Result<TensorMap> map = EncodeTensorMap(Good(), diags);
  ASSERT_TRUE(map.ok());
  TensorMapInfo info;
  for (int i = 0; i < 120; i++) {
    TensorMap damaged = *map;
    damaged.bytes[i] ^= 0x40;
    EXPECT_FALSE(DecodeTensorMap(damaged.bytes, &info)) << i;
  }
  EXPECT_FALSE(DecodeTensorMap(TensorMap().bytes, &info));
}

TEST(TensorMap, EveryRule) {
  struct Case {
    const char* message;
    std::function<void(TensorMapDesc&)> break_it;
  };
  const Case cases[] = {
      {"element type `f12`", [](auto& d) { d.dtype = "f12"; }},
      {"the rank is 0", [](auto& d) { d.dims = {}; }},
      {"the rank is 6", [](auto& d) { d.dims = {1, 1, 1, 1, 1, 1}; }},
      {"1 strides for rank 3", [](auto& d) { d.strides_bytes.pop_back(); }},
      {"2 box extents for rank 3", [](auto& d) { d.box.pop_back(); }},
      {"1 element strides for rank 3", [](auto& d) { d.element_strides = {1}; }},
      {"not aligned to 16", [](auto& d) { d.base += 8; }},
      {"dimension 1 has 0 elements", [](auto& d) { d.dims[1] = 0; }},
      {"dimension 2 has 4294967297 elements", [](auto& d) { d.dims[2] = (1ull << 32) + 1; }},
      {"stride of dimension 1 is 600 bytes", [](auto& d) { d.strides_bytes[0] = 600; }},
      {"stride of dimension 2 is 1099511627776", [](auto& d) { d.strides_bytes[1] = 1ull << 40; }},
      {"box has 0 elements in dimension 1", [](auto& d) { d.box[1] = 0; }},
      {"box has 257 elements in dimension 1", [](auto& d) { d.box[1] = 257; }},
      {"element stride of dimension 1 is 9",
       [](auto& d) {
         d.element_strides = {1, 9, 1};
       }},
      {"element stride of dimension 2 is 0",
       [](auto& d) {
         d.element_strides = {1, 1, 0};
       }},
      {"swizzle of 96 bytes", [](auto& d) { d.swizzle_bytes = 96; }},
      {"a swizzle of 64 bytes in atoms of 32",
       [](auto& d) { d.box[0] = 32, d.swizzle_bytes = 64, d.swizzle_atom = 32; }},
      {"not two in each byte", [](auto& d) { d.dtype = "u4", d.dims[0] = 301; }},
      {"L2 promotion of 32", [](auto& d) { d.l2_promotion_bytes = 32; }},
      {"60 × 2 = 120 bytes", [](auto& d) { d.box[0] = 60; }},
      {"innermost extent is 256 bytes, the swizzle spans 128", [](auto& d) { d.box[0] = 128; }},
      {"NaN fill of s16",
       [](auto& d) {
         d.dtype = "s16";
         d.fill_nan = true;
       }},
      {"NaN fill of e4m3",
       [](auto& d) {
         d.dtype = "e4m3";
         d.strides_bytes = {320, 320 * 77};
         d.fill_nan = true;
       }},
      {"no 64-bit address", [](auto& d) { d.base = ~0xffull; }},
  };
  for (const Case& c : cases) {
    TensorMapDesc d = Good();
    c.break_it(d);
    DiagSink diags;
    EXPECT_FALSE(EncodeTensorMap(d, diags).ok()) << c.message;
    ASSERT_EQ(diags.all().size(), 1u) << c.message;
    EXPECT_NE(diags.all()[0].message.find(c.message), std::string::npos)
        << diags.all()[0].message << " lacks " << c.message;
  }
}

TEST(TensorMap, AllBrokenRulesAreReported) {
  TensorMapDesc d = Good();
  d.base = 1;
  d.strides_bytes = {2, 4};
  d.box = {64, 300, 0};
  DiagSink diags;
  EXPECT_FALSE(EncodeTensorMap(d, diags).ok());
  EXPECT_EQ(diags.all().size(), 5u);
}

}  // namespace
}  // namespace tilec::runtime::emulator
