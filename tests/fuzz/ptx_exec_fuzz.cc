// Programs that load, and do what no compiler would: ptx_exec_fuzz SECONDS [SEED [FILE]].
//
// Starts from the conformance cases, which use every instruction form, and changes them where the
// text stays well formed: registers for others of their width, numbers for extreme ones, types for
// others of their size, statements dropped, doubled, moved or guarded, bodies of two cases in one.
// What loads is run under a random schedule of execution with a small instruction limit, every
// second time with the judge on. Nothing may crash, hang, or fail without a diagnostic. FILE keeps
// the last text. Build with TILEC_SANITIZE for the full effect.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include "runtime/emulator/judge/finding.h"
#include "tests/conformance/run.h"

namespace {

using namespace tilec;               // NOLINT: a test program
using namespace tilec::conformance;  // NOLINT

using Rng = std::mt19937_64;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool IsStatement(const std::string& line) {
  return !line.empty() && line.back() == ';' && line[0] != '.' && line[0] != '{';
}

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Registers by the type they are declared with.
std::map<std::string, std::vector<std::string>> Registers(const std::vector<std::string>& lines) {
  std::map<std::string, std::vector<std::string>> by_type;
  for (const std::string& line : lines) {
    if (line.substr(0, 6) != ".reg .") continue;
    const size_t blank = line.find(' ', 6);
    if (blank == std::string::npos) continue;
    const std::string type = line.substr(6, blank - 6);
    for (size_t at = line.find('%'); at != std::string::npos; at = line.find('%', at + 1)) {
      size_t end = at + 1;
      while (end < line.size() && IsWord(line[end])) ++end;
      const std::string name = line.substr(at, end - at);
      const int many =
          end < line.size() && line[end] == '<' ? std::atoi(line.c_str() + end + 1) : -1;
      if (many < 0) by_type[type].push_back(name);
      for (int k = 0; k < std::min(many, 64); ++k)
        by_type[type].push_back(fmt::format("{}{}", name, k));
    }
  }
  return by_type;
}

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : rng_(seed) {
    Golden golden;
    std::string why;
    if (!ReadGolden(std::string(TILEC_SOURCE_DIR) + "/tests/conformance/h200.txt", &golden, &why)) {
      std::printf("%s\n", why.c_str());
      std::exit(1);
    }
    for (Case& c : AllCases())
      if (golden.results.count(c.name) != 0) cases_.push_back(std::move(c));
  }

  const Case& Pick() { return cases_[rng_() % cases_.size()]; }

  std::string Make(const Case& c) {
    Case mixed = c;
    if (rng_() % 3 == 0) {  // the body of another one, in a scope of its own
      const Case& other = Pick();
      if (other.maps.empty() || !c.maps.empty())
        mixed.body = rng_() % 2 == 0 ? c.body + "{\n" + other.declarations + other.body + "}\n"
                                     : "{\n" + other.declarations + other.body + "}\n" + c.body;
    }
    std::vector<std::string> lines = Lines(EntryText(mixed, "k"));
    const auto registers = Registers(lines);
    for (uint64_t n = rng_() % 5; n > 0; --n) Change(lines, registers);
    return ModuleHeader() + fmt::format("{}\n", fmt::join(lines, "\n"));
  }

  uint64_t Roll(uint64_t n) { return rng_() % n; }

 private:
  size_t Statement(const std::vector<std::string>& lines) {
    for (int tries = 0; tries < 50; ++tries)
      if (size_t k = rng_() % lines.size(); IsStatement(lines[k])) return k;
    return 0;
  }

  void Change(std::vector<std::string>& lines,
              const std::map<std::string, std::vector<std::string>>& registers) {
    const size_t k = Statement(lines);
    std::string& line = lines[k];
    switch (rng_() % 9) {
      case 0:
      case 1:
      case 2: return Register(line, registers);
      case 3:
      case 4: return Number(line);
      case 5: return Type(line);
      case 6: line.clear(); return;
      case 7: {
        const std::string copy = line;
        lines.insert(lines.begin() + static_cast<ptrdiff_t>(Statement(lines)), copy);
        return;
      }
      case 8: {
        const auto p = registers.find("pred");
        if (p == registers.end() || line[0] == '@') return;
        line = fmt::format("@{}{} {}", rng_() % 2 == 0 ? "!" : "",
                           p->second[rng_() % p->second.size()], line);
        return;
      }
    }
  }

  void Register(std::string& line,
                const std::map<std::string, std::vector<std::string>>& registers) {
    std::vector<size_t> at;
    for (size_t k = line.find('%'); k != std::string::npos; k = line.find('%', k + 1))
      at.push_back(k);
    if (at.empty()) return;
    const size_t begin = at[rng_() % at.size()];
    size_t end = begin + 1;
    while (end < line.size() && IsWord(line[end])) ++end;
    const std::string name = line.substr(begin, end - begin);
    for (const auto& [type, names] : registers)
      if (std::find(names.begin(), names.end(), name) != names.end())
        line.replace(begin, end - begin, names[rng_() % names.size()]);
  }

