// A loaded kernel on a device that records what it is asked for: tensor maps that are kept,
// launches that move to other addresses, grids and tensors without elements.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/launch.h"
#include "tests/unit/runtime/launch_gemm.h"

namespace tilec::runtime {

namespace {

// A device that counts and remembers.
class RecordingDevice final : public Device {
 public:
  struct Loaded final : Module {
    std::vector<std::string> entries() const override { return {"gemm"}; }
  };
  std::string kind() const override { return "recording"; }
  std::string description() const override { return "recording"; }
  std::string isa() const override { return "sm_90a"; }
  Result<DeviceAddress> Alloc(uint64_t, DiagSink&) override {
    return ++allocs, DeviceAddress{0x800};
  }
  void Free(DeviceAddress) override { ++frees; }
  Result<> CopyIn(DeviceAddress, const void*, uint64_t, DiagSink&) override { return Done(); }
  Result<> CopyOut(void*, DeviceAddress, uint64_t, DiagSink&) override { return Done(); }
  Result<> Fill(DeviceAddress, uint8_t, uint64_t, DiagSink&) override { return Done(); }
  Result<std::unique_ptr<Module>> Load(const std::string&, const LoadOptions& o,
                                       DiagSink&) override {
    options = o;
    return std::unique_ptr<Module>(std::make_unique<Loaded>());
  }
  Result<TensorMap> EncodeTensorMap(const TensorMapDesc& d, DiagSink&) override {
    maps.push_back(d);
    TensorMap m;
    m.bytes[0] = static_cast<uint8_t>(maps.size());
    return m;
  }
  Result<StreamId> NewStream(DiagSink&) override { return 1; }
  Result<> Launch(const Module&, const std::string&, const LaunchConfig&,
                  const std::vector<KernelArg>& args, StreamId, LaunchStats*, DiagSink&) override {
    ++launches;
    last = args;
    return Done();
  }
  Result<> Synchronize(StreamId, DiagSink&) override { return Done(); }

