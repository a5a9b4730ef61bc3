// Loads, stores, state spaces, atomics, and the faults they may raise.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/fences.h"
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime {
namespace {

using V = std::vector<uint64_t>;

std::string ErrorOf(const std::string& declarations, const std::string& body,
                    uint32_t threads = 32) {
  std::string error;
  EXPECT_TRUE(RunBody(declarations, body, {}, threads, &error).empty());
  return error;
}

TEST(Memory, VectorsAndWidths) {
  auto out = RunBody(".reg .b32 %a, %b; .reg .b16 %h<4>; .reg .b64 %x;",
                     "ld.global.s8 %a, [%pin];\nld.global.u8 %b, [%pin+1];\n"
                     "st.global.v2.b32 [%pout], {%a, %b};",
                     {0xff80, 0x7f01}, 2);
  EXPECT_EQ(out[0], 0x000000ffffffff80ull);
  EXPECT_EQ(out[1], 0x0000007f00000001ull);
  out = RunBody(".reg .b16 %h<4>;",
                "ld.global.v4.u16 {%h0, %h1, %h2, %h3}, [%pin];\n"
                "st.global.v4.u16 [%pout], {%h3, %h2, %h1, %h0};",
                {0x0001000200030004, 5}, 32);
  EXPECT_EQ(out[0], 0x0004000300020001ull);
  EXPECT_EQ(out[1], 0x0005000000000000ull);
  out = RunBody(".reg .b32 %a;",
                "ld.global.b32 %a, [%pin];\nst.global.b8 [%pout+3], %a;\n"
                "st.global.b16 [%pout+4], %a;",
                {0x12345678}, 1);
  EXPECT_EQ(out[0], 0x0000567878000000ull);
}

TEST(Memory, SharedLocalConstAndGlobalVariables) {
  std::string ptx =
      ".version 8.3\n.target sm_90a\n.address_size 64\n"
      ".const .align 4 .b32 table[4] = {10, 20, 30, -40};\n"
      ".global .align 4 .f32 g = 0f3F800000;\n"
      ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
      ".shared .align 8 .b8 buf[256];\n.local .align 8 .b8 depot[16];\n"
      ".reg .b32 %a, %b, %t, %s, %g; .reg .b64 %out, %p, %q;\n"
      "ld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n"
      "mov.u32 %s, buf;\nshl.b32 %a, %t, 2;\nadd.u32 %s, %s, %a;\n"
      "mul.lo.u32 %b, %t, 3;\nst.shared.u32 [%s], %b;\nbar.sync 0;\n"
      "mov.u32 %s, buf;\nsub.u32 %a, 124, %a;\nadd.u32 %s, %s, %a;\nld.shared.u32 %b, "
      "[%s];\n"  // 3(31-t)
      "mov.u64 %p, depot;\ncvta.local.u64 %p, %p;\nst.u32 [%p+4], %b;\nld.local.u32 %b, "
      "[depot+4];\n"
      "ld.const.u32 %a, [table+12];\nadd.u32 %b, %b, %a;\n"
      "ld.global.u32 %g, [g];\n"
      "mov.u64 %p, buf;\ncvta.shared.u64 %p, %p;\nld.u32 %a, [%p+8];\nadd.u32 %b, %b, %a;\n"
      "mul.wide.u32 %q, %t, 8;\nadd.u64 %out, %out, %q;\nst.global.v2.b32 [%out], {%b, "
      "%g};\nret;\n}\n";
  Emu emu;
  ASSERT_TRUE(emu.Load(ptx)) << emu.Text();
  uint64_t out = emu.Upload(V(32));
  LaunchConfig config;
  config.block[0] = 32;
  ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(out), KernelArg::Of(out)})) << emu.Text();
  auto got = emu.Download<int32_t>(out, 64);
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(got[2 * t], 3 * (31 - t) - 40 + 6);
    EXPECT_EQ(got[2 * t + 1], 0x3f800000);
  }
}

