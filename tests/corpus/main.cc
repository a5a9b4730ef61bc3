// Kernels that nvcc made: ptx_corpus FILE.ptx… loads every file, runs each entry under the judge,
// and says which ran, which were refused, and where the judge was wrong.
//
// How the kernels beside this file are launched: run.h. The name of an entry with a mistake begins
// with `bad_`: the judge must name it. Of all others it must say nothing. What is refused makes the
// test fail. `--load`: files of anybody, loaded and not run. `--orders=N`: N orders of each entry.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "support/file.h"
#include "support/source.h"
#include "tests/corpus/run.h"

namespace {

using namespace tilec;           // NOLINT: a test program
using namespace tilec::corpus;   // NOLINT
using namespace tilec::runtime;  // NOLINT

// The corners, then the dice.
std::vector<Plan> Plans(int orders) {
  std::vector<Plan> plans = {{Policy::kRunToBlock, Landing::kEarly, 0, false},
                             {Policy::kConsumerFirst, Landing::kPoison, 0, false},
                             {Policy::kProducerFirst, Landing::kLate, 0, true},
                             {Policy::kRandom, Landing::kRandom, 1, false},
                             {Policy::kPct, Landing::kEarly, 2, true}};
  constexpr Landing kLandings[] = {Landing::kRandom, Landing::kLate, Landing::kPoison,
                                   Landing::kEarly};
  for (uint64_t s = 3; plans.size() < static_cast<size_t>(orders); ++s)
    plans.push_back(
        {s % 2 == 0 ? Policy::kRandom : Policy::kPct, kLandings[s / 2 % 4], s, s % 3 == 0});
  return plans;
}

struct Verdict {
  std::string refused, fault, report;
  std::set<std::string> rules;
};

Verdict Judge(const std::string& text, const std::string& name, const std::string& entry,
              const std::vector<Plan>& plans) {
  Verdict v;
  for (const Plan& plan : plans) {
    const Outcome out = Run(text, name, entry, plan);
    v.refused = out.refused;
    if (v.fault.empty()) v.fault = out.fault;
    for (const judge::Finding& f : out.findings) {
      if (f.severity == judge::Severity::kHint) continue;
      if (f.severity == judge::Severity::kPortability && !IsBad(entry)) continue;
      if (v.rules.insert(judge::Def(f.rule).id).second) v.report += judge::ToText(f);
    }
    if (!v.refused.empty() || (IsBad(entry) && !v.rules.empty())) break;
  }
  return v;
}

class Corpus {
 public:
  Corpus(bool only_load, int orders) : only_load_(only_load), plans_(Plans(orders)) {}

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
      SourceMap sources;
      fmt::print("{}: not loaded: {}\n", name, FirstLine(RenderAll(diags, sources)));
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
    const Verdict v = Judge(text, name, entry, plans_);
    const bool bad = IsBad(entry);
    if (!v.refused.empty()) {
      ++refused_;
      fmt::print("{}:{}: refused: {}\n", name, entry, FirstLine(v.refused));
      return;
    }
    ++ran_;
    if (bad ? !v.rules.empty() : v.rules.empty() && v.fault.empty()) return;
    ++wrong_;
    if (bad)
      fmt::print("{}:{}: a mistake that nobody named\n", name, entry);
    else
      fmt::print("{}:{}: wrongly blamed: {}\n{}{}", name, entry, fmt::join(v.rules, " "), v.report,
                 v.fault);
  }

  bool only_load_;
  std::vector<Plan> plans_;
  size_t files_ = 0, unloaded_ = 0, entries_ = 0, ran_ = 0, refused_ = 0, wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool only_load = argc > 1 && std::strcmp(argv[1], "--load") == 0;
  const bool orders = argc > 1 && std::strncmp(argv[1], "--orders=", 9) == 0;
  Corpus corpus(only_load, orders ? std::atoi(argv[1] + 9) : 0);
  for (int k = only_load || orders ? 2 : 1; k < argc; ++k) corpus.File(argv[k]);
  return corpus.Summary();
}
