// Damaged PTX must end in a diagnostic or a run, never in a crash:
//
//   ptx_fuzz [--seconds=S | --texts=N] [--seed=N] [--only=INPUT] [--root=FOLDER]
//
// Starts from the conformance cases, which are short and use every instruction form, and now and
// then from longer texts; mutates bytes, tokens, lines and numbers, loads the result and, if it
// loads, runs it judged with a small instruction limit. Build with TILEC_SANITIZE for the full
// effect.
//
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/emulator/judge/finding.h"
#include "tests/conformance/case.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/last_input.h"

namespace {

using namespace tilec::runtime;  // NOLINT: a test program

const char kSoup[] = R"(.version 8.3
.target sm_90a
.address_size 64
.const .align 4 .b32 table[4] = {10, 20, 30, -40};
.global .align 8 .b8 g[64];
.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .b64 %in, %out, %w, %x, %s;
.reg .b32 %t, %a, %b, %c, %r<40>;
.reg .b16 %h<4>;
.reg .pred %p, %q;
.shared .align 128 .b8 s[2048];
.shared .align 8 .b64 bar;
.local .align 8 .b8 depot[32];
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
mul.wide.u32 %w, %t, 8;
add.u64 %x, %in, %w;
ld.global.v2.b32 {%a, %b}, [%x];
mad.lo.s32 %c, %a, %b, %t;
div.s32 %c, %c, %b;
bfe.s32 %c, %c, 3, 5;
lop3.b32 %c, %a, %b, %c, 0x96;
shf.l.wrap.b32 %c, %a, %b, %t;
prmt.b32 %c, %a, %b, 0x3210;
cvt.rn.f32.s32 %r1, %c;
ex2.approx.ftz.f32 %r2, %r1;
fma.rn.f32 %r3, %r1, %r2, 0f3F800000;
cvt.rn.bf16x2.f32 %r4, %r3, %r2;
cvt.rn.satfinite.e4m3x2.f32 %h1, %r3, %r2;
fma.rn.f16x2 %r5, %r4, %r4, %r4;
setp.lt.and.f32 %p|%q, %r1, %r2, %p;
@%p bra X;
st.local.u32 [depot+4], %c;
X:
shfl.sync.bfly.b32 %c, %c, 16, 31, -1;
vote.sync.ballot.b32 %r6, %p, -1;
redux.sync.add.u32 %r7, %t, -1;
elect.sync %r8|%q, -1;
setp.eq.u32 %q, %t, 0;
@!%q bra J;
mbarrier.init.shared.b64 [bar], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%in], 256, [bar];
J:
bar.sync 0;
W:
mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
@!%p bra W;
shl.b32 %a, %t, 4;
cp.async.ca.shared.global [%a], [%x], 8, 4;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%a];
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r14,%r15,%r16,%r17}, {%r10,%r11,%r12,%r13},
{%r10,%r11}, {%r14,%r15,%r16,%r17};
atom.shared.add.u32 %c, [s+64], %t;
atom.global.cas.b64 %s, [%out], %x, %w;
red.global.add.f32 [%out+8], %r3;
mov.u32 %a, s;
mapa.shared::cluster.u32 %a, %a, 0;
ld.shared::cluster.u32 %b, [%a];
barrier.cluster.arrive;
barrier.cluster.wait;
setmaxnreg.inc.sync.aligned.u32 64;
mov.b64 %s, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r20,%r21,%r22,%r23}, %s, %s, %p, 1, 1, 0, 0;
wgmma.wait_group.sync.aligned 0;
match.any.sync.b32 %r9, %t, -1;
add.u64 %x, %out, %w;
st.global.v2.b32 [%x], {%c, %b};
ret;
}
)";

std::string Mutate(std::string s, std::mt19937_64& rng, const std::vector<std::string>& corpus) {
  auto pick = [&](size_t n) { return n == 0 ? 0 : static_cast<size_t>(rng() % n); };
  static const char* kNumbers[] = {
      "0",  "-1", "4294967295", "18446744073709551615", "0x80000000",          "1073741824",
      "31", "32", "16",         "0f7FC00000",           "99999999999999999999"};
  auto line_at = [&](const std::string& t, size_t* begin, size_t* end) {
    size_t p = pick(t.size());
    *begin = t.rfind('\n', p);
    *begin = *begin == std::string::npos ? 0 : *begin + 1;
    *end = t.find('\n', p);
    *end = *end == std::string::npos ? t.size() : *end + 1;
    if (*begin > *end) *begin = *end;
  };
  int rounds = 1 + static_cast<int>(pick(3));
  for (int k = 0; k < rounds && !s.empty(); ++k) {
    size_t b = 0, e = 0;
    switch (pick(9)) {
      case 0: s[pick(s.size())] = static_cast<char>(rng()); break;
      case 1: s.erase(pick(s.size()), 1 + pick(8)); break;
      case 2:
        line_at(s, &b, &e);
        s.erase(b, e - b);
        break;
      case 3: {
        line_at(s, &b, &e);
        std::string l = s.substr(b, e - b);
        s.insert(pick(s.size()), l);
        break;
      }
      case 4: {
        const std::string& other = corpus[pick(corpus.size())];
        line_at(other, &b, &e);
        std::string l = other.substr(b, e - b);
        line_at(s, &b, &e);
        s.insert(b, l);
        break;
      }
      case 5: {  // a number
        size_t p = s.find_first_of("0123456789", pick(s.size()));
        if (p == std::string::npos) break;
        size_t q = s.find_first_not_of("0123456789abcdefxABCDEF", p);
        s.replace(p, (q == std::string::npos ? s.size() : q) - p,
                  kNumbers[pick(std::size(kNumbers))]);
        break;
      }
      case 6: {  // swap two operands of a line
        line_at(s, &b, &e);
        size_t c = s.find(',', b);
        if (c == std::string::npos || c >= e) break;
        s.insert(c, s.substr(c, s.find_first_of(",;", c + 1) == std::string::npos
                                    ? 1
                                    : s.find_first_of(",;", c + 1) - c));
        break;
      }
      case 7: s.resize(pick(s.size())); break;
      case 8: {  // a modifier
        size_t p = s.find('.', pick(s.size()));
        if (p == std::string::npos) break;
        size_t q = s.find_first_of(". \t\n", p + 1);
        if (q == std::string::npos) break;
        std::string mod = s.substr(p, q - p);
        size_t r = s.find('.', pick(s.size()));
        if (r != std::string::npos) s.insert(r, mod);
        break;
      }
    }
  }
  return s;
}

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> ShortTexts() {
  std::vector<std::string> all;
  for (const tilec::conformance::Case& c : tilec::conformance::AllCases())
    all.push_back(tilec::conformance::ModuleHeader() + tilec::conformance::EntryText(c, "k"));
  return all;
}

