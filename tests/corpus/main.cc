// Kernels that nvcc made: ptx_corpus FILE.ptx… loads every file, runs each entry under the judge,
// and says which ran, which were refused, and where the judge was wrong.
//
// The kernels beside this file take (a, b, c, n): three arrays of n = 512 floats, 4 CTAs of 128
// threads. The name of an entry with a mistake begins with `bad_`: the judge must name it. Of all
// others it must say nothing. What is refused makes the test fail. `--load`: files of anybody,
// loaded and not run.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "runtime/device.h"
#include "runtime/emulator/judge/finding.h"
#include "support/file.h"
#include "support/source.h"

namespace {

using namespace tilec;           // NOLINT: a test program
using namespace tilec::runtime;  // NOLINT

constexpr uint32_t kN = 512;

struct Plan {
  Policy policy;
  Landing landing;
  uint64_t seed;
  bool spurious;
};
constexpr Plan kPlans[] = {{Policy::kRunToBlock, Landing::kEarly, 0, false},
                           {Policy::kConsumerFirst, Landing::kPoison, 0, false},
                           {Policy::kProducerFirst, Landing::kLate, 0, true},
                           {Policy::kRandom, Landing::kRandom, 1, false},
                           {Policy::kPct, Landing::kEarly, 2, true}};

// What is known to be wrong here, and is not the kernel's fault.
const std::set<std::string>& Known() {
  static const std::set<std::string> names = {
      "latch_once",  // the latch of libcu++ is waited for without end; why is not known
  };
  return names;
}

struct Outcome {
  std::string refused;  // what the emulator lacks
  std::string fault;    // how a launch failed
  std::set<std::string> rules;
  std::string report;
};

std::string Text(const DiagSink& diags) {
  SourceMap sources;
  return RenderAll(diags, sources);
}

std::vector<float> Input(uint32_t seed) {
  std::vector<float> v(kN);
  for (uint32_t k = 0; k < kN; ++k) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return v;
}

// One launch, of pairs of CTAs if the entry asks for that (the diagnostic says so).
void Launch(Device& device, const Module& module, const std::string& entry, bool pair,
            Outcome* out) {
  DiagSink diags;
  std::vector<DeviceAddress> memory;
  for (uint32_t k = 0; k < 3; ++k) {
    const std::vector<float> v = k < 2 ? Input(k + 1) : std::vector<float>(kN);
    const auto at = device.Alloc(kN * sizeof(float), diags);
    if (!at.ok() || !device.CopyIn(*at, v.data(), kN * sizeof(float), diags).ok()) return;
    memory.push_back(*at);
  }
  LaunchConfig config;
  config.grid[0] = 4, config.block[0] = 128, config.cluster[0] = pair ? 2 : 1;
  std::vector<KernelArg> args;
  for (DeviceAddress a : memory) args.push_back(KernelArg::Of(a));
  args.push_back(KernelArg::Of(kN));
  const bool ok = device.Launch(module, entry, config, args, 0, nullptr, diags).ok();
  for (DeviceAddress a : memory) device.Free(a);
  if (ok) return;
  const std::string text = Text(diags);
  const bool lacks =
      text.find("E603") != std::string::npos || text.find("E607") != std::string::npos;
  (lacks ? out->refused : out->fault) = text;
}

Outcome Run(const std::string& text, const std::string& name, const std::string& entry) {
  Outcome out;
  for (const Plan& plan : kPlans) {
    EmulatorOptions o;
    o.policy = plan.policy, o.landing = plan.landing, o.seed = plan.seed;
    o.spurious_try_wait = plan.spurious;
    o.instruction_limit = 20'000'000;
    o.check = EmulatorOptions::Check::kOn;
    o.report = std::make_shared<judge::Report>();
    const auto device = OpenEmulator(o);
    DiagSink diags;
    LoadOptions options;
    options.name = name;
    const auto module = device->Load(text, options, diags);
    if (!module.ok()) {
      out.refused = Text(diags);
      return out;
    }
    Launch(*device, **module, entry, false, &out);
    if (out.fault.find("the entry requires 2") != std::string::npos) {
      out.fault.clear();
      o.report->Clear();
      Launch(*device, **module, entry, true, &out);
    }
    for (const judge::Finding& f : o.report->findings()) {
      const bool bad = entry.substr(0, 4) == "bad_";
      if (f.severity == judge::Severity::kHint) continue;
      if (f.severity == judge::Severity::kPortability && !bad) continue;
      if (out.rules.insert(judge::Def(f.rule).id).second) out.report += judge::ToText(f);
    }
    if (!out.refused.empty()) break;
  }
  return out;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

class Corpus {
 public:
  explicit Corpus(bool only_load) : only_load_(only_load) {}

  void File(const std::string& path) {
    std::string text, why;
    if (!ReadFile(path, &text, &why)) {
      fmt::print("{}\n", why);
      ++wrong_;
      return;
    }
    const std::string name = path.substr(path.rfind('/') + 1);
    DiagSink diags;
    LoadOptions options;
    options.name = name;
    const auto device = OpenEmulator({});
    const auto module = device->Load(text, options, diags);
    ++files_;
    if (!module.ok()) {
      fmt::print("{}: not loaded: {}\n", name, FirstLine(Text(diags)));
      ++unloaded_;
      return;
    }
    entries_ += (*module)->entries().size();
    if (only_load_) return;
    for (const std::string& entry : (*module)->entries()) Entry(text, name, entry);
  }

  int Summary() const {
    fmt::print("{} files, {} not loaded, {} entries, {} ran, {} refused, {} wrong\n", files_,
               unloaded_, entries_, ran_, refused_, wrong_);
    return wrong_ + refused_ + unloaded_ == 0 ? 0 : 1;
  }

 private:
  void Entry(const std::string& text, const std::string& name, const std::string& entry) {
    if (Known().count(entry) != 0) {
      fmt::print("{}:{}: not tried\n", name, entry);
      return;
    }
    const Outcome o = Run(text, name, entry);
    const bool bad = entry.substr(0, 4) == "bad_";
    if (!o.refused.empty()) {
      ++refused_;
      fmt::print("{}:{}: refused: {}\n", name, entry, FirstLine(o.refused));
      return;
    }
    ++ran_;
    std::string rules;
    for (const std::string& r : o.rules) rules += " " + r;
    if (bad != o.rules.empty() && (bad || o.fault.empty())) return;
    ++wrong_;
    if (bad)
      fmt::print("{}:{}: a mistake that nobody named\n", name, entry);
    else
      fmt::print("{}:{}: wrongly blamed:{}\n{}{}", name, entry, rules, o.report, o.fault);
  }

  bool only_load_;
  size_t files_ = 0, unloaded_ = 0, entries_ = 0, ran_ = 0, refused_ = 0, wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool only_load = argc > 1 && std::strcmp(argv[1], "--load") == 0;
  Corpus corpus(only_load);
  for (int k = only_load ? 2 : 1; k < argc; ++k) corpus.File(argv[k]);
  return corpus.Summary();
}
