// Kernels that nvcc made: ptx_corpus FILE.ptx… loads every file, runs each entry under the judge,
// and says which ran, which were refused, and where the judge was wrong.
//
// How the kernels beside this file are launched: run.h. The name of an entry with a mistake begins
// with `bad_`: the judge must name it. Of all others it must say nothing. What is refused makes the
// test fail. `--load`: files of anybody, loaded and not run. `--orders=N`: N orders of each entry.
//
// `--caught=LIST FILE.ptx`: for every row ENTRY, CHECK, PLACE of the list, what the judge names
// first of `bad_ENTRY` is that check, with that line of the source, in 25 lines at most; of ENTRY,
// the same program mended, it says nothing at all, portability included.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "runtime/emulator/judge/cause.h"
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

// Everything that was found, under as many orders as `tilec check` runs.
std::vector<judge::Finding> All(const std::string& text, const std::string& name,
                                const std::string& entry, std::string* fault) {
  std::vector<judge::Finding> all;
  for (const Plan& plan : Plans(12)) {
    Outcome out = Run(text, name, entry, plan);
    if (fault->empty()) *fault = out.refused + out.fault;
    for (judge::Finding& f : out.findings)
      if (f.severity != judge::Severity::kHint) all.push_back(std::move(f));
  }
  return all;
}

bool CaughtOne(const std::string& text, const std::string& name, const std::string& entry,
               const std::string& check, const std::string& place) {
  std::string fault;
  const std::vector<judge::Finding> found = All(text, name, "bad_" + entry, &fault);
  if (found.empty()) return fmt::print("{}: nothing found {}\n", entry, fault), false;
  const judge::Finding& root = found[judge::FindCauses(found)[0].root];
  const std::string said = judge::ToText(root);
  const bool placed =
      std::any_of(root.accesses.begin(), root.accesses.end(), [&](const judge::Access& a) {
        return a.site.source.substr(0, place.size() + 1) == place + ":";
      });
  const bool brief = std::count(said.begin(), said.end(), '\n') <= 25;
  bool right = judge::Def(root.rule).id == check && placed && brief;
  if (!right) fmt::print("{}: not {} at {}:\n{}", entry, check, place, said);
  fault.clear();
  const std::vector<judge::Finding> mended = All(text, name, entry, &fault);
  if (!mended.empty() || !fault.empty()) {
    fmt::print("{}: mended, and blamed\n{}{}", entry, judge::ToText(mended), fault);
    right = false;
  }
  return right;
}

int Caught(const std::string& list, const std::string& path) {
  std::string text, why;
  if (!ReadFile(path, &text, &why)) return fmt::print("{}\n", why), 1;
  const std::string name = path.substr(path.rfind('/') + 1);
  std::ifstream in(list);
  int rows = 0, wrong = 0;
  for (std::string line; std::getline(in, line);) {
    const size_t a = line.find('\t'), b = line.rfind('\t');
    if (line.empty() || line[0] == '#' || a == b) continue;
    ++rows;
    wrong += !CaughtOne(text, name, line.substr(0, a), line.substr(a + 1, b - a - 1),
                        line.substr(b + 1));
  }
  fmt::print("{} mistakes of others, {} wrong\n", rows, wrong);
  return rows > 0 && wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strncmp(argv[1], "--caught=", 9) == 0) return Caught(argv[1] + 9, argv[2]);
  const bool only_load = argc > 1 && std::strcmp(argv[1], "--load") == 0;
  const bool orders = argc > 1 && std::strncmp(argv[1], "--orders=", 9) == 0;
  Corpus corpus(only_load, orders ? std::atoi(argv[1] + 9) : 0);
  for (int k = only_load || orders ? 2 : 1; k < argc; ++k) corpus.File(argv[k]);
  return corpus.Summary();
}
