// The machine code as text. CUDA 13 writes another ELF header than the programs before it know; the
// code behind it is the same, so that an older nvdisasm reads it under the older header.
//
// SPDX-License-Identifier: Apache-2.0
#include "sass/diagnostics.h"
#include "sass/sass.h"
#include "support/child.h"
#include "support/file.h"

namespace tilec::sass {

namespace {

// Bytes of an ELF header of 64 bits, and what they hold in a cubin.
constexpr size_t kAbi = 7, kAbiVersion = 8, kFlags = 0x30, kHeaderBytes = 0x40;
constexpr char kAbi13 = 0x41, kAbi12 = 0x33, kAbiVersion12 = 7;
// Flags until CUDA 12: real architecture << 16 | facts | virtual architecture. The facts: textures
// unified, addresses of 64 bits, instructions of this architecture only.
constexpr char kFacts12 = 0x0d;

}  // namespace

std::string FindNvdisasm(const NvdisasmSearch& search) {
  const std::string program = "nvdisasm";
  if (!search.path.empty()) return IsExecutableFile(search.path) ? search.path : "";
  if (!search.cuda_home.empty()) {
    const std::string file = search.cuda_home + "/bin/" + program;
    if (IsExecutableFile(file)) return file;
  }
  if (const size_t slash = search.ptxas.rfind('/'); slash != std::string::npos) {
    const std::string file = search.ptxas.substr(0, slash + 1) + program;
    if (IsExecutableFile(file)) return file;
  }
  return FindInPathList(search.path_list, program);
}

bool ToOlderHeader(std::string* cubin) {
  std::string& bytes = *cubin;
  if (bytes.size() < kHeaderBytes || bytes.compare(0, 4, "\177ELF") != 0 || bytes[kAbi] != kAbi13)
    return false;
  const char architecture = bytes[kFlags + 1];
  bytes[kAbi] = kAbi12;
  bytes[kAbiVersion] = kAbiVersion12;
  bytes[kFlags] = architecture;
  bytes[kFlags + 1] = kFacts12;
  bytes[kFlags + 2] = architecture;
  bytes[kFlags + 3] = 0;
  return true;
}

Result<std::string> Disassemble(const std::string& cubin, const std::string& nvdisasm,
                                DiagSink& diags) {
  if (nvdisasm.empty()) return diags.Report(kNvdisasmMissing, Span{}).Place("command line");
  std::string why;
  const TemporaryFolder folder("tilec-nvdisasm", &why);
  if (folder.path().empty()) return diags.Report(kNvdisasmFailed, Span{}, why);
  const std::string file = folder.path() + "/kernel.cubin", log = folder.path() + "/text";
  std::string text, bytes = cubin;
  for (bool again = true; again; again = ToOlderHeader(&bytes)) {
    if (!WriteFileAtomically(file, bytes, &why))
      return diags.Report(kNvdisasmFailed, Span{}, file + ": " + why);
    const int status = RunLogged({nvdisasm, "-c", file}, log);
    text.clear();
    if (!ReadFile(log, &text, &why)) return diags.Report(kNvdisasmFailed, Span{}, why);
    if (status == 0) return text;
  }
  const std::string first = text.substr(0, text.find('\n'));
  return diags.Report(kNvdisasmFailed, Span{}, first.empty() ? "it did not run" : first)
      .Place(nvdisasm);
}

}  // namespace tilec::sass
