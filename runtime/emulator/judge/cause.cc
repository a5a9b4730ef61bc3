// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tilec::runtime::judge {
namespace {

// How directly a finding names what is wrong.
enum class Kind : uint8_t {
  kEdge,      // an order that is missing, a rule of a barrier that is broken
  kStop,      // the run cannot go on: often the first that was seen of a wrong order
  kSymptom,   // what a wrong order may look like
  kLeftover,  // how things stood at the end
  kOpinion,   // stands for itself
};

Kind KindOf(const Finding& f) {
  switch (f.rule) {
    case Rule::kM1:
    case Rule::kM2:
    case Rule::kM3:
    case Rule::kM8:
    case Rule::kP1:
    case Rule::kP2:
    case Rule::kP3:
    case Rule::kP4:
    case Rule::kA1:
    case Rule::kA2:
    case Rule::kA5:
    case Rule::kS2:
    case Rule::kS3:
    case Rule::kS5:
    case Rule::kS6:
    case Rule::kS7:
    case Rule::kS8:
    case Rule::kS9:
    case Rule::kW1:
    case Rule::kW2:
    case Rule::kT2:
    case Rule::kT4:
    case Rule::kT5:
    case Rule::kT6:
    case Rule::kT10:
    case Rule::kT11:
    case Rule::kT14: return Kind::kEdge;
    case Rule::kM4:
    case Rule::kM5:
    case Rule::kS1:
    case Rule::kW3:
    case Rule::kR1:
    case Rule::kR2:
    case Rule::kT1:
    case Rule::kT3:
    case Rule::kT8:
    case Rule::kT9: return Kind::kStop;
    case Rule::kX1:  // of a limit, say: where another order ended in a deadlock, that says more
    case Rule::kM6:
    case Rule::kM7:
    case Rule::kS4:
    case Rule::kT7:
    case Rule::kT13: return Kind::kSymptom;
    case Rule::kA3:
    case Rule::kA4:
    case Rule::kW4:
    case Rule::kT12: return Kind::kLeftover;
    case Rule::kM9:
    case Rule::kN1:
    case Rule::kB1:
    case Rule::kB2:
    case Rule::kB3:
    case Rule::kB4:
    case Rule::kT15: return Kind::kOpinion;
  }
  return Kind::kOpinion;
}

// Sets of findings that belong together.
class Together {
 public:
  explicit Together(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t Of(size_t k) {
    while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
    return k;
  }
  void Join(size_t a, size_t b) {
    a = Of(a), b = Of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parent_;
};

// A root is an error rather than not, names an edge rather than a symptom, was seen early.
bool Before(const std::vector<Finding>& all, size_t a, size_t b) {
  const auto rank = [&](size_t k) { return std::tuple(all[k].severity, KindOf(all[k]), k); };
  return rank(a) < rank(b);
}

// A line of a kernel, which a compiler may have made many of (an unrolled loop, a copy in parts).
// Of a header whose caller is not known: many lines of the kernel may have come from it.
bool NamesALine(std::string_view source) {
  if (source.empty()) return false;
  if (source.find(" (in ") != source.npos || source.find(" (from ") != source.npos) return true;
  const std::string_view file = source.substr(0, source.find(':'));
  for (const std::string_view end : {".h", ".hpp", ".hxx", ".inl", ".cuh"})
    if (file.size() > end.size() && file.substr(file.size() - end.size()) == end) return false;
  return file.find('.') != file.npos;
}

}  // namespace

std::vector<Cause> FindCauses(const std::vector<Finding>& all) {
  Together sets(all.size());
  std::map<std::tuple<std::string, std::string, int>, size_t>
      first;  // entry, file, line; or source, 0
  for (size_t k = 0; k < all.size(); ++k) {
    if (KindOf(all[k]) == Kind::kOpinion) continue;
    for (const Access& a : all[k].accesses) {
      if (a.site.line == 0) continue;
      auto [it, added] = first.try_emplace({all[k].entry, a.site.file, a.site.line}, k);
      if (!added) sets.Join(it->second, k);
      if (!NamesALine(a.site.source)) continue;
      auto [of_source, new_line] = first.try_emplace({all[k].entry, a.site.source, 0}, k);
      if (!new_line) sets.Join(of_source->second, k);
    }
  }
  std::map<size_t, Cause> by_set;
  for (size_t k = 0; k < all.size(); ++k) {
    auto [it, added] = by_set.try_emplace(sets.Of(k), Cause{k, {}});
    if (!added && Before(all, k, it->second.root)) it->second.root = k;
  }
  for (size_t k = 0; k < all.size(); ++k)
    if (Cause& c = by_set.at(sets.Of(k)); c.root != k) c.consequences.push_back(k);
  std::vector<Cause> causes;
  for (auto& [set, cause] : by_set) causes.push_back(std::move(cause));
  std::sort(causes.begin(), causes.end(),
            [&](const Cause& a, const Cause& b) { return Before(all, a.root, b.root); });
  // What is left at the end, and a stop, follow from an order that was wrong before.
  if (causes.empty() || KindOf(all[causes[0].root]) != Kind::kEdge ||
      all[causes[0].root].severity != Severity::kError)
    return causes;
  for (size_t k = causes.size(); k-- > 1;) {
    const Kind kind = KindOf(all[causes[k].root]);
    if (kind == Kind::kEdge || kind == Kind::kOpinion) continue;
    if (all[causes[k].root].entry != all[causes[0].root].entry) continue;
    auto& to = causes[0].consequences;
    to.push_back(causes[k].root);
    to.insert(to.end(), causes[k].consequences.begin(), causes[k].consequences.end());
    causes.erase(causes.begin() + static_cast<ptrdiff_t>(k));
  }
  std::sort(causes[0].consequences.begin(), causes[0].consequences.end());
  return causes;
}

std::string OneLine(const Finding& f) {
  const RuleDef& def = Def(f.rule);
  std::string place;
  if (!f.accesses.empty() && f.accesses[0].site.line != 0) {
    const Site& s = f.accesses[0].site;
    place = s.source.empty() ? fmt::format("{}:{}", s.file, s.line) : s.source;
    if (!s.text.empty()) place += fmt::format(" `{}`", s.text);
  }
  return fmt::format("{}[{}] {}{}: {}", SeverityName(f.severity), def.id, def.title,
                     place.empty() ? "" : " at " + place, f.message);
}

namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// "A2 at 14 lines, M6 at 2"
std::string Counts(const std::vector<Finding>& all, const std::vector<size_t>& of) {
  std::map<std::string, size_t> by_rule;
  for (size_t k : of) ++by_rule[Def(all[k].rule).id];
  std::string s;
  for (const auto& [rule, n] : by_rule)
    s += fmt::format("{}{} × {}", s.empty() ? "" : ", ", n, rule);
  return s;
}

// The finding, with its least important lines left out: notes in the middle.
std::string AtMost(const Finding& f, size_t lines) {
  std::vector<std::string> text = Lines(ToText(f));
  if (text.size() <= lines) return ToText(f);
  const size_t gone = text.size() - lines + 1;
  auto last_note = std::find_if(text.rbegin(), text.rend(), [](const std::string& line) {
                     return line.substr(0, 7) == "  note:";
                   }).base();
  const auto notes = std::count_if(text.begin(), last_note, [](const std::string& line) {
    return line.substr(0, 7) == "  note:";
  });
  const auto cut = std::min<ptrdiff_t>(static_cast<ptrdiff_t>(gone), notes);
  text.erase(last_note - cut, last_note);
  text.insert(last_note - cut, fmt::format("  note: {} more notes, `--all` shows them", cut));
  return fmt::format("{}\n", fmt::join(text, "\n"));
}

}  // namespace

std::string Summarise(const std::vector<Finding>& all, bool everything) {
  if (everything) return ToText(all);
  const std::vector<Cause> causes = FindCauses(all);
  std::string s;
  for (size_t k = 0; k < causes.size(); ++k) {
    const Cause& c = causes[k];
    const std::string follows =
        c.consequences.empty() ? ""
                               : fmt::format("follows from it: {}", Counts(all, c.consequences));
    if (k == 0) {
      s += AtMost(all[c.root], kFirstLines - 2);
      if (!follows.empty()) s += fmt::format("  {} (`--all` shows everything)\n", follows);
      continue;
    }
    if (k > kOtherCauses) {
      s += fmt::format("  … and {} more, `--all` shows them\n", causes.size() - k);
      break;
    }
    s += OneLine(all[c.root]) + (follows.empty() ? "" : "; " + follows) + "\n";
  }
  return s;
}

}  // namespace tilec::runtime::judge
