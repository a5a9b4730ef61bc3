// Modules that anybody wrote: foreign_corpus [--origins=A,B] FILE.ptx… loads each, says which of
// its instructions the emulator lacks, and runs its entries with made-up arguments (guess.h), all
// checks on. An entry has *run* if every instruction that it came to was executed: it ended, or it
// stopped at something that made-up arguments can be the reason of, such as an address outside of
// every allocation. What the judge says of those that ended is printed, for somebody to look at.
//
// `--orders=N`: N orders of each entry, one unless said. `--entries=N`: at most N entries of a
// module, 16 unless said. `--quick`: fewer instructions.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/judge/cause.h"
#include "support/file.h"
#include "support/source.h"
#include "tests/corpus/guess.h"
#include "tests/corpus/run.h"

namespace {

using namespace tilec;           // NOLINT: a test program
using namespace tilec::corpus;   // NOLINT
using namespace tilec::runtime;  // NOLINT

constexpr uint64_t kBufferBytes = 4 << 20;
constexpr uint32_t kCount = 64;  // of whatever 32 bits count

struct Options {
  std::vector<std::string> origins;
  int orders = 1;
  size_t entries = 16;
  uint64_t instructions = 4'000'000;
  bool verbose = false;
};

std::string Text(const DiagSink& diags) {
  SourceMap sources;
  return RenderAll(diags, sources);
}

// The instructions of a module that no row fits, by name.
std::map<std::string, int> Lacks(const std::string& text) {
  std::map<std::string, int> lacks;
  DiagSink diags;
  emulator::PtxPlaces places;
  places.name = "kernel.ptx";
  const auto parsed = emulator::ParsePtx(text, places, diags);
  if (!parsed.ok()) return lacks;
  for (const emulator::Entry& e : (*parsed)->entries) {
    const auto program = emulator::Decoder(**parsed, e, places, diags).Run();
    if (!program.ok()) continue;
    for (const auto& r : (*program)->refusals) ++lacks[r.message];
  }
  return lacks;
}

TensorMapDesc MapOf(int rank, DeviceAddress base) {
  TensorMapDesc d;
  d.dtype = "f16", d.base = base;
  for (int k = 0; k < rank; ++k) {
    d.dims.push_back(kCount);
    d.box.push_back(k < 2 ? kCount : 1);
    if (k > 0) d.strides_bytes.push_back(k == 1 ? 2 * kCount : d.strides_bytes.back() * kCount);
  }
  return d;
}

class Launcher {
 public:
  explicit Launcher(const Options& o) : options_(o) {}

  Outcome Run(const std::string& text, const std::string& name, const std::string& entry,
              const Guess& g, int order) {
    Outcome out;
    EmulatorOptions o;
    o.policy = order == 0 ? Policy::kRunToBlock : order % 2 == 0 ? Policy::kRandom : Policy::kPct;
    o.landing = order == 0 ? Landing::kEarly : order % 3 == 0 ? Landing::kLate : Landing::kPoison;
    o.seed = static_cast<uint64_t>(order);
    o.instruction_limit = options_.instructions;
    o.check = EmulatorOptions::Check::kOn;
    o.report = std::make_shared<judge::Report>();
    const auto device = OpenEmulator(o);
    DiagSink diags;
    LoadOptions load;
    load.name = name;
    const auto module = device->Load(text, load, diags);
    if (!module.ok()) {
      out.refused = Text(diags);
      return out;
    }
    std::vector<KernelArg> args;
    for (const Guess::Param& p : g.params) args.push_back(Argument(*device, p, diags));
    LaunchConfig c;
    std::copy(g.grid, g.grid + 3, c.grid);
    std::copy(g.block, g.block + 3, c.block);
    std::copy(g.cluster, g.cluster + 3, c.cluster);
    c.smem_bytes = g.dynamic_shared;
    LaunchStats stats;
    if (!device->Launch(**module, entry, c, args, 0, &stats, diags).ok()) {
      const std::string said = Text(diags);
      const bool lacks = said.find("E603") != std::string::npos ||
                         said.find("E604") != std::string::npos ||
                         said.find("E607") != std::string::npos;
      (lacks ? out.refused : out.fault) = said;
    }
    out.findings = o.report->findings();
    return out;
  }

 private:
  KernelArg Argument(Device& device, const Guess::Param& p, DiagSink& diags) {
    KernelArg a;
    a.bytes.assign(p.bytes, 0);
    auto put = [&](uint64_t at, const void* from, size_t bytes) {
      if (at + bytes <= p.bytes) std::memcpy(&a.bytes[at], from, bytes);
    };
    for (auto [at, bytes] : p.words) {
      const uint64_t whole = bytes == 8 ? kCount : bytes < 4 ? 1 : kCount;
      const float single = 1;
      const double real = 1;
      if (bytes == -4) put(at, &single, 4);
      if (bytes == -8) put(at, &real, 8);
      if (bytes > 0) put(at, &whole, static_cast<size_t>(bytes));
    }
    for (auto [at, yes] : p.pointers)
      if (const auto to = Buffer(device, diags); yes && to.ok()) put(at, &*to, 8);
    for (auto [at, rank] : p.maps) {
      const auto to = Buffer(device, diags);
      if (!to.ok()) continue;
      const auto map = device.EncodeTensorMap(MapOf(rank, *to), diags);
      if (map.ok()) put(at, map->bytes, sizeof map->bytes);
    }
    return a;
  }
  static Result<DeviceAddress> Buffer(Device& device, DiagSink& diags) {
    TRY(const DeviceAddress at, device.Alloc(kBufferBytes, diags));
    TRY_VOID(device.Fill(at, 0, kBufferBytes, diags));
    return at;
  }

