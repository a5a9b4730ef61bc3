// The CUDA device against stand-ins of the driver library (fake_driver.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/cuda_api.h"
#include "runtime/device.h"
#include "runtime/ptx_text.h"

namespace tilec::runtime {
namespace {

std::string Lib(const char* variant) { return std::string(TILEC_FAKE_DIR) + "/" + variant; }

// Opens `names` and returns the one diagnostic.
std::string LoadError(const std::vector<std::string>& names) {
  DiagSink diags;
  const auto api = cuda::LoadDriver(names, diags);
  EXPECT_FALSE(api.ok());
  EXPECT_EQ(diags.all().size(), 1u);
  return RenderAll(diags, SourceMap());
}

TEST(LoadDriver, NoLibraryNamesWhatWasLookedForAndTheEmulator) {
  const std::string text = LoadError({"libno-such-driver.so.1", "libno-such-driver.so"});
  EXPECT_NE(text.find("error[R501]: no NVIDIA driver found: libno-such-driver.so.1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("--device=emulator"), std::string::npos);
}
TEST(LoadDriver, SecondNameIsTried) {
  DiagSink diags;
  const auto api = cuda::LoadDriver({"libno-such-driver.so", Lib("libfake_good.so")}, diags);
  ASSERT_TRUE(api.ok());
  EXPECT_EQ((*api)->driver_version, 12040);
  EXPECT_EQ((*api)->path, Lib("libfake_good.so"));
}
TEST(LoadDriver, StubIsRecognised) {
  EXPECT_NE(LoadError({Lib("libfake_stub.so")}).find("error[R503]"), std::string::npos);
}
TEST(LoadDriver, OldDriverNamesTheMissingFunction) {
  const std::string text = LoadError({Lib("libfake_old.so")});
  EXPECT_NE(text.find("error[R502]: the NVIDIA driver lacks `cuTensorMapEncodeTiled`"),
            std::string::npos)
      << text;
}
TEST(LoadDriver, NoGpu) {
  EXPECT_NE(LoadError({Lib("libfake_nogpu.so")})
                .find("error[R504]: no CUDA device 0: the driver "
                      "sees no GPU"),
            std::string::npos);
}

// The rest runs with LD_LIBRARY_PATH at a directory whose libcuda.so.1 is the good stand-in.
class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = OpenCuda(0, diags_);
    ASSERT_TRUE(opened.ok()) << RenderAll(diags_, SourceMap());
    device_ = std::move(*opened);
  }
  std::string Text() const { return RenderAll(diags_, SourceMap()); }
  DiagSink diags_;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, Describes) {
  EXPECT_EQ(device_->kind(), "cuda");
  EXPECT_EQ(device_->isa(), "sm_90a");
  EXPECT_EQ(device_->description(), "Fake GPU (sm_90a, 4 SMs, 8 GiB, driver CUDA 12.4)");
}
TEST_F(CudaDeviceTest, OrdinalOutOfRange) {
  EXPECT_FALSE(OpenCuda(3, diags_).ok());
  EXPECT_NE(Text().find("error[R504]: no CUDA device 3: devices 0 to 0 exist"), std::string::npos);
  EXPECT_FALSE(OpenCuda(-1, diags_).ok());
}
TEST_F(CudaDeviceTest, CopiesAndFills) {
  const auto p = device_->Alloc(16, diags_);
  ASSERT_TRUE(p.ok());
  ASSERT_TRUE(device_->Fill(*p, 7, 16, diags_).ok());
  uint8_t one = 9, out[16];
  ASSERT_TRUE(device_->CopyIn(*p + 3, &one, 1, diags_).ok());
  ASSERT_TRUE(device_->CopyOut(out, *p, 16, diags_).ok());
  EXPECT_EQ(out[2], 7);
  EXPECT_EQ(out[3], 9);
  device_->Free(*p);
}
TEST_F(CudaDeviceTest, OutOfMemoryIsADiagnostic) {
  EXPECT_FALSE(device_->Alloc(uint64_t{1} << 40, diags_).ok());
  EXPECT_NE(Text().find("error[R505]: cuMemAlloc of 1099511627776 bytes failed"),
            std::string::npos);
}
// The driver has 4 multiprocessors.
TEST_F(CudaDeviceTest, GridsThatWaitMayBeginBesideTheOneBefore) {
  const auto module =
      device_->Load(".version 8.0\n.target sm_90a\n.visible .entry k() {}\n", {}, diags_);
  ASSERT_TRUE(module.ok()) << Text();
  const auto p = device_->Alloc(64, diags_);
  const auto beside = [&](uint32_t ctas, bool dependent, bool if_full) {
    LaunchConfig config;
    config.grid[0] = ctas;
    config.dependent = dependent;
    config.dependent_if_full = if_full;
    EXPECT_TRUE(
        device_->Launch(**module, "k", config, {KernelArg::Of(*p)}, 0, nullptr, diags_).ok())
        << Text();
    uint32_t seen[6] = {};
    EXPECT_TRUE(device_->CopyOut(seen, *p, sizeof seen, diags_).ok());
    return seen[5] == 1;
  };
  EXPECT_FALSE(beside(3, false, false));
  EXPECT_TRUE(beside(3, true, false));
  EXPECT_FALSE(beside(4, true, false));
  EXPECT_TRUE(beside(4, true, true));
}

TEST_F(CudaDeviceTest, LaunchPassesShapeClusterAndSharedMemory) {
  const auto module =
      device_->Load(".version 8.0\n.target sm_90a\n.visible .entry k() {}\n", {}, diags_);
  ASSERT_TRUE(module.ok()) << Text();
  EXPECT_EQ((*module)->entries(), std::vector<std::string>{"k"});
  const auto p = device_->Alloc(64, diags_);
  LaunchConfig config;
  config.grid[0] = 10;
  config.block[0] = 384;
  config.cluster[0] = 2;
  config.smem_bytes = 200000;
  LaunchStats stats;
  const auto stream = device_->NewStream(diags_);
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(
      device_->Launch(**module, "k", config, {KernelArg::Of(*p)}, *stream, &stats, diags_).ok())
      << Text();
  uint32_t seen[5];
  ASSERT_TRUE(device_->CopyOut(seen, *p, sizeof seen, diags_).ok());
  EXPECT_EQ(seen[0], 10u);
  EXPECT_EQ(seen[1], 384u);
  EXPECT_EQ(seen[2], 200000u);
  EXPECT_EQ(seen[3], 1u);
  EXPECT_EQ(seen[4], 2u);
  EXPECT_DOUBLE_EQ(stats.milliseconds, 1.5);

  config.smem_bytes = 300000;
  EXPECT_FALSE(
      device_->Launch(**module, "k", config, {KernelArg::Of(*p)}, 0, nullptr, diags_).ok());
  EXPECT_FALSE(device_->Launch(**module, "q", LaunchConfig(), {}, 0, nullptr, diags_).ok());
  EXPECT_FALSE(device_->Synchronize(77, diags_).ok());
  EXPECT_NE(Text().find("error[R525]: `k` needs 300000 bytes of shared memory per CTA"),
            std::string::npos)
      << Text();
  EXPECT_NE(Text().find("error[R507]: `the module` has no entry `q`"), std::string::npos) << Text();
  EXPECT_NE(Text().find("error[R508]: stream 77"), std::string::npos) << Text();
  device_->Free(*p);
}
TEST_F(CudaDeviceTest, JitLogsCarryTilePlaces) {
  LoadOptions options;
  options.name = "gemm.ptx";
  options.lines = {{3, "gemm.tile:1:1"}, {6, "gemm.tile:12:5 (dot)"}, {9, "gemm.tile:14:1"}};
  EXPECT_FALSE(device_->Load(".version 8.0\nSYNTAX_ERROR", options, diags_).ok());
  EXPECT_EQ(Text(),
            "error[R506]: the driver could not assemble `gemm.ptx`\n"
            "  = a fake error (CUDA_ERROR_INVALID_PTX)\n"
            "  = ptxas kernel.ptx, line 7; error : Parsing error  [from gemm.tile:12:5 (dot)]\n"
            "  help: the text is for ``, this device is sm_90a\n");
  diags_.Clear();
  EXPECT_FALSE(device_->Load(".version 99.0\n", options, diags_).ok());
  EXPECT_NE(Text().find("says `.version 99.0`, the driver is of CUDA 12.4"), std::string::npos)
      << Text();
}
TEST_F(CudaDeviceTest, LocalMemoryIsSaid) {
  LoadOptions options;
  options.name = "gemm.ptx";
  const std::string text = ".version 8.0\n.target sm_90a\n.visible .entry k(){ ret; }\n";
  EXPECT_TRUE(device_->Load(text, options, diags_).ok());
  EXPECT_TRUE(diags_.all().empty()) << Text();
  EXPECT_TRUE(device_->Load(text + "// SPILLS\n", options, diags_).ok());
  EXPECT_EQ(
      Text(),
      "note[R536]: `gemm.ptx` keeps 96 bytes of each thread in local memory: its threads have "
      "168 registers\n"
      "  help: choose smaller tiles; `tilec build` beside a ptxas names the role that is "
      "fullest\n");
}
TEST_F(CudaDeviceTest, MachineCodeIsTakenOrItsRefusalIsSaid) {
  LoadOptions options;
  options.name = "gemm.ptx";
  options.cubin =
      "\x7f"
      "ELF good";
  // The text would be refused: the machine code is what is loaded.
  EXPECT_TRUE(device_->Load(".version 8.0\nSYNTAX_ERROR", options, diags_).ok());
  EXPECT_TRUE(diags_.all().empty()) << Text();
  options.cubin =
      "\x7f"
      "ELF SYNTAX_ERROR";
  EXPECT_TRUE(device_->Load(".version 8.0\n", options, diags_).ok());
  EXPECT_EQ(
      Text(),
      "warning[R558]: the driver does not take the machine code of `gemm.ptx` and assembles its "
      "PTX: a fake error (CUDA_ERROR_INVALID_PTX)\n");
}
TEST_F(CudaDeviceTest, TensorMaps) {
  TensorMapDesc d;
  d.dtype = "bf16";
  d.dims = {64, 128};
  d.strides_bytes = {128};
  d.box = {64, 64};
  d.swizzle_bytes = 128;
  d.l2_promotion_bytes = 128;
  const auto map = device_->EncodeTensorMap(d, diags_);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->bytes[0], 9);  // bf16
  EXPECT_EQ(map->bytes[1], 2);  // rank
  EXPECT_EQ(map->bytes[2], 3);  // 128-byte swizzle
  EXPECT_EQ(map->bytes[3], 2);  // 128-byte promotion
  d.dtype = "q7";
  EXPECT_FALSE(device_->EncodeTensorMap(d, diags_).ok());
  d.dtype = "bf16";
  d.dims = {8, 8, 8, 8, 8};
  d.box = {8, 8, 8, 8, 8};
  d.strides_bytes = {16, 128, 1024, 8192};
  EXPECT_FALSE(device_->EncodeTensorMap(d, diags_).ok());
  EXPECT_NE(Text().find("cuTensorMapEncodeTiled failed"), std::string::npos) << Text();
  EXPECT_NE(Text().find("strides [16, 128, 1024, 8192] bytes"), std::string::npos) << Text();
}
TEST_F(CudaDeviceTest, ATensorMapIsMovedByTheDriver) {
  TensorMapDesc d;
  d.dtype = "bf16";
  d.base = 0x1000;
  d.dims = {64, 128};
  d.strides_bytes = {128};
  d.box = {64, 64};
  auto map = device_->EncodeTensorMap(d, diags_);
  ASSERT_TRUE(map.ok());
  TensorMap before = *map;
  ASSERT_TRUE(device_->MoveTensorMap(&*map, d, 0x123450, diags_).ok()) << Text();
  uint64_t base = 0;
  std::memcpy(&base, map->bytes + 8, 8);  // where the stand-in keeps it
  EXPECT_EQ(base, 0x123450u);
  std::memcpy(before.bytes + 8, &base, 8);
  EXPECT_EQ(std::memcmp(before.bytes, map->bytes, sizeof before.bytes), 0);
}
TEST_F(CudaDeviceTest, AGraphRunsItsLaunchesInARowAndTheirArgumentsAreReplaced) {
  const auto module =
      device_->Load(".version 8.0\n.target sm_90a\n.visible .entry k() {}\n", {}, diags_);
  ASSERT_TRUE(module.ok()) << Text();
  const auto a = device_->Alloc(64, diags_), b = device_->Alloc(64, diags_);
  const auto grid = [&](DeviceAddress p) {
    uint32_t seen[6] = {};
    EXPECT_TRUE(device_->CopyOut(seen, p, sizeof seen, diags_).ok());
    EXPECT_TRUE(device_->Fill(p, 0, sizeof seen, diags_).ok());
    return std::pair(seen[0], seen[4]);  // CTAs, cluster
  };
  using Seen = std::pair<uint32_t, uint32_t>;
  LaunchConfig one, two;
  one.grid[0] = 10;
  two.grid[0] = 20;
  two.cluster[0] = 2;
  two.smem_bytes = 200000;
  {
    const auto graph = device_->NewGraph();
    ASSERT_TRUE(graph);
    EXPECT_TRUE(graph->Run(0, diags_).ok());  // nothing in it
    ASSERT_TRUE(graph->Add(**module, "k", one, {KernelArg::Of(*a)}, diags_).ok()) << Text();
    ASSERT_TRUE(graph->Run(0, diags_).ok()) << Text();
    EXPECT_EQ(grid(*a), Seen(10, 1));
    ASSERT_TRUE(graph->Add(**module, "k", two, {KernelArg::Of(*b)}, diags_).ok()) << Text();
    ASSERT_TRUE(graph->Replace(0, {KernelArg::Of(*b)}, diags_).ok());  // before it is made again
    ASSERT_TRUE(graph->Run(0, diags_).ok()) << Text();
    EXPECT_EQ(grid(*a), Seen(0, 0));
    EXPECT_EQ(grid(*b), Seen(20, 2)) << "the second wrote last";
    ASSERT_TRUE(graph->Replace(1, {KernelArg::Of(*a)}, diags_).ok());
    ASSERT_TRUE(graph->Run(0, diags_).ok()) << Text();
    EXPECT_EQ(grid(*a), Seen(20, 2));
    EXPECT_EQ(grid(*b), Seen(10, 1));
    EXPECT_FALSE(graph->Run(77, diags_).ok());
    EXPECT_FALSE(graph->Add(**module, "q", one, {}, diags_).ok());
  }
  device_->Free(*a);
  device_->Free(*b);
}
TEST_F(CudaDeviceTest, AdoptedStreamsKeepTheirId) {
  int anything = 0;
  const auto a = device_->AdoptStream(&anything);
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(device_->AdoptStream(&anything), a);
  EXPECT_EQ(device_->AdoptStream(nullptr), 0);
}

TEST(PtxText, EntriesSkipComments) {
  EXPECT_EQ(PtxEntries("// .entry no\n/* .entry no2 */ .visible .entry yes(.param .u64 p)\n"
                       ".entry $also_yes ()"),
            (std::vector<std::string>{"yes", "$also_yes"}));
  EXPECT_EQ(PtxVersion(".version 8.0\n.target sm_90a"), "8.0");
  EXPECT_EQ(PtxTarget(".version 8.0\n.target sm_90a, debug"), "sm_90a");
  EXPECT_TRUE(PtxEntries("/* .entry").empty());
}

}  // namespace
}  // namespace tilec::runtime
