// Running small PTX texts on the emulator from tests. With TILEC_DEVICE=cuda the same texts run on
// silicon, which is how the expected values of these tests were checked; tests of faults skip then.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"
#include "support/source.h"

namespace tilec::runtime {

inline std::string ReadText(const std::string& path) {
  std::ifstream in(std::string(TILEC_SOURCE_DIR) + "/" + path);
  std::stringstream s;
  s << in.rdbuf();
  EXPECT_FALSE(s.str().empty()) << path;
  return s.str();
}

inline bool OnCuda() {
  const char* device = std::getenv("TILEC_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}
#define EMULATOR_ONLY() \
  if (OnCuda()) GTEST_SKIP() << "about the emulator, not the instructions"

struct Emu {
  DiagSink diags;
  std::unique_ptr<Device> device;
  std::unique_ptr<Module> module;

  explicit Emu(EmulatorOptions options = {}) {
    if (!OnCuda()) {
      device = OpenEmulator(options);
      return;
    }
    auto cuda = OpenCuda(0, diags);
    EXPECT_TRUE(cuda.ok()) << Text();
    if (cuda.ok()) device = std::move(*cuda);
  }

  std::string Text() const {
    SourceMap sources;
    return RenderAll(diags, sources);
  }
  bool Load(const std::string& ptx, LoadOptions options = {}) {
    auto m = device->Load(ptx, options, diags);
    if (!m.ok()) return false;
    module = std::move(*m);
    return true;
  }
  template <typename T>
  uint64_t Upload(const std::vector<T>& v) {
    auto a = device->Alloc(v.size() * sizeof(T), diags);
    EXPECT_TRUE(a.ok()) << Text();
    EXPECT_TRUE(device->CopyIn(*a, v.data(), v.size() * sizeof(T), diags).ok());
    return *a;
  }
  template <typename T>
  std::vector<T> Download(uint64_t address, size_t n) {
    std::vector<T> v(n);
    EXPECT_TRUE(device->CopyOut(v.data(), address, n * sizeof(T), diags).ok()) << Text();
    return v;
  }
  bool Launch(const std::string& entry, LaunchConfig config, std::vector<KernelArg> args,
              LaunchStats* stats = nullptr) {
    return device->Launch(*module, entry, config, args, 0, stats, diags).ok() &&
           device->Synchronize(0, diags).ok();
  }
};

// A module with one entry `k(.param .u64 in, .param .u64 out)`; %in and %out are loaded, %t is the
// thread's number, and each thread's element of 8 bytes is at [%pin] and [%pout].
inline std::string Body(const std::string& declarations, const std::string& body) {
  return ".version 8.3\n.target sm_90a\n.address_size 64\n"
         ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .b64 %in, %out, %pin, %pout, %tt;\n.reg .b32 %t;\n" +
         declarations +
         "\n"
         "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
         "mov.u32 %t, %tid.x;\nmul.wide.u32 %tt, %t, 8;\n"
         "add.u64 %pin, %in, %tt;\nadd.u64 %pout, %out, %tt;\n" +
         body + "\nret;\n}\n";
}

// Runs Body() with one warp (or more); 8-byte input and output cells. Empty on failure.
inline std::vector<uint64_t> RunBody(const std::string& declarations, const std::string& body,
                                     std::vector<uint64_t> in, uint32_t threads = 32,
                                     std::string* error = nullptr, EmulatorOptions options = {}) {
  Emu emu(options);
  in.resize(std::max<size_t>(in.size(), threads));
  if (!emu.Load(Body(declarations, body))) {
    if (error != nullptr)
      *error = emu.Text();
    else
      ADD_FAILURE() << emu.Text();
    return {};
  }
  uint64_t a = emu.Upload(in), b = emu.Upload(std::vector<uint64_t>(in.size()));
  LaunchConfig config;
  config.block[0] = threads;
  if (!emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(b)})) {
    if (error != nullptr)
      *error = emu.Text();
    else
      ADD_FAILURE() << emu.Text();
    return {};
  }
  return emu.Download<uint64_t>(b, in.size());
}

// One instruction (or a few) on up to 32 cases, one per lane. Operands are %a %b %c (32 bits), %al
// %bl %cl (64), %ah %bh %ch (16), %pa (bit 0 of a); the result is %d, %dl, %dh or %p by `bits`.
using Cases = std::vector<std::array<uint64_t, 3>>;
inline std::vector<uint64_t> Eval(int bits, const std::string& text, const Cases& cases) {
  std::vector<uint64_t> in(96);
  for (size_t i = 0; i < cases.size(); ++i)
    for (size_t k = 0; k < 3; ++k) in[32 * k + i] = cases[i][k];
  std::string body =
      "ld.global.b64 %al, [%pin];\nld.global.b64 %bl, [%pin+256];\nld.global.b64 %cl, [%pin+512];\n"
      "cvt.u32.u64 %a, %al;\ncvt.u32.u64 %b, %bl;\ncvt.u32.u64 %c, %cl;\n"
      "cvt.u16.u64 %ah, %al;\ncvt.u16.u64 %bh, %bl;\ncvt.u16.u64 %ch, %cl;\n"
      "and.b32 %t, %a, 1;\nsetp.ne.u32 %pa, %t, 0;\n"
      "mov.b32 %d, 0;\nmov.b64 %dl, 0;\nmov.b16 %dh, 0;\nsetp.ne.u32 %p, 0, 0;\n" +
      text + "\n";
  if (bits == 1) body += "selp.b64 %dl, 1, 0, %p;\n";
  if (bits == 16) body += "cvt.u64.u16 %dl, %dh;\n";
  if (bits == 32) body += "cvt.u64.u32 %dl, %d;\n";
  body += "st.global.b64 [%pout], %dl;";
  auto out = RunBody(
      ".reg .b64 %al, %bl, %cl, %dl; .reg .b32 %a, %b, %c, %d, %x, %y, %z;\n"
      ".reg .b16 %ah, %bh, %ch, %dh; .reg .pred %p, %q, %pa;",
      body, in);
  out.resize(out.empty() ? 0 : cases.size());
  return out;
}

}  // namespace tilec::runtime