TEST(Memory, Faults) {
  EMULATOR_ONLY();
  EXPECT_NE(ErrorOf(".reg .b32 %a;", "ld.global.b32 %a, [%pin+2];").find("E641"),
            std::string::npos);
  EXPECT_NE(ErrorOf(".reg .b32 %a;", "ld.global.b32 %a, [0];").find("E640"), std::string::npos);
  EXPECT_NE(ErrorOf(".reg .b32 %a;", "st.global.b32 [%pout+256], 1;").find("warp 0, lane 0"),
            std::string::npos);
  EXPECT_NE(ErrorOf(".reg .b32 %a;", "ld.global.b32 %a, [%pin+-8];").find("E640"),
            std::string::npos);
  EXPECT_NE(ErrorOf(".shared .b32 x;", "st.shared.b32 [x+4], 1;").find("E642"), std::string::npos);
  EXPECT_NE(ErrorOf(".shared .b32 x;", "st.shared.b32 [%tt+0xfffffffffffffffc], 1;").find("E642"),
            std::string::npos);
  EXPECT_NE(ErrorOf(".local .b32 x;", "st.local.b32 [x+400], 1;").find("E643"), std::string::npos);
  EXPECT_NE(ErrorOf("", "trap;").find("E644"), std::string::npos);
  EXPECT_NE(ErrorOf(".reg .b64 %x;", "mov.u64 %x, in;\ncvta.param.u64 %x, %x;\nst.u64 [%x], 0;")
                .find("E648"),
            std::string::npos);
}

TEST(Memory, ParametersHaveTheirOwnSpace) {
  const std::string declare = ".reg .b64 %x, %y; .reg .b32 %o;";
  V out = RunBody(declare,
                  "mov.u64 %x, out;\nld.param.u64 %y, [%x];\ncvta.param.u64 %x, %x;\n"
                  "ld.u64 %x, [%x];\nsub.u64 %x, %x, %y;\nst.global.u64 [%pout], %x;",
                  {}, 1);
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(out[0], 0u);
  EMULATOR_ONLY();
  // The bare address of a parameter is no generic address.
  std::string error = ErrorOf(declare, "mov.u64 %x, out;\nld.u64 %y, [%x];");
  EXPECT_NE(error.find("E640"), std::string::npos) << error;
  error = ErrorOf(declare, "mov.u64 %x, 16;\nld.param.u64 %y, [%x];");
  EXPECT_NE(error.find("E647"), std::string::npos) << error;
}

// Prefetches of tensor maps: one is a parameter (at offset 64 of 192 bytes), one a constant, one
// in global memory. Thread 0 runs `body` with the parameter's own address in %own and its generic
// one in %any, then stores a 1. Empty: it did. Otherwise what the emulator said.
std::string PrefetchMap(const std::string& body) {
  Emu emu;
  const std::string ptx =
      ".version 8.3\n.target sm_90a\n.address_size 64\n"
      ".const .align 64 .b8 fixed[128];\n.global .align 64 .b8 written[128];\n"
      ".visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])\n{\n"
      ".shared .align 64 .b8 near[128]; .local .align 64 .b8 mine[128];\n"
      ".reg .b64 %out, %own, %any, %x; .reg .b32 %low;\n"
      "ld.param.u64 %out, [out];\nmov.u64 %own, map;\ncvta.param.u64 %any, %own;\n" +
      body + "\nst.global.u64 [%out], 1;\nret;\n}\n";
  if (!emu.Load(ptx)) return emu.Text();
  TensorMapDesc d;
  d.dtype = "u8";
  d.base = emu.Upload(std::vector<uint8_t>(128 * 8));
  d.dims = {128, 8};
  d.strides_bytes = {128};
  d.box = {64, 8};
  auto map = emu.device->EncodeTensorMap(d, emu.diags);
  const uint64_t out = emu.Upload(V(1));
  if (!map.ok() || !emu.Launch("k", {}, {KernelArg::Of(out), KernelArg::Of(*map)}))
    return emu.Text();
  EXPECT_EQ(emu.Download<uint64_t>(out, 1)[0], 1u);
  return "";
}