  int allocs = 0, frees = 0, launches = 0;
  LoadOptions options;
  std::vector<TensorMapDesc> maps;
  std::vector<KernelArg> last;
};

TEST(LoadedKernel, CachesTensorMapsAndPassesLines) {
  RecordingDevice device;
  DiagSink diags;
  KernelImage image = Gemm();
  image.lines = {{4, "gemm.tile", 12, 5, "dot"}};
  auto kernel = LoadedKernel::Load(device, image, diags);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(device.options.lines.at(0).text, "gemm.tile:12:5 (dot)");
  const LaunchArgs a = GemmArgs(8, 8, 64), b = GemmArgs(16, 8, 64);
  ASSERT_TRUE((*kernel)->Launch(a, 0, nullptr, diags).ok());
  ASSERT_TRUE((*kernel)->Launch(b, 0, nullptr, diags).ok());
  EXPECT_EQ(device.last[0].bytes[0], 2);
  ASSERT_TRUE((*kernel)->Launch(a, 0, nullptr, diags).ok());
  EXPECT_EQ(device.last[0].bytes[0], 1);
  EXPECT_EQ(device.maps.size(), 2u);
  EXPECT_EQ(device.launches, 3);
}

TEST(LoadedKernel, MovesALaunchToOtherAddresses) {
  RecordingDevice device;
  DiagSink diags;
  KernelImage image = Gemm();
  image.alignment = {{"A", 16}, {"C", 4}};
  auto kernel = LoadedKernel::Load(device, image, diags);
  ASSERT_TRUE(kernel.ok());
  const auto ready = (*kernel)->Prepare(GemmArgs(8, 8, 64), diags);
  ASSERT_TRUE(ready.ok());
  const uint64_t to[] = {0x5000, 0x6000, 0x7004};
  const auto moved = (*kernel)->Move(**ready, to, diags);
  ASSERT_TRUE(moved.ok()) << RenderAll(diags, SourceMap());
  // As if it had been prepared there.
  LaunchArgs there = GemmArgs(8, 8, 64);
  there.tensors["A"].data = to[0];
  there.tensors["B"].data = to[1];
  there.tensors["C"].data = to[2];
  ASSERT_EQ(device.maps.size(), 2u);
  EXPECT_EQ(device.maps[1].base, to[0]);
  const auto anew = (*kernel)->Prepare(there, diags);
  ASSERT_TRUE(anew.ok());
  ASSERT_EQ(moved->args.size(), (*anew)->args.size());
  for (size_t i = 1; i < moved->args.size(); ++i)
    EXPECT_EQ(moved->args[i].bytes, (*anew)->args[i].bytes) << i;
  EXPECT_EQ(moved->args[0].bytes[0], 2);  // the device's second map
  EXPECT_EQ((*ready)->args[0].bytes[0], 1) << "the launch that was moved is as it was";

  const auto error = [&](std::vector<uint64_t> addresses) {
    diags.Clear();
    EXPECT_FALSE((*kernel)->Move(**ready, addresses, diags).ok());
    return RenderAll(diags, SourceMap());
  };
  EXPECT_SAYS(error({0x5000}), "error[R533]: a launch of `gemm` has 3 tensors, 1 addresses");
  EXPECT_SAYS(error({0x5000, 0, 0x7000}), "error[R530]: tensor `B` has 512 elements");
  EXPECT_SAYS(error({0x5008, 0x6000, 0x7000}), "error[R522]: tensor `A` starts at 0x5008");
  EXPECT_SAYS(error({0x5000, 0x6000, 0x7002}), "error[R522]: tensor `C` starts at 0x7002");
}

TEST(LoadedKernel, MovesTensorsWithoutElementsAnywhere) {
  RecordingDevice device;
  DiagSink diags;
  auto kernel = LoadedKernel::Load(device, Gemm(), diags);
  const auto ready = (*kernel)->Prepare(GemmArgs(8, 8, 0), diags);
  ASSERT_TRUE(ready.ok());
  const uint64_t to[] = {0, 3, 0x7000};
  const auto moved = (*kernel)->Move(**ready, to, diags);
  ASSERT_TRUE(moved.ok()) << RenderAll(diags, SourceMap());
  EXPECT_EQ(moved->args[0].bytes, (*ready)->args[0].bytes) << "scratch stands for it";
  EXPECT_EQ(moved->args[1].bytes, KernelArg::Of<uint64_t>(0x7000).bytes);
}

TEST(LoadedKernel, EmptyGridLaunchesNothingAndEmptyTensorsUseScratch) {
  RecordingDevice device;
  DiagSink diags;
  {
    auto kernel = LoadedKernel::Load(device, Gemm(), diags);
    ASSERT_TRUE((*kernel)->Launch(GemmArgs(0, 8, 64), 0, nullptr, diags).ok());
    EXPECT_EQ(device.launches, 0);
    ASSERT_TRUE((*kernel)->Launch(GemmArgs(8, 8, 0), 0, nullptr, diags).ok());
    EXPECT_EQ(device.launches, 1);
    EXPECT_EQ(device.maps.at(0).base, 0x800u);
  }
  EXPECT_EQ(device.allocs, 1);
  EXPECT_EQ(device.frees, 1);
}

TEST(LoadedKernel, WrongTargetAndEntry) {
  RecordingDevice device;
  DiagSink diags;
  KernelImage image = Gemm();
  image.target = "sm_100a";
  EXPECT_FALSE(LoadedKernel::Load(device, image, diags).ok());
  image = Gemm();
  image.entry = "other";
  EXPECT_FALSE(LoadedKernel::Load(device, image, diags).ok());
  ASSERT_EQ(diags.all().size(), 2u);
  EXPECT_STREQ(diags.all()[0].def->code, "R509");
  EXPECT_STREQ(diags.all()[1].def->code, "R507");
}

}  // namespace

}  // namespace tilec::runtime
