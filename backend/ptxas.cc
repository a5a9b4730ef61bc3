// SPDX-License-Identifier: Apache-2.0
#include "backend/ptxas.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "backend/diagnostics.h"
#include "support/file.h"

extern char** environ;

namespace tilec::backend {
namespace {

bool Executable(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

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

// A folder that disappears with its contents.
struct TemporaryFolder {
  std::string path;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path.empty()) std::filesystem::remove_all(path, error);
  }
};

// Runs argv with both outputs into `log`; the exit status, −1 if it did not run.
int RunLogged(const std::vector<std::string>& argv, const std::string& log) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
    execve(args[0], args.data(), environ);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string FindPtxas(const PtxasSearch& search) {
  if (!search.path.empty()) return Executable(search.path) ? search.path : "";
  if (!search.cuda_home.empty()) {
    const std::string file = search.cuda_home + "/bin/ptxas";
    if (Executable(file)) return file;
  }
  std::string_view rest = search.path_list;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
    if (!folder.empty() && Executable(folder + "/ptxas")) return folder + "/ptxas";
  }
  return "";
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

Result<PtxasReport> Assemble(const std::string& ptx, const std::string& target,
                             const std::string& ptxas, DiagSink& diags) {
  if (ptxas.empty())
    return diags.Report(kPtxasMissing, Span())
        .Help("install the CUDA toolkit, or say where ptxas is with `--ptxas-path`");
  std::error_code error;
  const std::filesystem::path root = std::filesystem::temp_directory_path(error);
  std::string name = (error ? std::filesystem::path("/tmp") : root) / "tilec-ptxas-XXXXXX";
  if (!mkdtemp(name.data()))
    return diags.Report(kPtxasIo, Span(), "create", name, std::strerror(errno));
  TemporaryFolder folder{name};
  const std::string source = name + "/kernel.ptx", cubin = name + "/kernel.cubin",
                    log = name + "/log";
  std::string why;
  if (!WriteFileAtomically(source, ptx, &why))
    return diags.Report(kPtxasIo, Span(), "write", source, why);
  const int status = RunLogged({ptxas, "-arch=" + target, "-v", source, "-o", cubin}, log);
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