TEST(PrefetchMap, GenericAddressOfAParameter) {
  EXPECT_EQ(PrefetchMap("prefetch.tensormap [%any];"), "");
  EXPECT_EQ(PrefetchMap("sub.u64 %any, %any, 64;\nprefetch.tensormap [%any+64];"), "");
}

TEST(PrefetchMap, OwnAddressOfAParameter) {
  EXPECT_EQ(PrefetchMap("prefetch.param.tensormap [map];"), "");
  EXPECT_EQ(PrefetchMap("prefetch.param.tensormap [%own];"), "");
}

TEST(PrefetchMap, ConstantsAndGlobalMemory) {
  EXPECT_EQ(PrefetchMap("prefetch.const.tensormap [fixed];"), "");
  EXPECT_EQ(PrefetchMap("mov.u64 %x, fixed;\ncvta.const.u64 %x, %x;\nprefetch.tensormap [%x];"),
            "");
  EXPECT_EQ(PrefetchMap("mov.u64 %x, written;\ncvta.global.u64 %x, %x;\nprefetch.tensormap [%x];"),
            "");
}

// An H200 ends kernels that do this with "misaligned address" (CUDA error 716).
TEST(PrefetchMap, ParamFormRefusesAGenericAddress) {
  EMULATOR_ONLY();
  for (const char* form : {"prefetch.param.tensormap", "prefetch.param::entry.tensormap"}) {
    const std::string error = PrefetchMap(std::string(form) + " [%any];");
    EXPECT_NE(error.find("E649"), std::string::npos) << error;
    EXPECT_NE(error.find("a generic address in the parameters"), std::string::npos) << error;
    EXPECT_NE(error.find("write `prefetch.tensormap`"), std::string::npos) << error;
    EXPECT_EQ(PrefetchMap(std::string(form) + " [%own];"), "");
  }
  // Generic addresses of other memory are none of the parameter space, either.
  std::string error = PrefetchMap("prefetch.param.tensormap [%out];");
  EXPECT_NE(error.find("a generic address in global memory"), std::string::npos) << error;
  // The .const form does not take parameters.
  error = PrefetchMap("prefetch.const.tensormap [%any];");
  EXPECT_NE(error.find("E649"), std::string::npos) << error;
  EXPECT_NE(error.find("an address in the parameters"), std::string::npos) << error;
  error = PrefetchMap("mov.u64 %x, written;\nprefetch.const.tensormap [%x];");
  EXPECT_NE(error.find("an address in global memory"), std::string::npos) << error;
}

TEST(PrefetchMap, GenericFormRefusesWhatHoldsNoMap) {
  EMULATOR_ONLY();
  // A parameter's own address is no generic one.
  std::string error = PrefetchMap("prefetch.tensormap [%own];");
  EXPECT_NE(error.find("E640"), std::string::npos) << error;
  EXPECT_NE(error.find("`cvta.param`"), std::string::npos) << error;
  error = PrefetchMap("mov.u64 %x, near;\ncvta.shared.u64 %x, %x;\nprefetch.tensormap [%x];");
  EXPECT_NE(error.find("E649"), std::string::npos) << error;
  EXPECT_NE(error.find("an address in shared memory"), std::string::npos) << error;
  error = PrefetchMap("mov.u64 %x, mine;\ncvta.local.u64 %x, %x;\nprefetch.tensormap [%x];");
  EXPECT_NE(error.find("an address in local memory"), std::string::npos) << error;
  error = PrefetchMap("prefetch.tensormap [map];");  // and no register in between
  EXPECT_NE(error.find("E604"), std::string::npos) << error;
}