  const Options& options_;
};

struct Counts {
  int modules = 0, unloaded = 0, entries = 0, ended = 0, stopped = 0, refused = 0, blamed = 0;
};

class Corpus {
 public:
  explicit Corpus(const Options& o) : options_(o) {}

  void File(const std::string& path) {
    std::string text, why;
    if (!ReadFile(path, &text, &why)) {
      fmt::print("{}\n", why);
      return;
    }
    const std::string name = path.substr(path.rfind('/') + 1);
    Counts& c = counts_[Origin(name)];
    ++c.modules;
    DiagSink diags;
    LoadOptions load;
    load.name = name;
    const auto device = OpenEmulator({});
    if (const auto module = device->Load(text, load, diags); !module.ok()) {
      ++c.unloaded;
      fmt::print("{}: not loaded: {}\n", name, FirstLine(Text(diags)));
      return;
    }
    for (const auto& [what, count] : Lacks(text)) lacks_[what].push_back(name);
    size_t done = 0;
    for (const auto& [entry, guess] : GuessLaunches(text))
      if (done++ < options_.entries) Entry(text, name, entry, guess, &c);
    std::fflush(stdout);
  }

  int Summary() const {
    for (const auto& [what, where] : lacks_)
      fmt::print("lacks: {} ({} entries, {})\n", what, where.size(), where[0]);
    for (const auto& [what, count] : stops_) fmt::print("stopped: {} × {}\n", count, what);
    Counts all;
    fmt::print(
        "\n| origin | modules | load | entries run | ended | stopped | refused | blamed |\n"
        "|---|---|---|---|---|---|---|---|\n");
    for (const auto& [origin, c] : counts_) {
      Row(origin, c);
      all.modules += c.modules, all.unloaded += c.unloaded, all.entries += c.entries;
      all.ended += c.ended, all.stopped += c.stopped, all.refused += c.refused;
      all.blamed += c.blamed;
    }
    Row("all", all);
    return all.modules == 0;
  }

 private:
  static void Row(const std::string& name, const Counts& c) {
    fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} |\n", name, c.modules,
               c.modules - c.unloaded, c.entries, c.ended, c.stopped, c.refused, c.blamed);
  }
  std::string Origin(const std::string& name) const {
    for (const std::string& o : options_.origins)
      if (name.substr(0, o.size() + 1) == o + "-") return o;
    return "other";
  }

  void Entry(const std::string& text, const std::string& name, const std::string& entry,
             const Guess& g, Counts* c) {
    ++c->entries;
    Launcher launcher(options_);
    bool blamed = false;
    for (int order = 0; order < options_.orders; ++order) {
      const Outcome out = launcher.Run(text, name, entry, g, order);
      if (!out.refused.empty()) {
        ++c->refused;
        fmt::print("{}:{}: refused: {}\n", name, entry, out.refused);
        return;
      }
      if (!out.fault.empty()) {
        ++c->stopped;
        std::string first = FirstLine(out.fault);
        if (options_.verbose) fmt::print("{}:{}: {}", name, entry, out.fault);
        ++stops_[first.substr(0, first.find(']') + 1)];
        return;
      }
      std::vector<judge::Finding> real;
      for (const judge::Finding& f : out.findings)
        if (f.severity == judge::Severity::kError) real.push_back(f);
      if (real.empty() || blamed) continue;
      blamed = true;
      const judge::Finding& root = real[judge::FindCauses(real)[0].root];
      fmt::print("{}:{}: {} findings, first:\n{}", name, entry, real.size(), judge::ToText(root));
    }
    ++c->ended;
    c->blamed += blamed;
  }

  const Options& options_;
  std::map<std::string, Counts> counts_;
  std::map<std::string, std::vector<std::string>> lacks_;
  std::map<std::string, int> stops_;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  std::vector<std::string> files;
  for (int k = 1; k < argc; ++k) {
    const std::string a = argv[k];
    if (a.substr(0, 10) == "--origins=") {
      for (size_t at = 10; at < a.size();) {
        const size_t end = std::min(a.find(',', at), a.size());
        o.origins.push_back(a.substr(at, end - at));
        at = end + 1;
      }
    } else if (a.substr(0, 9) == "--orders=") {
      o.orders = std::max(std::atoi(argv[k] + 9), 1);
    } else if (a.substr(0, 10) == "--entries=") {
      o.entries = static_cast<size_t>(std::atoi(argv[k] + 10));
    } else if (a == "--quick") {
      o.instructions = 200'000;
    } else if (a == "--verbose") {
      o.verbose = true;
    } else {
      files.push_back(a);
    }
  }
  Corpus corpus(o);
  for (const std::string& f : files) corpus.File(f);
  return corpus.Summary();
}