  void Number(std::string& line) {
    static constexpr const char* kNumbers[] = {
        "0",       "1",          "-1",          "2",         "3",     "7",     "15",
        "16",      "31",         "32",          "33",        "64",    "127",   "128",
        "255",     "256",        "1023",        "4096",      "65535", "65536", "1048575",
        "1048576", "2147483647", "-2147483648", "4294967295"};
    for (int tries = 0; tries < 10; ++tries) {
      const size_t k = rng_() % line.size();
      if (!std::isdigit(static_cast<unsigned char>(line[k])) ||
          (k > 0 && (IsWord(line[k - 1]) || line[k - 1] == '%')))
        continue;
      size_t end = k;
      while (end < line.size() && IsWord(line[end])) ++end;
      line.replace(k, end - k, kNumbers[rng_() % std::size(kNumbers)]);
      return;
    }
  }

  // A modifier for another that often stands in its place.
  void Type(std::string& line) {
    static const std::vector<std::vector<std::string>> kAlike = {
        {".u32", ".s32", ".b32", ".f32", ".f16x2", ".bf16x2"},
        {".u64", ".s64", ".b64", ".f64"},
        {".u16", ".s16", ".b16", ".f16", ".bf16"},
        {".u8", ".s8", ".b8"},
        {".add", ".min", ".max", ".and", ".or", ".xor", ".inc", ".dec"},
        {".eq", ".ne", ".lt", ".le", ".gt", ".ge"},
        {".shared::cta", ".shared::cluster", ".shared", ".global", ".local"},
        {".cta", ".cluster", ".gpu", ".sys"},
        {".acquire", ".release", ".relaxed", ".acq_rel"},
        {".rn", ".rz", ".rm", ".rp"},
        {".sync", ".arrive"},
        {".v2", ".v4"},
        {".x1", ".x2", ".x4"},
        {".up", ".down", ".bfly", ".idx"}};
    const auto& group = kAlike[rng_() % kAlike.size()];
    for (const std::string& word : group) {
      const size_t at = line.find(word);
      if (at == std::string::npos) continue;
      line.replace(at, word.size(), group[rng_() % group.size()]);
      return;
    }
  }

  Rng rng_;
  std::vector<Case> cases_;
};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const char* keep = argc > 3 ? argv[3] : nullptr;
  Fuzzer fuzzer(seed);
  uint64_t texts = 0, loaded = 0, finished = 0, found = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  DiagSink diags;
  const std::vector<uint8_t> memory = Memory();
  for (; std::chrono::steady_clock::now() < end; ++texts) {
    const Case& c = fuzzer.Pick();
    const std::string ptx = fuzzer.Make(c);
    if (keep != nullptr) std::ofstream(keep) << ptx;
    runtime::EmulatorOptions o;
    o.threads = 1;
    o.instruction_limit = 4000;
    o.memory_limit_bytes = 64 << 20;
    o.seed = fuzzer.Roll(8);
    o.policy = static_cast<runtime::Policy>(fuzzer.Roll(5));
    o.landing = static_cast<runtime::Landing>(fuzzer.Roll(4));
    o.spurious_try_wait = fuzzer.Roll(2) == 0;
    if (fuzzer.Roll(2) == 0) {
      o.check = runtime::EmulatorOptions::Check::kOn;
      o.check_numbers = fuzzer.Roll(4) == 0;
      o.check_banks = fuzzer.Roll(4) == 0;
      o.report = std::make_shared<runtime::judge::Report>();
    }
    const auto device = runtime::OpenEmulator(o);
    diags.Clear();
    auto module = device->Load(ptx, {}, diags);
    if (!module.ok()) {
      if (!diags.has_errors()) return std::printf("failed without a diagnostic\n"), 1;
      continue;
    }
    ++loaded;
    runtime::LaunchConfig config;
    config.cluster[0] = fuzzer.Roll(8) == 0 ? 2 : c.cluster;
    config.grid[0] = config.cluster[0];
    config.block[0] = fuzzer.Roll(4) == 0 ? 1 + static_cast<uint32_t>(fuzzer.Roll(300)) : c.threads;
    const auto in = device->Alloc(memory.size(), diags), out = device->Alloc(memory.size(), diags),
               mem = device->Alloc(memory.size(), diags);
    if (!in.ok() || !out.ok() || !mem.ok()) return 1;
    for (auto a : {*in, *mem})
      if (!device->CopyIn(a, memory.data(), memory.size(), diags).ok()) return 1;
    std::vector<runtime::KernelArg> args = {
        runtime::KernelArg::Of(*in), runtime::KernelArg::Of(*out), runtime::KernelArg::Of(*mem)};
    for (runtime::TensorMapDesc map : c.maps) {
      map.base += *mem;
      const auto encoded = device->EncodeTensorMap(map, diags);
      if (!encoded.ok()) return 1;
      args.push_back(runtime::KernelArg::Of(*encoded));
    }
    if (device->Launch(**module, "k", config, args, 0, nullptr, diags).ok())
      ++finished;
    else if (!diags.has_errors())
      return std::printf("a launch failed without a diagnostic\n"), 1;
    if (o.report != nullptr && !o.report->findings().empty()) {
      ++found;
      if (runtime::judge::ToText(o.report->findings()).empty()) return 1;
    }
  }
  std::printf("seed %lu: %lu texts, %lu loaded, %lu finished, %lu with findings\n",
              static_cast<unsigned long>(seed), static_cast<unsigned long>(texts),
              static_cast<unsigned long>(loaded), static_cast<unsigned long>(finished),
              static_cast<unsigned long>(found));
  return loaded * 2 > texts && finished > 0 ? 0 : 1;
}
