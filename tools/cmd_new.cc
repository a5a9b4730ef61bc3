// tilec new FILE: a kernel to start from, with a test that passes.
//
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <filesystem>

#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

constexpr const char* kStarter = R"(// What this kernel computes, in one line.
kernel {0}(X: f32[M, N], Y: out f32[M, N], a: f32) {{
  tune BM = 32 in {{16, 32, 64}}
  tune BN = 128 in {{64, 128}}
  parallel m in tiles(M, BM), n in tiles(N, BN) {{
    Y[m, n] = a * X[m, n]
  }}
}}

// Sizes that divide, and sizes that do not.
test "{0}" {{
  {0}(M = 64, N = 256, a = 2.0)
  {0}(M = 50, N = 77, a = 0.5)
}}
)";

// A name of the language from that of the file: "my-kernel.tile" → "my_kernel".
std::string KernelName(const std::string& path) {
  std::string out;
  for (const char c : std::filesystem::path(path).stem().string())
    out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || !std::isalpha(static_cast<unsigned char>(out[0])) ? "kernel_" + out : out;
}

}  // namespace

int CmdNew(const Options& options) {
  Session session(options);
  std::string path = options.word, why;
  if (std::filesystem::path(path).extension() != ".tile") path += ".tile";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored))
    session.diags()
        .Report(kFileUnwritable, Span{}, path, "it is there already")
        .Place("command line");
  else if (!WriteOutput(path, fmt::format(kStarter, KernelName(path)), &why))
    session.diags().Report(kFileUnwritable, Span{}, path, why).Place("command line");
  else
    fmt::print("wrote {0}; next:\n  tilec test {0}\n  tilec lsp   in your editor\n", path);
  return session.Finish();
}

}  // namespace tilec::tools