TEST(PrefetchMap, WholeMapsOnTheirAlignment) {
  EMULATOR_ONLY();
  auto expect = [](const char* code, const std::string& body) {
    const std::string error = PrefetchMap(body);
    EXPECT_NE(error.find(code), std::string::npos) << body << "\n" << error;
  };
  expect("E641", "prefetch.param.tensormap [%own+-32];");
  expect("E641", "cvt.u32.u64 %low, %own;\nprefetch.param.tensormap [%low+-8];");
  expect("E641", "prefetch.tensormap [%any+-32];");
  expect("E641", "prefetch.const.tensormap [fixed+16];");
  expect("E647", "prefetch.param.tensormap [%own+64];");  // its second half
  expect("E647", "prefetch.param.tensormap [%own+4096];");
  expect("E640", "prefetch.tensormap [%any+64];");
  expect("E640", "prefetch.const.tensormap [fixed+64];");
  expect("E640", "prefetch.const.tensormap [4096];");
  // What the bytes are does not matter before a copy, and who does not run it needs no address.
  EXPECT_EQ(PrefetchMap("prefetch.param.tensormap [%own+-64];"), "");
  EXPECT_EQ(PrefetchMap(".reg .pred %p;\nsetp.ne.u64 %p, %own, %own;\n"
                        "@%p prefetch.param.tensormap [%any];"),
            "");
}

TEST(Memory, FreedMemoryIsOutOfBounds) {
  EMULATOR_ONLY();
  Emu emu;
  ASSERT_TRUE(emu.Load(Body("", "st.global.u64 [%pout], 1;")));
  uint64_t a = emu.Upload(V(32));
  emu.device->Free(a);
  LaunchConfig config;
  EXPECT_FALSE(emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(a)}));
  EXPECT_NE(emu.Text().find("E640"), std::string::npos) << emu.Text();
}

TEST(Memory, LimitsAndHostCopies) {
  EMULATOR_ONLY();
  EmulatorOptions options;
  options.memory_limit_bytes = 1 << 20;
  Emu emu(options);
  EXPECT_FALSE(emu.device->Alloc(2 << 20, emu.diags).ok());
  EXPECT_NE(emu.Text().find("E620"), std::string::npos);
  uint64_t a = emu.Upload(V(4));
  uint64_t x[8];
  EXPECT_FALSE(emu.device->CopyOut(x, a, 64, emu.diags).ok());
  EXPECT_EQ(a % 256, 0u);
}

#ifdef TILEC_FENCES
// What keeps a sanitized build from missing a stray access of the emulator itself.
TEST(Memory, SanitizedBuildsFenceAllocationsOff) {
  EMULATOR_ONLY();
  Emu emu;
  const auto* a = reinterpret_cast<const uint8_t*>(emu.Upload(V(4)));
  EXPECT_FALSE(__asan_address_is_poisoned(a));
  EXPECT_FALSE(__asan_address_is_poisoned(a + 31));
  EXPECT_TRUE(__asan_address_is_poisoned(a + 32));
  EXPECT_TRUE(__asan_address_is_poisoned(a - 1));
}
#endif

TEST(Memory, InstructionLimitStopsLoops) {
  EMULATOR_ONLY();
  EmulatorOptions options;
  options.instruction_limit = 200000;
  std::string error;
  EXPECT_TRUE(RunBody("", "L:\nbra L;", {}, 32, &error, options).empty());
  EXPECT_NE(error.find("E645"), std::string::npos) << error;
}

TEST(Atomics, VectorsAreAddedElementByElement) {
  const std::string add =
      "cvt.rn.f32.u32 %f, %t;\nadd.f32 %g, %f, 0f3F800000;\n"
      "red.relaxed.gpu.global.add.v4.f32 [%out+0], {%f, %g, %f, %g};\n"
      "red.global.add.v2.f32 [%out+8], {%g, %f};";
  auto out = RunBody(".reg .f32 %f, %g;", add, {}, 4);
  // 0 + 1 + 2 + 3 = 6, and one more for each: 10
  EXPECT_EQ(out[0], 0x4120000040c00000ull);
  EXPECT_EQ(out[1], 0x4180000041800000ull);  // 6 + 10 in both
  std::string error;
  RunBody(".reg .f32 %f, %g;", "red.global.add.v4.f32 [%out+8], {%f, %g, %f, %g};", {}, 1, &error);
  EXPECT_FALSE(error.empty());  // not at a multiple of 16 bytes
  error.clear();
  RunBody(".reg .f32 %f, %g;", "red.global.add.v4.f32 [%out], {%f, %g};", {}, 1, &error);
  EXPECT_FALSE(error.empty());
  error.clear();
  RunBody(".reg .b32 %a;", "red.global.add.v2.u32 [%out], {%a, %a};", {}, 1, &error);
  EXPECT_FALSE(error.empty());  // the ISA has floats alone
}

