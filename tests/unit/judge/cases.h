// Small programs for the judge's tests: one text, two versions. The first character of a line says
// in which version it is: ' ' both, '-' only in the wrong one, '+' only in the right one; '!' both,
// and the finding must name this line; '*' only in the wrong one, and the finding must name it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>

#include "runtime/emulator/judge/finding.h"
#include "tests/unit/emulator/harness.h"

namespace tilec::runtime::judge {

struct Case {
  const char* rule;
  const char* what;
  const char* text;
  uint32_t threads = 64;
  uint32_t ctas = 1;
  uint32_t cluster = 1;
  bool numbers = false, banks = false;
  uint64_t smem = 0;  // dynamic
};

struct Judged {
  std::vector<Finding> findings;
  std::string text;  // of the program
  int line = 0;      // where the finding must be
  bool loaded = false, ran = false;
  std::string errors;
};

inline const char* kPreamble =
    ".version 8.6\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 scratch,\n"
    "  .param .align 64 .b8 map[128])\n"
    ".maxnreg 128\n{\n"
    ".reg .pred %p, %q, %l0, %w0, %w1;\n"
    ".reg .b32 %r<32>, %t, %w, %rank, %cta;\n"
    ".reg .b64 %d<32>, %in, %out, %scratch, %tt, %token;\n"
    ".reg .f32 %f<16>;\n.reg .b16 %h<4>;\n"
    ".shared .align 1024 .b8 buf[16384];\n.shared .align 8 .b64 bar[4];\n"
    ".shared .align 4 .b32 flag;\n"
    "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %scratch, [scratch];\n"
    "mov.u32 %t, %tid.x;\nshr.u32 %w, %t, 5;\nmov.u32 %cta, %ctaid.x;\n"
    "mov.u32 %rank, %cluster_ctarank;\nmul.wide.u32 %tt, %t, 4;\n"
    "setp.eq.u32 %l0, %t, 0;\nsetp.eq.u32 %w0, %w, 0;\nsetp.eq.u32 %w1, %w, 1;\n"
    "mov.u32 %r0, buf;\nshl.b32 %r1, %t, 2;\nadd.u32 %r1, %r0, %r1;\n";  // %r1: own word of buf

// The wrong version, or the right one.
inline Judged Run(const Case& c, bool wrong) {
  Judged out;
  std::istringstream lines(c.text);
  out.text = kPreamble;
  if (std::string_view(c.text).find("tcgen05") != std::string_view::npos)
    out.text.replace(out.text.find("sm_90a"), 6, "sm_100a");
  int line = 1 + static_cast<int>(std::count(out.text.begin(), out.text.end(), '\n'));
  for (std::string s; std::getline(lines, s); ++line) {
    char mark = s.empty() ? ' ' : s[0];
    bool in = mark == ' ' || mark == '!' || (wrong ? mark == '-' || mark == '*' : mark == '+');
    EXPECT_NE(std::string(" -+!*").find(mark), std::string::npos) << s;
    if (mark == '!' || mark == '*') out.line = line;
    out.text += (in && !s.empty() ? s.substr(1) : "") + "\n";
  }
  out.text += "ret;\n}\n";
  EmulatorOptions options;
  options.check = EmulatorOptions::Check::kOn;
  options.report = std::make_shared<Report>();
  options.check_numbers = c.numbers;
  options.check_banks = c.banks;
  options.instruction_limit = 20'000'000;
  Emu emu(options);
  out.loaded = emu.Load(out.text);
  out.errors = emu.Text();
  if (!out.loaded) return out;
  std::vector<uint32_t> words(4096);
  for (size_t k = 0; k < words.size(); ++k) words[k] = static_cast<uint32_t>(k);
  uint64_t in = emu.Upload(words);
  auto to = emu.device->Alloc(16384, emu.diags), scratch = emu.device->Alloc(16384, emu.diags);
  TensorMapDesc desc;
  desc.dtype = "u32";
  desc.base = in;
  desc.dims = {64, 64};
  desc.strides_bytes = {256};
  desc.box = {32, 8};
  desc.swizzle_bytes = 128;
  auto map = emu.device->EncodeTensorMap(desc, emu.diags);
  EXPECT_TRUE(to.ok() && scratch.ok() && map.ok()) << emu.Text();
  LaunchConfig config;
  config.block[0] = c.threads;
  config.grid[0] = c.ctas;
  config.cluster[0] = c.cluster;
  config.smem_bytes = c.smem;
  EXPECT_TRUE(emu.device->Fill(*scratch, 0, 16384, emu.diags).ok());
  out.ran = emu.Launch(
      "k", config,
      {KernelArg::Of(in), KernelArg::Of(*to), KernelArg::Of(*scratch), KernelArg::Of(*map)});
  out.errors = emu.Text();
  out.findings = options.report->findings();
  return out;
}

inline void Expect(const Case& c) {
  SCOPED_TRACE(std::string(c.rule) + ": " + c.what);
  Judged bad = Run(c, true);
  ASSERT_TRUE(bad.loaded) << bad.errors << bad.text;
  bool found = false;
  for (const Finding& f : bad.findings)
    for (const Access& a : f.accesses)
      found = found || (Def(f.rule).id == std::string_view(c.rule) && a.site.line == bad.line);
  EXPECT_TRUE(found) << "expected " << c.rule << " at line " << bad.line << "\n"
                     << ToText(bad.findings) << bad.errors;
  Judged good = Run(c, false);
  ASSERT_TRUE(good.loaded) << good.errors << good.text;
  EXPECT_TRUE(good.ran) << good.errors;
  EXPECT_EQ(ToText(good.findings), "") << "the right version is not silent";
}

}  // namespace tilec::runtime::judge
