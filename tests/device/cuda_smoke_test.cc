// The CUDA device on silicon: loading PTX, tensor maps, launches, faults. Skipped where there is no
// GPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/device.h"
#include "runtime/launch.h"

namespace tilec::runtime {
namespace {

// One CTA copies the box at (0, 32) of a 2-D f32 tensor through shared memory, then writes it
// dense.
constexpr const char* kCopyBox = R"(
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry copy_box(.param .align 64 .b8 map[128], .param .u64 out, .param .b64 offset)
{
  .reg .pred p;
  .reg .b32 t, base, bar, a;
  .reg .b64 m, o, off, g;
  .reg .f32 v;
  mov.u32 t, %tid.x;
  mov.u32 base, smem;
  add.u32 bar, base, 8192;
  mov.b64 m, map;
  cvta.param.u64 m, m;
  ld.param.u64 o, [out];
  ld.param.u64 off, [offset];
  cvta.to.global.u64 o, o;
  setp.ne.u32 p, t, 0;
  @p bra WAIT;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
      [base], [m, {0, 32}], [bar];
WAIT:
  bar.sync 0;
LOOP:
  mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
  @!p bra LOOP;
  shl.b32 a, t, 2;
  add.u32 a, a, base;
  ld.shared.f32 v, [a];
  mul.wide.u32 g, t, 4;
  add.u64 g, g, o;
  add.u64 g, g, off;
  st.global.f32 [g], v;
  ret;
}
)";

class CudaSmoke : public ::testing::Test {
 protected:
  void SetUp() override {
    DiagSink quiet;
    auto opened = OpenCuda(0, quiet);
    if (!opened.ok()) GTEST_SKIP() << quiet.all().front().message;
    if ((*opened)->isa() != "sm_90a") GTEST_SKIP() << (*opened)->description();
    device_ = std::move(*opened);
  }
  std::string Text() const { return RenderAll(diags_, SourceMap()); }
  DiagSink diags_;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaSmoke, BoxThroughTheTensorMemoryAccelerator) {
  backend::KernelImage image;
  image.name = image.entry = "copy_box";
  image.target = "sm_90a";
  image.ptx = kCopyBox;
  using backend::Direction;
  using backend::EntryParam;
  image.tensors = {{"X", "f32", Direction::kIn, {Expr::Name("M"), Expr::Name("N")}, false},
                   {"Y", "f32", Direction::kOut, {Expr::Const(32), Expr::Const(32)}, false}};
  image.tensor_maps = {
      {"X", "f32", {Expr::Name("N"), Expr::Name("M")}, {*ParseExpr("X.stride0 * 4")}, {32, 32}, {},
       0}};
  image.params = {{EntryParam::Kind::kTensorMap, "X", 0, {}, ""},
                  {EntryParam::Kind::kTensorPointer, "Y", -1, {}, ""},
                  {EntryParam::Kind::kInt, "", -1, Expr::Const(0), ""}};
  image.block = 1024;
  image.smem_bytes = 100000;  // beyond the default limit, so the opt-in is exercised
  auto kernel = LoadedKernel::Load(*device_, image, diags_);
  ASSERT_TRUE(kernel.ok()) << Text();

  constexpr int64_t kM = 50, kN = 64;  // rows 32…49 exist, 50…63 read as zero
  std::vector<float> x(kM * kN), y(32 * 32, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto xd = device_->Alloc(x.size() * 4, diags_), yd = device_->Alloc(y.size() * 4, diags_);
  ASSERT_TRUE(xd.ok() && yd.ok());
  EXPECT_EQ(*xd % 256, 0u);
  ASSERT_TRUE(device_->CopyIn(*xd, x.data(), x.size() * 4, diags_).ok());
  LaunchArgs args;
  args.tensors["X"] = {"f32", *xd, {kM, kN}, {}};
  args.tensors["Y"] = {"f32", *yd, {32, 32}, {}};
  LaunchStats stats;
  const auto stream = device_->NewStream(diags_);
  ASSERT_TRUE((*kernel)->Launch(args, *stream, &stats, diags_).ok()) << Text();
  EXPECT_GT(stats.milliseconds, 0);
  ASSERT_TRUE((*kernel)->Launch(args, *stream, nullptr, diags_).ok()) << Text();
  ASSERT_TRUE(device_->Synchronize(*stream, diags_).ok()) << Text();
  ASSERT_TRUE(device_->CopyOut(y.data(), *yd, y.size() * 4, diags_).ok());
  for (int64_t r = 0; r < 32; ++r)
    for (int64_t c = 0; c < 32; ++c)
      ASSERT_EQ(y[r * 32 + c], 32 + r < kM ? x[(32 + r) * kN + c] : 0) << r << ", " << c;
  device_->Free(*xd);
  device_->Free(*yd);
}

TEST_F(CudaSmoke, SyntaxErrorsComeWithTheLog) {
  LoadOptions options;
  options.name = "bad.ptx";
  options.lines = {{1, "bad.tile:1:1"}, {4, "bad.tile:7:3 (load)"}};
  EXPECT_FALSE(device_
                   ->Load(".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {"
                          "\n  frob.u32 r, 1;\n}\n",
                          options, diags_)
                   .ok());
  EXPECT_NE(Text().find("error[R506]: the driver could not assemble `bad.ptx`"), std::string::npos)
      << Text();
  EXPECT_NE(Text().find("[from bad.tile:7:3 (load)]"), std::string::npos) << Text();
}

TEST_F(CudaSmoke, MoreMemoryThanThereIs) {
  EXPECT_FALSE(device_->Alloc(uint64_t{1} << 50, diags_).ok());
  EXPECT_NE(Text().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << Text();
}

// Last: it costs the context.
TEST_F(CudaSmoke, ZFaultsAreNamed) {
  const auto module = device_->Load(
      ".version 8.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k() {\n  trap;\n}\n",
      {}, diags_);
  ASSERT_TRUE(module.ok()) << Text();
  LaunchStats stats;
  EXPECT_FALSE(device_->Launch(**module, "k", {}, {}, 0, &stats, diags_).ok());
  EXPECT_NE(Text().find("error[R505]"), std::string::npos) << Text();
}

}  // namespace
}  // namespace tilec::runtime
