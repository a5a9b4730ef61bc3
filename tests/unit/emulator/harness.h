// Running small PTX texts on the emulator from tests.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
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

struct Emu {
  DiagSink diags;
  std::unique_ptr<Device> device;
  std::unique_ptr<Module> module;

  explicit Emu(EmulatorOptions options = {}) : device(OpenEmulator(options)) {}

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
    return device->Launch(*module, entry, config, args, 0, stats, diags).ok();
  }
};

// A module with one entry `k(.param .u64 in, .param .u64 out)`; %in and %out are loaded, %t is the
// thread's number, and each thread's element of 8 bytes is at [%pin] and [%pout].
inline std::string Body(const std::string& declarations, const std::string& body) {
  return ".version 8.3\n.target sm_90a\n.address_size 64\n"
         ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .b64 %in, %out, %pin, %pout, %tt;\n.reg .b32 %t;\n" + declarations + "\n"
         "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
         "mov.u32 %t, %tid.x;\nmul.wide.u32 %tt, %t, 8;\n"
         "add.u64 %pin, %in, %tt;\nadd.u64 %pout, %out, %tt;\n" + body + "\nret;\n}\n";
}

// Runs Body() with one warp (or more); 8-byte input and output cells. Empty on failure.
inline std::vector<uint64_t> RunBody(const std::string& declarations, const std::string& body,
                                     std::vector<uint64_t> in, uint32_t threads = 32,
                                     std::string* error = nullptr, EmulatorOptions options = {}) {
  Emu emu(options);
  in.resize(std::max<size_t>(in.size(), threads));
  if (!emu.Load(Body(declarations, body))) {
    if (error != nullptr) *error = emu.Text();
    else ADD_FAILURE() << emu.Text();
    return {};
  }
  uint64_t a = emu.Upload(in), b = emu.Upload(std::vector<uint64_t>(in.size()));
  LaunchConfig config;
  config.block[0] = threads;
  if (!emu.Launch("k", config, {KernelArg::Of(a), KernelArg::Of(b)})) {
    if (error != nullptr) *error = emu.Text();
    else ADD_FAILURE() << emu.Text();
    return {};
  }
  return emu.Download<uint64_t>(b, in.size());
}

}  // namespace tilec::runtime
