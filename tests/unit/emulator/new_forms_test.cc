// Forms that later architectures brought: clusters taken over before they begin, registers of 128
// bits, pairs of floats, zeros in bulk, tensor maps with fields replaced.
//
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "runtime/emulator/judge/finding.h"
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

std::string Blackwell(std::string text) {
  text.replace(text.find("sm_90a"), 6, "sm_100a");
  text.replace(text.find(".version 8.3"), 12, ".version 8.7");
  return text;
}

// Every CTA counts itself in out[ctaid], then asks for one that has not begun and does its work,
// until there is none. out[64] counts the CTAs that ran.
const char* const kDeclared =
    ".reg .pred %p, %q;\n.reg .b32 %r<16>;\n.reg .b64 %d<8>;\n.reg .b128 %h;\n"
    ".shared .align 16 .b8 answer[16];\n.shared .align 8 .b64 bar;\n";
const char* const kStealing =
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, 0;\n"
    "mbarrier.init.shared.b64 [bar], 1;\n"
    "red.global.add.u64 [%out+512], 1;\n"
    "WORK:\n"
    "mul.wide.u32 %d0, %r0, 8;\nadd.u64 %d0, %out, %d0;\nred.global.add.u64 [%d0], 1;\n"
    "fence.proxy.async.shared::cta;\n"
    "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
    "[answer], [bar];\n"
    "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p, [bar], %r1;\n@!%p bra WAIT;\n"
    "xor.b32 %r1, %r1, 1;\n"
    "ld.shared.b128 %h, [answer];\n"
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %h;\n"
    "@!%q ret;\n"
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r0, _, _, _}, %h;\n"
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r2, %h;\n"
    "setp.ne.u32 %p, %r0, %r2;\n@%p trap;\n"
    "bra WORK;\n";

TEST(LaunchControl, EveryClusterIsDoneOnce) {
  EMULATOR_ONLY();
  for (const bool checked : {false, true}) {
    EmulatorOptions options;
    options.machine.arch = "sm_100a";
    if (checked) {
      options.check = EmulatorOptions::Check::kOn;
      options.report = std::make_shared<judge::Report>();
    }
    Emu emu(options);
    ASSERT_TRUE(emu.Load(Blackwell(Body(kDeclared, kStealing)))) << emu.Text();
    const uint64_t out = emu.Upload(std::vector<uint64_t>(65));
    LaunchConfig config;
    config.grid[0] = 64;
    ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(out), KernelArg::Of(out)})) << emu.Text();
    const auto counts = emu.Download<uint64_t>(out, 65);
    for (size_t k = 0; k < 64; ++k) EXPECT_EQ(counts[k], 1u) << k;
    EXPECT_LT(counts[64], 64u);  // some were taken over
    if (checked) {
      EXPECT_TRUE(options.report->findings().empty()) << judge::ToText(options.report->findings());
    }
  }
}

TEST(LaunchControl, AnAnswerReadTooEarlyIsNamed) {
  EMULATOR_ONLY();
  std::string text = kStealing;
  const size_t wait = text.find("WAIT:"), end = text.find("bra WAIT;\n");
  text.erase(wait, end + 10 - wait);
  EmulatorOptions options;
  options.machine.arch = "sm_100a";
  options.check = EmulatorOptions::Check::kOn;
  options.landing = Landing::kLate;
  options.report = std::make_shared<judge::Report>();
  Emu emu(options);
  ASSERT_TRUE(emu.Load(Blackwell(Body(kDeclared, text)))) << emu.Text();
  const uint64_t out = emu.Upload(std::vector<uint64_t>(65));
  LaunchConfig config;
  config.grid[0] = 4;
  static_cast<void>(emu.Launch("k", config, {KernelArg::Of(out), KernelArg::Of(out)}));
  EXPECT_TRUE(options.report->Has(judge::Rule::kA2)) << judge::ToText(options.report->findings());
}

