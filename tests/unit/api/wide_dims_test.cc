// Dims of 2³¹ and more: which kernels take them, and that what they touch lies where it should.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "include/tilec/tilec.h"
#include "ir/narrow_dims.h"
#include "tests/unit/api/loaded.h"

namespace tilec {
namespace {

constexpr int64_t kTwo31 = int64_t{1} << 31;

// Bytes behind `first`, as numbers; and each of them and one is stored where it came from.
constexpr const char* kFar = R"(
kernel far(X: u8[N], Z: out u8[N], Y: out i32[P, 256], first: i64) {
  parallel p in 0..P {
    for n in tiles(first + p * 256..first + p * 256 + 256, 256) {
      Y[p, :] = X[n] as i32
      Z[n] = X[n] + 1
    }
  }
}
kernel numbered(X: u8[N], Y: out i32[P, 256], first: i64) {
  parallel p in 0..P {
    for n in tiles(first + p * 256..first + p * 256 + 256, 256) {
      Y[p, :] = select(n.index >= 7, X[n] as i32, 0)
    }
  }
}
)";

Kernel Compiled(const char* kernel) {
  CompilerOptions options;
  options.disk_cache = false;
  auto compiler = Compiler::Create(options);
  EXPECT_TRUE(compiler.ok());
  auto compiled = compiler->CompileText(kFar, "far.tile", kernel);
  EXPECT_TRUE(compiled.ok());
  return *compiled;
}

TEST(WideDims, ATileBehindThem) {
  Device device = *Device::Open("emulator");
  const int64_t n = kTwo31 + 1000, first = kTwo31 - 100;
  // Pages that nobody touches are not there.
  const uint64_t x = *device.Alloc(n), z = *device.Alloc(n), y = *device.Alloc(4 * 256 * 4);
  std::vector<uint8_t> some(n - first);
  for (size_t i = 0; i < some.size(); ++i) some[i] = static_cast<uint8_t>(i * 7 + i / 256);
  ASSERT_TRUE(device.CopyIn(x + first, some.data(), some.size()).ok());
  Args args;
  args.Set("X", Tensor{DType::kU8, x, {n}});
  args.Set("Y", Tensor{DType::kI32, y, {4, 256}});
  args.Set("first", first);
  const Status refused = Compiled("numbered").Launch(device, args);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.text().find("error[R517]: dim 0 of tensor `X` is 2147484648: `numbered` counts "
                                "along it in 32 bits"),
            std::string::npos)
      << refused.text();
  args.Set("Z", Tensor{DType::kU8, z, {n}});
  const Status status = Compiled("far").Launch(device, args);
  ASSERT_TRUE(status.ok()) << status.text();
  std::vector<int32_t> numbers(4 * 256);
  std::vector<uint8_t> after(some.size());
  ASSERT_TRUE(device.CopyOut(numbers.data(), y, numbers.size() * 4).ok());
  ASSERT_TRUE(device.CopyOut(after.data(), z + first, after.size()).ok());
  for (size_t i = 0; i < 1024; ++i) EXPECT_EQ(numbers[i], some[i]) << i;
  for (size_t i = 0; i < after.size(); ++i)
    EXPECT_EQ(after[i], i < 1024 ? static_cast<uint8_t>(some[i] + 1) : 0) << i;
}

class ImageTest : public LibraryTest {
 protected:
  std::vector<std::string> Wide(const std::string& path, const std::string& kernel) {
    Load(path, kernel);
    DiagSink diags;
    const api::Call call = Of({});
    api::PipelineOptions options;
    auto fn = api::MakeTileIr(loaded_, kernel, call, nullptr, diags);
    EXPECT_TRUE(fn.ok()) << RenderAll(diags, loaded_.sources);
    narrow_ = ir::NarrowDims(*fn);
    auto warps = api::LowerToWarps(loaded_, std::move(*fn), options, nullptr, diags);
    EXPECT_TRUE(warps.ok()) << RenderAll(diags, loaded_.sources);
    auto image = api::MakeImage(loaded_, *warps, options, nullptr, diags);
    EXPECT_TRUE(image.ok()) << RenderAll(diags, loaded_.sources);
    backend::KernelImage read;
    std::string why;
    EXPECT_TRUE(backend::FromJson(backend::ToJson(*image), &read, &why)) << why;
    EXPECT_EQ(read.wide, image->wide);
    return image->wide;
  }
  std::set<std::string> narrow_;  // of the program of tiles
};

using Names = std::vector<std::string>;

TEST_F(ImageTest, FlatBuffersOfOptimisersAreWide) {
  for (const char* kernel : {"adamw", "lion", "sgd"}) {
    EXPECT_EQ(Wide("std/models/optimiser.tile", kernel), Names{"N"}) << kernel;
    EXPECT_EQ(narrow_, std::set<std::string>{}) << kernel;
  }
  // What a piece has behind its end is found by places in a tile.
  EXPECT_EQ(Wide("std/models/optimiser.tile", "squares"), (Names{"N", "P"}));
}

TEST_F(ImageTest, WhatCopiesBringIsNot) {
  EXPECT_EQ(Wide("std/matmul.tile", "gemm"), Names{});
  EXPECT_EQ(narrow_, std::set<std::string>{});  // that is the machine's doing
}

TEST_F(ImageTest, WhatIsNumberedIsNot) {
  EXPECT_EQ(Wide("std/models/philox.tile", "random_words"), Names{});
  EXPECT_EQ(narrow_, std::set<std::string>{"N"});
}

}  // namespace
}  // namespace tilec