// The declarations of a text and a few of its statements: what is quickly read is often read.
std::string Excerpt(const std::string& text, std::mt19937_64& rng) {
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  auto is_statement = [](std::string_view l) {
    return !l.empty() && l.back() == ';' && l[0] != '.' && l[0] != '{' && l != "ret;";
  };
  const size_t from = rng() % (lines.size() + 1), many = 1 + rng() % 6;
  size_t kept = 0;
  std::string out;
  for (size_t k = 0; k < lines.size(); ++k) {
    if (is_statement(lines[k]) && (k < from || kept++ >= many)) continue;
    out += lines[k];
    out += '\n';
  }
  return out;
}

std::vector<std::string> LongTexts(const std::string& root) {
  std::vector<std::string> all = {kSoup, kSoup, kSoup};
  for (const char* folder : {"/tests/unit/emulator/ptx", "/tests/ptx"})
    for (const auto& file : std::filesystem::directory_iterator(root + folder))
      if (file.path().extension() == ".ptx") all.push_back(ReadText(file.path()));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  std::string root = TILEC_SOURCE_DIR;
  CLI::App app("damaged PTX: the reader under fire");
  tilec::fuzz::Inputs inputs(app, "--texts");
  app.add_option("--root", root, "the tree, or a folder with its tests");
  CLI11_PARSE(app, argc, argv);
  tilec::fuzz::ShowLastInputOnDeath();
  const std::vector<std::string> small = ShortTexts(), large = LongTexts(root);
  EmulatorOptions options;
  options.instruction_limit = 3000;
  options.threads = 1;
  options.memory_limit_bytes = 64 << 20;
  // Every launch is judged: the judge must survive what the machine does.
  options.check = EmulatorOptions::Check::kOn;
  options.report = std::make_shared<judge::Report>();
  const auto device = OpenEmulator(options);
  tilec::DiagSink diags;
  const auto in = device->Alloc(4096, diags), out = device->Alloc(4096, diags);
  if (!in.ok() || !out.ok()) return 1;
  uint64_t texts = 0, loaded = 0, launches = 0, finished = 0, findings = 0;
  std::mt19937_64 rng;
  for (uint64_t k; inputs.Next(texts, &k);) {
    rng.seed(tilec::fuzz::InputSeed(inputs.seed, k));
    const std::vector<std::string>& corpus = rng() % 512 == 0 ? large : small;
    const std::string& whole = corpus[rng() % corpus.size()];
    tilec::fuzz::Last() = {inputs.seed, k,
                           Mutate(rng() % 16 == 0 ? whole : Excerpt(whole, rng), rng, corpus)};
    ++texts;
    diags.Clear();
    auto module = device->Load(tilec::fuzz::Last().text, {}, diags);
    if (!module.ok()) {
      if (!diags.has_errors())
        return printf("failed without a diagnostic\n"), tilec::fuzz::PrintLast(), 1;
    } else {
      ++loaded;
      for (const std::string& entry : (*module)->entries()) {
        LaunchConfig config;
        config.block[0] = rng() % 2 == 0 ? 128 : 1 + static_cast<uint32_t>(rng() % 300);
        config.smem_bytes = rng() % 2 == 0 ? 0 : 4096;
        if (rng() % 4 == 0) config.grid[0] = 4, config.cluster[0] = 2;
        std::vector<KernelArg> args;
        for (uint64_t n = rng() % 2 == 0 ? 3 : rng() % 8; n > 0; --n)
          args.push_back(KernelArg::Of(n % 2 == 0 ? *in : *out));
        ++launches;
        diags.Clear();
        if (device->Launch(**module, entry, config, args, 0, nullptr, diags).ok())
          ++finished;
        else if (!diags.has_errors())
          return printf("a launch failed without a diagnostic\n"), tilec::fuzz::PrintLast(), 1;
      }
      findings += options.report->findings().size();
      options.report->Clear();
    }
    if (!inputs.Minute()) continue;
    printf("%.0f s: %llu texts\n", inputs.Seconds(), static_cast<unsigned long long>(texts));
    fflush(stdout);
  }
  printf(
      "seed %llu: %llu texts, %llu loaded, %llu launches, %llu finished, %llu findings, %.0f s\n",
      static_cast<unsigned long long>(inputs.seed), static_cast<unsigned long long>(texts),
      static_cast<unsigned long long>(loaded), static_cast<unsigned long long>(launches),
      static_cast<unsigned long long>(finished), static_cast<unsigned long long>(findings),
      inputs.Seconds());
  inputs.PrintSlowest();
  return inputs.only > 0 || (loaded > 0 && finished > 0) ? 0 : 1;
}