TEST(LaunchControl, BytesThatAreNoAnswerAreRefused) {
  EMULATOR_ONLY();
  EmulatorOptions options;
  options.machine.arch = "sm_100a";
  Emu emu(options);
  ASSERT_TRUE(emu.Load(
      Blackwell(Body(".reg .pred %q;\n.reg .b64 %d<2>;\n.reg .b128 %h;\n",
                     "mov.b64 %d0, 7;\nmov.b64 %d1, 9;\nmov.b128 %h, {%d0, %d1};\n"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %h;\n"))))
      << emu.Text();
  const uint64_t out = emu.Upload(std::vector<uint64_t>(32));
  EXPECT_FALSE(emu.Launch("k", {}, {KernelArg::Of(out), KernelArg::Of(out)}));
  EXPECT_NE(emu.Text().find("no answer of `clusterlaunchcontrol.try_cancel`"), std::string::npos)
      << emu.Text();
}

TEST(Wide, MovesLoadsAndStores) {
  EMULATOR_ONLY();
  const std::string body =
      "ld.global.b64 %d0, [%pin];\nld.global.b64 %d1, [%pin+256];\n"
      "mov.b128 %h0, {%d0, %d1};\nmov.b128 %h1, %h0;\nmov.b128 {%d1, %d0}, %h1;\n"
      "shl.b32 %r0, %t, 4;\nmov.u32 %r1, buf;\nadd.u32 %r0, %r0, %r1;\n"
      "mov.b128 %h0, {%d0, %d1};\nst.shared.b128 [%r0], %h0;\nld.shared.b128 %h1, [%r0];\n"
      "mov.b128 {%d2, %d3}, %h1;\nsub.u64 %d2, %d2, %d3;\nst.global.b64 [%pout], %d2;\n";
  std::vector<uint64_t> in(64);
  for (size_t k = 0; k < 64; ++k) in[k] = 1000 * k + 7 * (k / 32);
  const auto out = RunBody(
      ".reg .b64 %d<4>;\n.reg .b32 %r<2>;\n.reg .b128 %h<2>;\n"
      ".shared .align 16 .b8 buf[512];\n",
      body, in);
  ASSERT_FALSE(out.empty());
  // The halves were exchanged, so the second word less the first.
  for (size_t k = 0; k < 32; ++k) EXPECT_EQ(out[k], in[k + 32] - in[k]) << k;
}

TEST(Wide, MisalignedIsNamed) {
  EMULATOR_ONLY();
  std::string error;
  RunBody(".reg .b128 %h;\n", "ld.global.b128 %h, [%in+8];\n", {}, 32, &error);
  EXPECT_NE(error.find("E641"), std::string::npos) << error;
}

TEST(Pairs, AreTwoFloats) {
  EMULATOR_ONLY();
  Emu emu;
  const auto pair = [](float a, float b) {
    return std::bit_cast<uint32_t>(a) | uint64_t{std::bit_cast<uint32_t>(b)} << 32;
  };
  const std::string text =
      "ld.global.b64 %a, [%pin];\nld.global.b64 %b, [%pin+256];\n"
      "add.rn.f32x2 %c, %a, %b;\nst.global.b64 [%pout], %c;\n"
      "fma.rz.f32x2 %c, %a, %b, %a;\nst.global.b64 [%pout+256], %c;\n"
      "mul.ftz.f32x2 %c, %a, %b;\nst.global.b64 [%pout+512], %c;\n";
  ASSERT_TRUE(emu.Load(Blackwell(Body(".reg .b64 %a, %b, %c;\n", text)))) << emu.Text();
  std::vector<uint64_t> in(96);
  in[0] = pair(1.5f, -2.0f), in[32] = pair(0x1p-24f, 8.0f);
  in[1] = pair(1.0f, 0x1p-126f), in[33] = pair(0x1.fffffep-1f, 0x1p-1f);
  const uint64_t a = emu.Upload(in), b = emu.Upload(std::vector<uint64_t>(96));
  LaunchConfig config;
  config.block[0] = 32;
  ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(b)})) << emu.Text();
  const auto out = emu.Download<uint64_t>(b, 96);
  EXPECT_EQ(out[0], pair(1.5f, 6.0f));  // to even
  EXPECT_EQ(out[32], pair(1.5f, -18.0f));
  EXPECT_EQ(out[64], pair(1.5f * 0x1p-24f, -16.0f));
  EXPECT_EQ(out[33], pair(0x1.fffffep0f, 0x1.8p-126f));
  EXPECT_EQ(out[65], pair(0x1.fffffep-1f, 0.0f));  // a subnormal product is flushed
}

TEST(Bulk, ZerosAreStored) {
  EMULATOR_ONLY();
  EmulatorOptions options;
  options.machine.arch = "sm_100a";
  options.check = EmulatorOptions::Check::kOn;
  options.report = std::make_shared<judge::Report>();
  Emu emu(options);
  const std::string text =
      "mov.u32 %r0, buf;\nshl.b32 %r1, %t, 3;\nadd.u32 %r1, %r0, %r1;\n"
      "st.shared.b64 [%r1], %tt;\nbar.warp.sync 0xffffffff;\n"
      "setp.eq.u32 %p, %t, 0;\nmov.u64 %d, 128;\n@%p st.bulk.shared::cta [buf+64], %d, 0;\n"
      "bar.warp.sync 0xffffffff;\nld.shared.b64 %d, [%r1];\nst.global.b64 [%pout], %d;\n";
  ASSERT_TRUE(emu.Load(Blackwell(Body(
      ".reg .pred %p;\n.reg .b32 %r<2>;\n.reg .b64 %d;\n.shared .align 16 .b8 buf[256];\n", text))))
      << emu.Text();
  const uint64_t out = emu.Upload(std::vector<uint64_t>(32));
  LaunchConfig config;
  config.block[0] = 32;
  ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(out), KernelArg::Of(out)})) << emu.Text();
  const auto got = emu.Download<uint64_t>(out, 32);
  for (size_t k = 0; k < 32; ++k) EXPECT_EQ(got[k], k >= 8 && k < 24 ? 0 : 8 * k) << k;
  EXPECT_TRUE(options.report->findings().empty()) << judge::ToText(options.report->findings());
}

