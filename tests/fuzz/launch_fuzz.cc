// Damaged launch files, suppressions and decisions: launch_fuzz [--seconds=S | --texts=N]
// [--seed=N]
//
// What people write by hand and what a program may have written: read to the end or refused with a
// diagnostic that can be rendered; what is accepted holds the limits that its readers rely on.
// Build with TILEC_SANITIZE for the full effect.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <random>

#include "runtime/execution.h"
#include "support/source.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/last_input.h"
#include "tools/launch_file.h"
#include "tools/suppressions.h"

namespace {

using namespace tilec;  // NOLINT: a test program
using Rng = std::mt19937_64;

const char* const kLaunch =
    "entry = \"gemm\"\ngrid = [3, 2]\nblock = 384\ncluster = 1\nsmem = 131072\n\n"
    "[[buffer]]\nname = \"A\"\ntype = \"bf16\"\ndims = [256, 320]\nfill = \"random\"\nseed = 1\n\n"
    "[[map]]\nname = \"a\"\nbuffer = \"A\"\ndims = [256, 320]\nbox = [128, 64]\nswizzle = 128\n"
    "fill_nan = false\n\n[[arg]]\nmap = \"a\"\n[[arg]]\nbuffer = \"A\"\noffset = 16\n[[arg]]\n"
    "value = 320\ntype = \"s32\"\n\n[[expect]]\nbuffer = \"A\"\nfile = \"c.npy\"\ntolerance = "
    "1e-2\n\n"
    "[reference]\nkernel = \"std/matmul.tile:gemm\"\ntensors = {A = \"A\"}\nvalues = {K = 3}\n";
const char* const kSuppressed = "P2  # fine\nS4 k.ptx:120\nM1 k.ptx:12 reduce # why\n";
const char* const kDecisions =
    "execution policy=pct async=late seed=3 spurious=0\ncluster 0\n11:2 5:12 land:0 6:12\n";

std::string Damage(std::string text, Rng& rng) {
  static constexpr const char* kPieces[] = {"[",
                                            "]",
                                            "[[",
                                            "]]",
                                            "{",
                                            "}",
                                            "=",
                                            "\"",
                                            "'''",
                                            "\n",
                                            ",",
                                            ".",
                                            "#",
                                            ":",
                                            "-1",
                                            "0",
                                            "4294967296",
                                            "9223372036854775807",
                                            "-9223372036854775808",
                                            "1e400",
                                            "nan",
                                            "inf",
                                            "true",
                                            "2147483647",
                                            "65536",
                                            "\\u0000",
                                            "\xff",
                                            "land:",
                                            "18446744073709551616"};
  for (uint64_t n = 1 + rng() % 5; n > 0 && !text.empty(); --n) {
    const size_t at = rng() % text.size(),
                 length = std::min<size_t>(1 + rng() % 20, text.size() - at);
    switch (rng() % 5) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, text.substr(at, length)); break;
      case 2: text.insert(at, kPieces[rng() % std::size(kPieces)]); break;
      case 3: text.replace(at, length, kPieces[rng() % std::size(kPieces)]); break;
      case 4: text[at] = static_cast<char>(rng()); break;
    }
  }
  return text;
}

bool Holds(const tools::LaunchFile& f) {
  for (const tools::LaunchBuffer& b : f.buffers) {
    int64_t n = 1;
    for (int64_t d : b.dims)
      if (d < 1 || __builtin_mul_overflow(n, d, &n)) return false;
    if (n > int64_t{1} << 32) return false;
  }
  for (const tools::LaunchMap& m : f.maps)
    if (m.buffer >= f.buffers.size() || m.box.size() != m.dims.size() || m.box.size() > 5)
      return false;
  for (const tools::LaunchArgument& a : f.arguments) {
    if (a.kind == tools::LaunchArgument::Kind::kBuffer && a.index >= f.buffers.size()) return false;
    if (a.kind == tools::LaunchArgument::Kind::kMap && a.index >= f.maps.size()) return false;
  }
  return true;
}

// False: something that must not be.
bool One(Rng& rng, uint64_t* accepted) {
  DiagSink diags;
  SourceMap sources;
  std::string& text = fuzz::Last().text;
  bool ok = false;
  switch (rng() % 4) {
    case 0: {
      text = Damage(kSuppressed, rng);
      ok = tools::ParseSuppressions("s.txt", text, diags).ok();
      break;
    }
    case 1: {
      text = Damage(kDecisions, rng);
      std::string why;
      const auto execution = runtime::ParseExecution(text, &why);
      *accepted += execution.has_value();
      return execution.has_value() || !why.empty();
    }
    default: {
      text = Damage(kLaunch, rng);
      const auto file = tools::ParseLaunchFile("l.toml", text, diags);
      ok = file.ok();
      if (ok && !Holds(*file)) return std::printf("accepted, and breaks a limit\n"), false;
    }
  }
  *accepted += ok;
  if (ok == diags.has_errors())
    return std::printf("accepted with an error, or not without\n"), false;
  return ok || !RenderAll(diags, sources).empty();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("launch files, suppressions and decisions, damaged");
  fuzz::Inputs inputs(app, "--texts");
  CLI11_PARSE(app, argc, argv);
  fuzz::ShowLastInputOnDeath();
  uint64_t texts = 0, accepted = 0;
  for (uint64_t k; inputs.Next(texts, &k); ++texts) {
    fuzz::Last().seed = inputs.seed, fuzz::Last().index = k;
    Rng rng(fuzz::InputSeed(inputs.seed, k));
    if (!One(rng, &accepted)) return fuzz::PrintLast(), 1;
  }
  std::printf("seed %llu: %llu texts, %llu accepted, %.0f s\n",
              static_cast<unsigned long long>(inputs.seed), static_cast<unsigned long long>(texts),
              static_cast<unsigned long long>(accepted), inputs.Seconds());
  inputs.PrintSlowest();
  return inputs.only > 0 || (accepted > 0 && accepted < texts) ? 0 : 1;
}
