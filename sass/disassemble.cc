// The machine code of a cubin, and as text. Only the section with the code is given to nvdisasm:
// the headers of cubins change from CUDA to CUDA, the code of an architecture does not.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "sass/diagnostics.h"
#include "sass/sass.h"
#include "support/child.h"
#include "support/file.h"

namespace tilec::sass {

namespace {

// Places in an ELF header of 64 bits and in a header of a section.
constexpr uint64_t kSections = 0x28, kSectionBytes = 0x3a, kSectionCount = 0x3c, kNames = 0x3e,
                   kHeaderBytes = 0x40;
constexpr uint64_t kOffset = 0x18, kSize = 0x20, kLeastSection = 0x40;

// Reads that stay inside.
class Elf {
 public:
  explicit Elf(const std::string& bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }

  template <typename T>
  T At(uint64_t at) {
    T value = 0;
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T))
      ok_ = false;
    else
      std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  std::string_view Part(uint64_t at, uint64_t size) {
    if (at > bytes_.size() || bytes_.size() - at < size) ok_ = false;
    return ok_ ? std::string_view(bytes_).substr(at, size) : std::string_view();
  }

 private:
  const std::string& bytes_;
  bool ok_ = true;
};

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

Result<std::string> CodeOf(const std::string& cubin, DiagSink& diags) {
  if (cubin.size() < kHeaderBytes || cubin.compare(0, 5, "\177ELF\2") != 0)
    return diags.Report(kNotCubin, Span{}, "it is no ELF file of 64 bits");
  Elf elf(cubin);
  const uint64_t sections = elf.At<uint64_t>(kSections), bytes = elf.At<uint16_t>(kSectionBytes),
                 count = elf.At<uint16_t>(kSectionCount), names = elf.At<uint16_t>(kNames);
  if (bytes < kLeastSection) return diags.Report(kNotCubin, Span{}, "it has no sections");
  const auto part = [&](uint64_t section) {
    const uint64_t at = sections + section * bytes;
    return elf.Part(elf.At<uint64_t>(at + kOffset), elf.At<uint64_t>(at + kSize));
  };
  const std::string_view words = part(names);
  for (uint64_t s = 0; elf.ok() && s < count; ++s) {
    const uint64_t name = elf.At<uint32_t>(sections + s * bytes);
    if (name >= words.size() || words.substr(name, 6) != ".text.") continue;
    const std::string_view code = part(s);
    if (elf.ok()) return std::string(code);
  }
  return diags.Report(kNotCubin, Span{},
                      elf.ok() ? "it has no section `.text.NAME`" : "a section ends outside of it");
}

Result<std::string> Disassemble(const std::string& code, const std::string& target,
                                const std::string& nvdisasm, DiagSink& diags) {
  if (nvdisasm.empty()) return diags.Report(kNvdisasmMissing, Span{}).Place("command line");
  std::string why, text;
  const TemporaryFolder folder("tilec-nvdisasm", &why);
  if (folder.path().empty()) return diags.Report(kNvdisasmFailed, Span{}, why);
  const std::string file = folder.path() + "/code", log = folder.path() + "/text";
  if (!WriteFileAtomically(file, code, &why))
    return diags.Report(kNvdisasmFailed, Span{}, file + ": " + why);
  // sm_90a → SM90a, which newer ones tell from SM90; older ones know SM90 alone.
  const size_t digits = std::min(target.find_first_of("0123456789"), target.size());
  const std::string number = target.substr(digits);
  const std::string plain = number.substr(0, number.find_first_not_of("0123456789"));
  for (const std::string& architecture : {number, plain}) {
    const int status = RunLogged({nvdisasm, "-b", "SM" + architecture, file}, log);
    if (!ReadFile(log, &text, &why)) return diags.Report(kNvdisasmFailed, Span{}, why);
    if (status == 0) return text;
  }
  const std::string first = text.substr(0, text.find('\n'));
  return diags.Report(kNvdisasmFailed, Span{}, first.empty() ? "it did not run" : first)
      .Place(nvdisasm);
}

}  // namespace tilec::sass