// A map out of zeros, as compilers make them on the device.
TEST(Maps, MadeOfZeros) {
  EMULATOR_ONLY();
  std::string fields =
      "tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %in;\n"
      "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;\n"
      "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 0, 8;\n"
      "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 1, 2;\n"
      "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 0, 16;\n"
      "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [map], 1, 4;\n"
      "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [map], 0, %stride;\n"
      "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 0, 1;\n"
      "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [map], 1, 1;\n"
      "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [map], 2;\n"
      "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [map], LAYOUT;\n"
      "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [map], 0;\n"
      "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [map], 0;\n";
  // Strides are sixteenths before PTX ISA 8.5.
  const auto text = [&](int layout, const std::string& version, int stride) {
    std::string f = fields;
    f.replace(f.find("LAYOUT"), 6, std::to_string(layout));
    std::string body = Body(
        ".reg .pred %p, %l0;\n.reg .b32 %r<4>;\n.reg .b64 %stride, %d;\n"
        ".shared .align 128 .b8 map[128];\n.shared .align 128 .b8 box[64];\n"
        ".shared .align 8 .b64 bar;\n",
        "setp.eq.u32 %l0, %t, 0;\nmov.u64 %stride, " + std::to_string(stride) +
            ";\nadd.u64 %d, %out, 1024;\n"
            "mov.u32 %r0, map;\nshl.b32 %r1, %t, 2;\nadd.u32 %r0, %r0, %r1;\nst.shared.b32 [%r0], "
            "0;\n"
            "@%l0 mbarrier.init.shared.b64 [bar], 1;\nbar.warp.sync 0xffffffff;\n@!%l0 bra "
            "MADE;\n" +
            f +
            "MADE:\nbar.warp.sync 0xffffffff;\n"
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."
            "aligned "
            "[%d], [map], 128;\n"
            "fence.proxy.tensormap::generic.acquire.gpu [%d], 128;\n"
            "@%l0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
            "@%l0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[box], [%d, {4, 1}], [bar];\n"
            "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra WAIT;\n"
            "mov.u32 %r0, box;\nand.b32 %r1, %t, 15;\nshl.b32 %r1, %r1, 2;\n"
            "add.u32 %r0, %r0, %r1;\nld.shared.u32 %r2, [%r0];\ncvt.u64.u32 %d, %r2;\n"
            "st.global.b64 [%pout], %d;\n");
    if (version != "8.3") body.replace(body.find("8.3"), 3, version);
    return body;
  };
  for (const auto& [layout, version, stride] :
       {std::tuple{0, "8.5", 64}, std::tuple{0, "8.3", 4}, std::tuple{1, "8.5", 64}}) {
    EmulatorOptions options;
    options.check = EmulatorOptions::Check::kOn;
    options.report = std::make_shared<judge::Report>();
    Emu emu(options);
    ASSERT_TRUE(emu.Load(text(layout, version, stride))) << emu.Text();
    std::vector<uint32_t> in(64);
    for (size_t k = 0; k < 64; ++k) in[k] = static_cast<uint32_t>(k);
    const uint64_t a = emu.Upload(in), b = emu.Upload(std::vector<uint64_t>(256));
    LaunchConfig config;
    config.block[0] = 32;
    const bool ran = emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(b)});
    if (layout == 1) {
      EXPECT_FALSE(ran);
      EXPECT_NE(emu.Text().find("interleave layout 1"), std::string::npos) << emu.Text();
      continue;
    }
    ASSERT_TRUE(ran) << emu.Text();
    const auto got = emu.Download<uint64_t>(b, 32);
    for (size_t k = 0; k < 16; ++k) EXPECT_EQ(got[k], 16 * (1 + k / 8) + 4 + k % 8) << k;
    EXPECT_TRUE(options.report->findings().empty()) << judge::ToText(options.report->findings());
  }
}

TEST(Maps, FieldsOfWhatIsNoneAreRefused) {
  EMULATOR_ONLY();
  std::string error;
  RunBody(".shared .align 128 .b8 map[128];\n",
          "st.shared.b64 [map], 1;\n"
          "tensormap.replace.tile.rank.shared::cta.b1024.b32 [map], 1;\n",
          {}, 32, &error);
  EXPECT_NE(error.find("not made by this device"), std::string::npos) << error;
  error.clear();
  RunBody("", "tensormap.replace.tile.box_dim.global.b1024.b32 [%out], 5, 8;\n", {}, 32, &error);
  EXPECT_NE(error.find("a number below 5 is needed"), std::string::npos) << error;
}

}  // namespace
}  // namespace tilec::runtime
