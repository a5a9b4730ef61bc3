// Does the judge see what is wrong in kernels of anybody? mutation_foreign [--step=N] LIST
// FILE.ptx… makes every mutant (every N-th) of the right entries of tests/corpus, runs each under a
// dozen orders, and prints which were found, by what.
//
// A mutant is found if a check of severity error or portability speaks, its run stops, or its
// executions give different outputs: what `tilec check` calls wrong. Its first finding is the root
// that FindCauses puts first. That names the cause if it is a check of the mutant's kind and an
// access, a waiter or a note of it is on the changed line, at most kNear lines from it, or about
// the mbarrier that the changed line is about. Mutants that are the same program in other words are
// listed with the reason and must not be found; those that are missed are listed, too, and any
// other that is missed makes the test fail.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "runtime/emulator/judge/cause.h"
#include "support/file.h"
#include "tests/corpus/run.h"
#include "tests/mutation/mutate.h"

namespace {

using namespace tilec;            // NOLINT: a test program
using namespace tilec::mutation;  // NOLINT
using namespace tilec::runtime;   // NOLINT

constexpr int kNear = 25;
constexpr uint64_t kLimit = 8'000'000;  // instructions: more than it takes to be sure of a hang
constexpr corpus::Plan kPlans[] = {{Policy::kRunToBlock, Landing::kEarly, 0, false},
                                   {Policy::kConsumerFirst, Landing::kPoison, 0, false},
                                   {Policy::kProducerFirst, Landing::kLate, 0, true},
                                   {Policy::kRandom, Landing::kRandom, 1, false},
                                   {Policy::kRandom, Landing::kEarly, 9, true},
                                   {Policy::kPct, Landing::kEarly, 13, true},
                                   {Policy::kPct, Landing::kRandom, 2, false},
                                   {Policy::kRandom, Landing::kLate, 3, false},
                                   {Policy::kRandom, Landing::kEarly, 4, false},
                                   {Policy::kPct, Landing::kLate, 5, true},
                                   {Policy::kRandom, Landing::kPoison, 6, true},
                                   {Policy::kPct, Landing::kEarly, 7, false}};

// Lines of an entry's body, 1-based.
struct Entry {
  std::string name;
  int first = 0, last = 0;
};

std::vector<Entry> Entries(const std::string& text) {
  std::vector<Entry> all;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    constexpr std::string_view kHead = ".visible .entry ";
    if (line.substr(0, kHead.size()) == kHead) {
      const std::string rest = line.substr(kHead.size());
      all.push_back({rest.substr(0, rest.find('(')), number, 1 << 30});
    } else if (line == "}" && !all.empty() && all.back().last == 1 << 30) {
      all.back().last = number;
    }
  }
  return all;
}

struct Seen {
  bool found = false, refused = false, named = false, other_value = false;
  std::string rules, first;
};

// The mbarrier that a statement is about: initialised once more in front of it, the emulator says
// where it is. −1: it is about none.
int BarrierOf(const std::string& text, const std::string& file, const std::string& entry,
              const Mutant& m) {
  const std::optional<Mutant> twice = InitialisedTwice(m);
  if (!twice) return -1;
  const corpus::Outcome out = corpus::Run(Apply(text, *twice), file, entry, kPlans[0], kLimit);
  constexpr std::string_view kWords = "mbarrier at shared offset ";
  for (const judge::Finding& f : out.findings)
    if (const size_t at = f.message.find(kWords);
        f.rule == judge::Rule::kS9 && at != std::string::npos)
      return std::atoi(f.message.c_str() + at + kWords.size());
  return -1;
}

bool Near(const judge::Finding& f, int line, int barrier) {
  const std::string text = judge::ToText(f);
  for (const std::string_view words :
       {"mbarrier at shared offset ", "initialised at shared offset "})
    for (size_t at = text.find(words); barrier >= 0 && at != std::string::npos;
         at = text.find(words, at + 1))
      if (std::atoi(text.c_str() + at + words.size()) == barrier) return true;
  for (size_t at = text.find(".ptx:"); at != std::string::npos; at = text.find(".ptx:", at + 1))
    if (std::abs(std::atoi(text.c_str() + at + 5) - line) <= kNear) return true;
  return false;
}

Seen Try(const std::string& text, const std::string& file, const std::string& entry,
         const Mutant& m, const std::vector<float>& want) {
  Seen seen;
  const std::string changed = Apply(text, m);
  std::vector<judge::Finding> all;
  std::vector<float> first;
  for (const corpus::Plan& plan : kPlans) {
    corpus::Outcome out = corpus::Run(changed, file, entry, plan, kLimit);
    if (!out.refused.empty()) {
      seen.refused = true;
      seen.first = corpus::FirstLine(out.refused);
      return seen;
    }
    for (judge::Finding& f : out.findings)
      if (f.severity != judge::Severity::kHint) all.push_back(std::move(f));
    seen.found = seen.found || !out.fault.empty();
    if (out.outputs.empty() || out.order_sensitive) continue;
    if (first.empty()) first = out.outputs;
    const auto same = [&](const std::vector<float>& other) {
      return std::memcmp(out.outputs.data(), other.data(), other.size() * sizeof(float)) == 0;
    };
    seen.found = seen.found || !same(first);
    seen.other_value = seen.other_value || !same(want);
  }
  std::set<std::string> rules;
  for (const judge::Finding& f : all) rules.insert(judge::Def(f.rule).id);
  seen.rules = fmt::format("{}", fmt::join(rules, " "));
  seen.found = seen.found || !all.empty();
  if (all.empty()) return seen;
  const judge::Finding& root = all[judge::FindCauses(all)[0].root];
  seen.first = judge::OneLine(root);
  seen.named = Accepts(Kinds()[m.kind], judge::Def(root.rule).id) &&
               (Near(root, m.line, -1) || Near(root, m.line, BarrierOf(text, file, entry, m)));
  return seen;
}

