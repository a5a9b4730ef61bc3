// SPDX-License-Identifier: Apache-2.0
#include "backend/ptxas.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "backend/diagnostics.h"
#include "support/child.h"
#include "support/file.h"

namespace tilec::backend {
namespace {

// It allocates 25 to 70 MB and gives nothing back: taken 4 KB at a time that is 6,000 to 18,000
// page faults, a quarter of its time on a guest. An allocator that does not know these words (glibc
// before 2.35) or a system without large pages goes on as before.
constexpr char kLargePages[] =
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";

// The number before `word` in a line such as "16 bytes stack frame, 8 bytes spill stores".
int64_t NumberBefore(std::string_view line, std::string_view word) {
  const size_t at = line.find(word);
  if (at == std::string_view::npos || at == 0) return -1;
  size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int64_t n = -1;
  std::from_chars(line.data() + begin, line.data() + at, n);
  return n;
}

}  // namespace

std::string FindPtxas(const PtxasSearch& search) {
  if (!search.path.empty()) return IsExecutableFile(search.path) ? search.path : "";
  if (!search.cuda_home.empty()) {
    const std::string file = search.cuda_home + "/bin/ptxas";
    if (IsExecutableFile(file)) return file;
  }
  return FindInPathList(search.path_list, "ptxas");
}

std::string PtxasVersion(const std::string& ptxas) {
  std::string why, log;
  const TemporaryFolder folder("tilec-ptxas", &why);
  if (ptxas.empty() || folder.path().empty()) return "";
  const std::string file = folder.path() + "/log";
  if (RunLogged({ptxas, "--version"}, file) != 0 || !ReadFile(file, &log, &why)) return "";
  const size_t at = log.rfind(", V");
  if (at == std::string::npos) return "";
  return log.substr(at + 3, log.find_first_not_of("0123456789.", at + 3) - at - 3);
}

void ParsePtxasLog(const std::string& log, PtxasReport* report) {
  std::string_view rest = log;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    auto take = [&](std::string_view word, int* field) {
      if (const int64_t n = NumberBefore(line, word); n >= 0)
        *field = std::max(*field, static_cast<int>(n));
    };
    take(" registers", &report->registers);
    take(" bytes stack frame", &report->stack_bytes);
    take(" bytes spill stores", &report->spill_store_bytes);
    take(" bytes spill loads", &report->spill_load_bytes);
    take(" barriers", &report->barriers);
    if (const int64_t n = NumberBefore(line, " bytes smem"); n >= 0)
      report->smem_bytes = std::max(report->smem_bytes, n);
    const size_t code = line.find("(C75");
    if (code != std::string_view::npos && line.find(')', code) != std::string_view::npos)
      report->pipeline.emplace_back(line);
  }
}

// C7517 and C7519 are a wait and a fence more. The codes below C7509 are of setmaxnreg.
std::vector<std::string> PtxasReport::Serialized() const {
  std::vector<std::string> out;
  for (const std::string& line : pipeline)
    for (const char* code :
         {"C7509", "C7510", "C7511", "C7512", "C7513", "C7514", "C7515", "C7520"})
      if (line.find(code) != std::string::npos) out.push_back(line);
  return out;
}

Result<PtxasReport> Assemble(const std::string& ptx, const std::string& target,
                             const std::string& ptxas, DiagSink& diags) {
  if (ptxas.empty())
    return diags.Report(kPtxasMissing, Span())
        .Help("install the CUDA toolkit, or say where ptxas is with `--ptxas-path`");
  std::string why;
  const TemporaryFolder folder("tilec-ptxas", &why);
  const std::string& name = folder.path();
  if (name.empty()) return diags.Report(kPtxasIo, Span(), "create", "a temporary folder", why);
  const std::string source = name + "/kernel.ptx", cubin = name + "/kernel.cubin",
                    log = name + "/log";
  if (!WriteFileAtomically(source, ptx, &why))
    return diags.Report(kPtxasIo, Span(), "write", source, why);
  const int status =
      RunLogged({ptxas, "-arch=" + target, "-v", source, "-o", cubin}, log, {kLargePages});
  PtxasReport report;
  (void)ReadFile(log, &report.log, &why);
  if (status != 0) {
    std::string first = report.log;
    if (const size_t at = first.find("error"); at != std::string::npos) {
      const size_t begin = first.rfind('\n', at);
      first = first.substr(begin == std::string::npos ? 0 : begin + 1);
    }
    first = first.substr(0, first.find('\n'));
    if (first.empty()) first = "exit status " + std::to_string(status);
    return diags.Report(kPtxasFailed, Span(), first).Note(report.log);
  }
  if (!ReadFile(cubin, &report.cubin, &why))
    return diags.Report(kPtxasIo, Span(), "read", cubin, why);
  ParsePtxasLog(report.log, &report);
  return report;
}

}  // namespace tilec::backend
