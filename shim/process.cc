// SPDX-License-Identifier: Apache-2.0
#include "shim/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "support/file.h"

namespace tilec::shim {
namespace {

// The folder by which the library was loaded: `tilec check` puts a link and the settings there.
std::string OwnFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnFolder), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

int Capability(const std::string& arch) {
  int n = 0;
  for (char c : arch)
    if (c >= '0' && c <= '9') n = n * 10 + (c - '0');
  return n;
}

}  // namespace

Process& Process::Get() {
  static Process* process = [] {
    std::string folder = OwnFolder(), text, why;
    Settings settings;
    const bool told = ReadFile(folder + "/" + kSettingsName, &text, &why);
    if (told)
      if (auto read = ParseSettings(text)) settings = std::move(*read);
    if (!told) folder.clear();
    return new Process(std::move(settings), std::move(folder));  // lives as long as the program
  }();
  return *process;
}

Process::Process(Settings settings, std::string folder)
    : settings_(std::move(settings)),
      folder_(std::move(folder)),
      report_(std::make_shared<runtime::judge::Report>()) {
  runtime::EmulatorOptions& e = settings_.emulator;
  e.check = runtime::EmulatorOptions::Check::kOn;
  e.report = report_;
  if (e.machine.name.empty()) e.machine.name = "the emulator";
  e.print = [](std::string_view text) {
    // As the device's printf: to standard output, in order with the program's own.
    fwrite(text.data(), 1, text.size(), stdout);
  };
  device_ = runtime::OpenEmulator(e);
  capability_ = Capability(device_->isa());
  owner_ = getpid();
  MapCounts();
}

Process::~Process() {
  if (counts_ != &own_counts_) munmap(counts_, sizeof(Counts));
}

void Process::MapCounts() {
  if (folder_.empty()) return;
  const std::string path = fmt::format("{}/counts.{}", folder_, owner_);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (ftruncate(file, sizeof(Counts)) == 0) {
    void* at = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) {
      counts_ = new (at) Counts();
    }
  }
  close(file);
}

double Process::Now() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

void Process::Note(const std::string& line) {
  if (said_.size() > 1000 || !said_.insert(line).second) return;
  if (folder_.empty()) return;
  std::string text = line;
  for (char& c : text)
    if (c == '\n') c = ' ';
  fprintf(stderr, "tilec check: %s\n", text.c_str());
  const std::string path = fmt::format("{}/notes.{}", folder_, getpid());
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  text += '\n';
  if (write(file, text.data(), text.size()) < 0) fprintf(stderr, "tilec check: %s\n", path.c_str());
  close(file);
}

Code Process::Refuse(const std::string& name) {
  ++counts_->refused;
  Note(fmt::format("the program calls `{}`, which is not supported: it fails", name));
  return kNotSupported;
}

void Process::WriteFindings() {
  if (folder_.empty()) return;
  const std::vector<runtime::judge::Finding> findings = report_->findings();
  uint64_t counts = 0;
  for (const auto& f : findings) counts += f.count;
  if (findings.size() == written_ && counts == written_counts_) return;
  written_ = findings.size();
  written_counts_ = counts;
  std::string why;
  const std::string path = fmt::format("{}/findings.{}", folder_, getpid());
  if (!WriteFileAtomically(path, runtime::judge::ToJson(findings), &why))
    fprintf(stderr, "tilec check: %s: %s\n", path.c_str(), why.c_str());
}

}  // namespace tilec::shim
