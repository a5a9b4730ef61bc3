// Programs that load, and do what no compiler would:
//
//   ptx_exec_fuzz [--seconds=S | --launches=N] [--seed=N] [--only=INPUT] [--root=FOLDER]
//
// Starts from the conformance cases, which use every instruction form, and changes them where the
// text stays well formed: registers for others of their width, numbers for extreme ones, types for
// others of their size, statements dropped, doubled, moved or guarded, bodies of two cases in one.
// What loads is launched a few times, each with another shape, schedule of execution and timing of
// copies and a small instruction limit, every second time with the judge on; tensor maps are
// changed too, their checksum made to fit, as a kernel could. Nothing may crash,
// hang, or fail without a diagnostic. Build with TILEC_SANITIZE for the full effect.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "runtime/emulator/judge/finding.h"
#include "tests/conformance/run.h"
#include "tests/fuzz/inputs.h"
#include "tests/fuzz/last_input.h"

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
  explicit Fuzzer(const std::string& root) {
    Golden golden;
    std::string why;
    if (!ReadGolden(root + "/tests/conformance/h200.txt", &golden, &why)) {
      std::printf("%s\n", why.c_str());
      std::exit(1);
    }
    for (Case& c : AllCases())
      if (golden.results.count(c.name) != 0) cases_.push_back(std::move(c));
  }

  void Seed(uint64_t seed) { rng_.seed(seed); }
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

  // Fields of a tensor map, changed by somebody who knows how they are laid out (tensor_map.cc).
  void Forge(runtime::TensorMap* map) {
    static constexpr uint64_t kValues[] = {0, 1, 2, 7, 8, 9, 15, 16, 255, 256, 4096, 65535};
    for (uint64_t n = 1 + Roll(3); n > 0; --n) {
      uint8_t* at = map->bytes + 16 + Roll(86);
      const uint64_t value = Roll(3) == 0 ? rng_() : kValues[Roll(std::size(kValues))];
      std::memcpy(at, &value, Roll(2) == 0 ? 1 : 2);
    }
    std::memset(map->bytes + 8, 0, 8);
    uint64_t sum = 0xcbf29ce484222325ull;
    for (size_t k = 0; k < 120; ++k) sum = (sum ^ map->bytes[k]) * 0x100000001b3ull;
    std::memcpy(map->bytes + 8, &sum, 8);
  }

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

// One device for each combination of options that are a device's, with its memory.
struct Machine {
  runtime::EmulatorOptions options;
  std::unique_ptr<runtime::Device> device;
  std::vector<runtime::DeviceAddress> memory;  // in, out, mem

  Machine(Fuzzer& dice, const std::vector<uint8_t>& content) {
    runtime::EmulatorOptions& o = options;
    o.threads = 1;
    o.instruction_limit = 3000;
    o.memory_limit_bytes = 64 << 20;
    o.seed = dice.Roll(8);
    o.policy = static_cast<runtime::Policy>(dice.Roll(5));
    o.landing = static_cast<runtime::Landing>(dice.Roll(4));
    o.spurious_try_wait = dice.Roll(2) == 0;
    if (dice.Roll(2) == 0) {
      o.check = runtime::EmulatorOptions::Check::kOn;
      o.check_numbers = dice.Roll(4) == 0;
      o.check_banks = dice.Roll(4) == 0;
      o.report = std::make_shared<runtime::judge::Report>();
    }
    device = runtime::OpenEmulator(o);
    DiagSink diags;
    for (int k = 0; k < 3; ++k) {
      const auto a = device->Alloc(content.size(), diags);
      if (a.ok()) memory.push_back(*a);
    }
  }
};

struct Counts {
  uint64_t texts = 0, loaded = 0, launches = 0, finished = 0, found = 0;
};

