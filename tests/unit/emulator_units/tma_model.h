// An element-by-element model of boxes: every element of every box is located by its coordinates,
// with the swizzle written as a permutation of chunks inside rows of the pattern. And the maps and
// places that it is compared on.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/emulator/floats.h"
#include "runtime/emulator/tensor_map.h"

namespace tilec::runtime::emulator {

constexpr uint32_t kSmem = 64 * 1024;

// Byte of linear position `p` of a tile at `base`: line of 128 bytes, chunk in the line.
inline uint32_t SwizzledAt(uint32_t base, uint32_t p, uint32_t swizzle) {
  const uint32_t a = base + p;
  const uint32_t line = a / 128, chunk = a / 16 % 8, byte = a % 16;
  uint32_t moved = chunk;
  if (swizzle == 128) moved = chunk ^ (line % 8);
  if (swizzle == 64) moved = chunk / 4 * 4 + (chunk % 4 ^ line % 4);
  if (swizzle == 32) moved = chunk / 2 * 2 + (chunk % 2 ^ line % 2);
  return line * 128 + moved * 16 + byte;
}

struct Tensor {
  std::vector<uint8_t> memory;
  TensorMapDesc desc;
  TensorMapInfo info;

  uint8_t* Element(const int64_t* x) {
    uint64_t offset = static_cast<uint64_t>(x[0]) * ElementBytes(info.element);
    for (uint32_t i = 1; i < info.rank; i++)
      offset += static_cast<uint64_t>(x[i]) * info.strides[i];
    return reinterpret_cast<uint8_t*>(info.base) + offset;
  }
  bool Check(uint64_t address, uint64_t bytes) const {
    const auto lo = reinterpret_cast<uint64_t>(memory.data());
    return address >= lo && address + bytes <= lo + memory.size();
  }
};

inline Tensor Make(const char* dtype, std::vector<uint64_t> dims, std::vector<uint32_t> box,
                   int swizzle, std::vector<uint32_t> element_strides = {}, bool nan = false) {
  Tensor t;
  t.desc.dtype = dtype;
  const uint32_t size = ElementBytes(*ElementFromName(dtype));
  uint64_t stride = (dims[0] * size + 15) / 16 * 16 + 16;
  for (size_t i = 1; i < dims.size(); i++) {
    t.desc.strides_bytes.push_back(stride);
    stride = stride * dims[i] + 32;
  }
  t.memory.resize(stride + 64);
  std::mt19937 random(17);
  for (auto& b : t.memory) b = static_cast<uint8_t>(random());
  t.desc.base = (reinterpret_cast<uint64_t>(t.memory.data()) + 15) / 16 * 16;
  t.desc.dims = std::move(dims);
  t.desc.box = std::move(box);
  t.desc.swizzle_bytes = swizzle;
  t.desc.element_strides = std::move(element_strides);
  t.desc.fill_nan = nan;
  DiagSink diags;
  Result<TensorMap> map = EncodeTensorMap(t.desc, diags);
  EXPECT_TRUE(map.ok());
  EXPECT_TRUE(DecodeTensorMap(map->bytes, &t.info));
  return t;
}

// Calls f(linear byte position, coordinates, inside?) for all elements of the box.
template <typename F>
void ForEachElement(const TensorMapInfo& m, const int32_t* coords, F f) {
  uint32_t count = 1;
  for (int i = 0; i < 5; i++) count *= m.extent(i);
  for (uint32_t e = 0; e < count; e++) {
    uint32_t rest = e;
    int64_t x[5] = {};
    bool inside = true;
    for (uint32_t i = 0; i < 5; i++) {
      const uint32_t j = rest % m.extent(i);
      rest /= m.extent(i);
      if (i >= m.rank) continue;
      x[i] = coords[i] + int64_t{j} * (i == 0 ? 1 : m.element_strides[i]);
      inside = inside && x[i] >= 0 && x[i] < static_cast<int64_t>(m.dims[i]);
    }
    // A swizzle wider than the row spreads the rows to its span.
    const uint32_t size = ElementBytes(m.element);
    const uint32_t pitch = std::max(m.box[0] * size, m.swizzle_bytes);
    f(e / m.box[0] * pitch + e % m.box[0] * size, x, inside);
  }
}

struct Config {
  const char* dtype;
  std::vector<uint64_t> dims;
  std::vector<uint32_t> box;
  int swizzle;
  std::vector<uint32_t> element_strides;
};

inline std::vector<Config> Configs() {
  return {
      {"u8", {100}, {64}, 0, {}},
      {"f32", {57}, {32}, 128, {}},
      {"bf16", {100, 50}, {64, 40}, 128, {}},
      {"bf16", {100, 50}, {32, 13}, 64, {}},
      {"bf16", {100, 50}, {16, 9}, 32, {}},
      {"bf16", {100, 50}, {104, 9}, 0, {}},
      {"e4m3", {300, 20}, {128, 16}, 128, {}},
      {"f64", {20, 30}, {16, 8}, 128, {}},
      {"f16", {64, 20, 6}, {64, 7, 3}, 128, {}},
      {"s32", {40, 7, 6, 5}, {8, 3, 4, 2}, 32, {}},
      {"f32", {40, 7, 6, 5, 4}, {16, 3, 2, 2, 3}, 64, {}},
      {"f16", {40, 30, 20}, {32, 11, 9}, 64, {1, 2, 3}},
      {"bf16", {101, 50}, {48, 10}, 128, {}},
      {"f16", {64, 20, 6}, {16, 7, 3}, 128, {}},
      {"s16", {99, 20}, {8, 9}, 32, {}},
      {"tf32", {60, 20}, {32, 8}, 128, {}},
  };
}

inline std::vector<std::vector<int32_t>> Corners(const Config& c) {
  const size_t rank = c.dims.size();
  std::vector<std::vector<int32_t>> out;
  out.push_back(std::vector<int32_t>(rank, 0));
  // The first coordinate lies on 16 bytes.
  const auto step = static_cast<int32_t>(16 / ElementBytes(*ElementFromName(c.dtype)));
  for (size_t i = 0; i < rank; i++) {
    const auto dim = static_cast<int32_t>(c.dims[i]);
    for (int32_t at : {-3, 1, dim - 2, dim + 5, -300, INT32_MAX, INT32_MIN}) {
      std::vector<int32_t> v(rank, 1);
      v[i] = at;
      v[0] = v[0] / step * step;
      out.push_back(v);
    }
  }
  out.push_back(std::vector<int32_t>(rank, -1));
  out.back()[0] = -step;
  return out;
}

// f32 to tf32, nearest even, by hand: 10 mantissa bits stay.
inline void Round(uint8_t* value) {
  uint32_t v;
  std::memcpy(&v, value, 4);
  const uint32_t low = v & 0x1fff;
  const bool nan = (v & 0x7fffffff) > 0x7f800000;
  v -= low;
  if (low > 0x1000 || (low == 0x1000 && (v & 0x2000))) v += 0x2000;
  if (nan) v = 0x7fffe000;
  std::memcpy(value, &v, 4);
}

// What the boxes of two descriptions of the same bytes put in shared memory.
inline std::vector<uint8_t> Loaded(const TensorMapDesc& desc, int32_t x, int32_t y) {
  DiagSink diags;
  Result<TensorMap> map = EncodeTensorMap(desc, diags);
  EXPECT_TRUE(map.ok());
  TensorMapInfo info;
  EXPECT_TRUE(DecodeTensorMap(map->bytes, &info));
  std::vector<uint8_t> smem(kSmem, 0xa5);
  const int32_t at[2] = {x, y};
  EXPECT_TRUE(TmaLoad(info, at, smem.data(), kSmem, 1024, [](uint64_t, uint64_t, bool) {
                return true;
              }).ok());
  return smem;
}

}  // namespace tilec::runtime::emulator