struct Tally {
  int mutants = 0, equivalent = 0, refused = 0, found = 0, named = 0, missed = 0;
};

class Runner {
 public:
  Runner(size_t step, const std::string& list) : step_(step) {
    std::ifstream in(list);
    for (std::string line; std::getline(in, line);) {
      const size_t tab = line.rfind('\t');
      if (line.empty() || line[0] == '#' || tab == std::string::npos) continue;
      constexpr std::string_view kMissed = "missed: ";
      const bool missed = line.substr(tab + 1, kMissed.size()) == kMissed;
      (missed ? known_ : equivalent_)[line.substr(0, tab)] = 0;
    }
  }

  void File(const std::string& path) {
    std::string text, why;
    if (!ReadFile(path, &text, &why)) {
      fmt::print("{}\n", why);
      ++wrong_;
      return;
    }
    const std::string file = path.substr(path.rfind('/') + 1);
    const std::vector<Mutant> mutants = Mutants(text, true);
    for (const Entry& e : Entries(text)) {
      if (corpus::IsBad(e.name)) continue;
      std::vector<Mutant> mine;
      for (const Mutant& m : mutants)
        if (m.line >= e.first && m.line <= e.last) mine.push_back(m);
      if (!mine.empty()) Of(text, file, e.name, mine);
    }
  }

  int Summary() {
    for (const auto* list : {&equivalent_, &known_})
      for (const auto& [key, met] : *list)
        if (met == 0) {
          ++wrong_;
          fmt::print("listed, and there is no such mutant: {}\n", key);
        }
    fmt::print("\n{:<18} {:>8} {:>6} {:>8} {:>6} {:>6} {:>7}\n", "kind", "mutants", "equal",
               "refused", "found", "named", "missed");
    Tally sum;
    for (const auto& [kind, t] : by_kind_) {
      Row(kind, t);
      sum.mutants += t.mutants, sum.equivalent += t.equivalent, sum.refused += t.refused;
      sum.found += t.found, sum.named += t.named, sum.missed += t.missed;
    }
    Row("(all)", sum);
    const int counted = sum.found + sum.missed;
    const double found = counted > 0 ? 100.0 * sum.found / counted : 0;
    const double named = sum.found > 0 ? 100.0 * sum.named / sum.found : 0;
    fmt::print(
        "{} mutants that load and are other programs: {:.1f} % found, {:.1f} % of those with "
        "the cause in the first finding\n",
        counted, found, named);
    return wrong_ == 0 && named >= 90 ? 0 : 1;
  }

 private:
  static void Row(const std::string& kind, const Tally& t) {
    fmt::print("{:<18} {:>8} {:>6} {:>8} {:>6} {:>6} {:>7}\n", kind, t.mutants, t.equivalent,
               t.refused, t.found, t.named, t.missed);
  }

  void Of(const std::string& text, const std::string& file, const std::string& entry,
          const std::vector<Mutant>& mutants) {
    const std::vector<float> want = corpus::Run(text, file, entry, kPlans[0]).outputs;
    std::map<size_t, int> of_kind;
    for (const Mutant& m : mutants) {
      const Kind& kind = Kinds()[m.kind];
      const std::string key = fmt::format("{}\t{}#{}", entry, kind.name, ++of_kind[m.kind]);
      const auto listed = equivalent_.find(key);
      if (listed != equivalent_.end()) listed->second = 1;
      const auto known = known_.find(key);
      if (known != known_.end()) known->second = 1;
      if (number_++ % step_ != 0) continue;
      const Seen seen = Try(text, file, entry, m, want);
      const std::string what = fmt::format("{}:{} {}#{} `{}`", entry, m.line, kind.name,
                                           of_kind[m.kind], m.before.substr(0, 80));
      Count(kind.name, what, seen, listed != equivalent_.end());
      if (seen.refused || listed != equivalent_.end() || seen.found == (known == known_.end()))
        continue;
      ++wrong_;
      fmt::print("{} {}\n", seen.found ? "found, and listed as missed:" : "not listed:", what);
    }
  }

  void Count(const std::string& kind, const std::string& what, const Seen& seen, bool equal) {
    Tally& t = by_kind_[kind];
    ++t.mutants;
    if (equal) {
      ++t.equivalent;
      if (!seen.found && !seen.other_value) return;
      ++wrong_;
      fmt::print("NOT EQUIVALENT {}: {}\n", what, seen.first);
    } else if (seen.refused) {
      ++t.refused;
      fmt::print("refused {}: {}\n", what, seen.first);
    } else if (!seen.found) {
      ++t.missed;
      fmt::print("{} {}\n", seen.other_value ? "ONLY BY VALUE" : "MISSED", what);
    } else {
      ++t.found;
      t.named += seen.named;
      if (!seen.named) fmt::print("not named {}: {} | {}\n", what, seen.rules, seen.first);
    }
  }

  size_t step_, number_ = 0;
  std::map<std::string, int> equivalent_, known_;  // met?
  std::map<std::string, Tally> by_kind_;
  int wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int at = 1;
  size_t step = 1;
  if (argc > at && std::strncmp(argv[at], "--step=", 7) == 0)
    step = std::max<size_t>(1, std::strtoul(argv[at++] + 7, nullptr, 10));
  if (argc <= at + 1) {
    fmt::print(stderr, "mutation_foreign [--step=N] LIST FILE.ptx…\n");
    return 2;
  }
  Runner runner(step, argv[at]);
  for (int k = at + 1; k < argc; ++k) runner.File(argv[k]);
  return runner.Summary();
}