// False: something that must not be.
bool LaunchOne(Machine& m, const runtime::Module& module, const Case& c, Fuzzer& dice,
               const std::vector<uint8_t>& content, Counts& n) {
  DiagSink diags;
  for (size_t k : {size_t{0}, size_t{2}})
    if (!m.device->CopyIn(m.memory[k], content.data(), content.size(), diags).ok()) return false;
  runtime::LaunchConfig config;
  config.cluster[0] = dice.Roll(8) == 0 ? 2 : c.cluster;
  config.grid[0] = config.cluster[0];
  const bool group = c.threads == 128 || c.body.find("wgmma") != std::string::npos;
  config.block[0] = dice.Roll(6) == 0 ? 1 + static_cast<uint32_t>(dice.Roll(300))
                    : group           ? 128
                                      : 32u << dice.Roll(2);
  std::vector<runtime::KernelArg> args;
  for (runtime::DeviceAddress a : m.memory) args.push_back(runtime::KernelArg::Of(a));
  for (runtime::TensorMapDesc map : c.maps) {
    map.base += m.memory[2];
    const auto encoded = m.device->EncodeTensorMap(map, diags);
    if (!encoded.ok()) return false;
    runtime::TensorMap bytes = *encoded;
    if (dice.Roll(2) == 0) dice.Forge(&bytes);
    args.push_back(runtime::KernelArg::Of(bytes));
  }
  ++n.launches;
  if (m.device->Launch(module, "k", config, args, 0, nullptr, diags).ok())
    ++n.finished;
  else if (!diags.has_errors())
    return std::printf("a launch failed without a diagnostic\n"), false;
  if (m.options.report == nullptr || m.options.report->findings().empty()) return true;
  ++n.found;
  const bool said = !runtime::judge::ToText(m.options.report->findings()).empty();
  m.options.report->Clear();
  return said;
}

bool OneText(std::vector<Machine>& machines, Fuzzer& dice, const std::vector<uint8_t>& content,
             Counts& n) {
  const Case& c = dice.Pick();
  fuzz::Last().text = dice.Make(c);
  ++n.texts;
  DiagSink diags;
  bool loaded = false;
  for (int k = 0; k < 4; ++k) {
    Machine& m = machines[dice.Roll(machines.size())];
    auto module = m.device->Load(fuzz::Last().text, {}, diags);
    if (!module.ok()) {
      if (!diags.has_errors()) return std::printf("failed without a diagnostic\n"), false;
      return true;
    }
    n.loaded += !loaded;
    loaded = true;
    for (int again = 0; again < 2; ++again)
      if (!LaunchOne(m, **module, c, dice, content, n)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::string root = TILEC_SOURCE_DIR;
  CLI::App app("PTX that loads: the executor and the judge under fire");
  fuzz::Inputs inputs(app, "--launches");
  app.add_option("--root", root, "the tree, or a folder with its tests");
  CLI11_PARSE(app, argc, argv);
  fuzz::ShowLastInputOnDeath();
  Fuzzer dice(root);
  const std::vector<uint8_t> content = Memory();
  dice.Seed(inputs.seed);
  std::vector<Machine> machines;
  for (int k = 0; k < 24; ++k) machines.emplace_back(dice, content);
  Counts n;
  for (uint64_t k; inputs.Next(n.launches, &k);) {
    fuzz::Last().seed = inputs.seed, fuzz::Last().index = k;
    dice.Seed(fuzz::InputSeed(inputs.seed, k));
    if (!OneText(machines, dice, content, n)) return fuzz::PrintLast(), 1;
    if (!inputs.Minute()) continue;
    std::printf("%.0f s: %llu texts, %llu launches\n", inputs.Seconds(),
                static_cast<unsigned long long>(n.texts),
                static_cast<unsigned long long>(n.launches));
    std::fflush(stdout);
  }
  std::printf(
      "seed %llu: %llu texts, %llu loaded, %llu launches, %llu finished, %llu with findings, "
      "%.0f s\n",
      static_cast<unsigned long long>(inputs.seed), static_cast<unsigned long long>(n.texts),
      static_cast<unsigned long long>(n.loaded), static_cast<unsigned long long>(n.launches),
      static_cast<unsigned long long>(n.finished), static_cast<unsigned long long>(n.found),
      inputs.Seconds());
  inputs.PrintSlowest();
  return inputs.only > 0 || (n.loaded * 2 > n.texts && n.finished > 0) ? 0 : 1;
}