TEST(Atomics, SharedAndGlobal) {
  auto out = RunBody(".reg .b32 %a, %b; .reg .f32 %f;",
                     "mov.b32 %b, 1;\nadd.u32 %b, %b, %t;\natom.global.add.u32 %a, [%out], %b;\n"
                     "red.global.max.s32 [%out+4], %t;\nred.global.add.f32 [%out+8], 0f3F800000;\n"
                     "atom.global.cas.b32 %a, [%out+12], 0, %b;\n"
                     "atom.global.inc.u32 %a, [%out+16], 9;\nred.global.or.b32 [%out+20], %b;",
                     {}, 64);
  EXPECT_EQ(out[0] & 0xffffffff, 64u * 65 / 2);
  EXPECT_EQ(out[0] >> 32, 63u);
  EXPECT_EQ(out[1] & 0xffffffff, 0x42800000u);  // 64.0f
  EXPECT_EQ(out[1] >> 32, 1u);                  // thread 0 came first
  EXPECT_EQ(out[2] & 0xffffffff, 4u);           // 64 mod 10
  EXPECT_EQ(out[2] >> 32, 127u);
  out = RunBody(".shared .b32 x; .reg .b32 %a; .reg .pred %p; .reg .b64 %w;",
                "setp.eq.u32 %p, %t, 0;\n@%p st.shared.u32 [x], 0;\nbar.sync 0;\n"
                "atom.shared.add.u32 %a, [x], 2;\nbar.sync 0;\nld.shared.u32 %a, [x];\n"
                "cvt.u64.u32 %w, %a;\nst.global.u64 [%pout], %w;",
                {}, 96);
  EXPECT_EQ(out[95], 192u);
}

TEST(Atomics, ManyCtasLoseNothing) {
  EmulatorOptions options;
  options.threads = 4;
  Emu emu(options);
  ASSERT_TRUE(emu.Load(Body("", "red.global.add.u64 [%out], 3;")));
  uint64_t a = emu.Upload(V(512));
  LaunchConfig config;
  config.grid[0] = 500;
  config.block[0] = 128;
  ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(a)})) << emu.Text();
  EXPECT_EQ(emu.Download<uint64_t>(a, 1)[0], 500u * 128 * 3);
}

// CTA 0 waits for a flag that the last CTA sets: needs several resident CTAs.
TEST(Atomics, CtasMayWaitForLaterOnes) {
  EmulatorOptions options;
  options.threads = 1;
  Emu emu(options);
  ASSERT_TRUE(emu.Load(
      Body(".reg .pred %p; .reg .b32 %c, %n, %f;",
           "mov.u32 %c, %ctaid.x;\nmov.u32 %n, %nctaid.x;\nsub.u32 %n, %n, 1;\n"
           "setp.eq.u32 %p, %c, %n;\n@%p st.release.gpu.global.u32 [%out], 1;\n"
           "W:\nld.acquire.gpu.global.u32 %f, [%out];\nsetp.eq.u32 %p, %f, 0;\n@%p bra W;\n"
           "red.global.add.u32 [%out+4], 1;")))
      << emu.Text();
  uint64_t a = emu.Upload(V(64));
  LaunchConfig config;
  config.grid[0] = 3;
  config.block[0] = 32;
  ASSERT_TRUE(emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(a)})) << emu.Text();
  EXPECT_EQ(emu.Download<uint32_t>(a, 2)[1], 96u);
}

}  // namespace
}  // namespace tilec::runtime
