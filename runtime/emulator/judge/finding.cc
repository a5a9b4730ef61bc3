// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/finding.h"

#include "runtime/emulator/judge/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tilec::runtime::judge {
namespace {

using Json = nlohmann::ordered_json;

constexpr RuleDef kRules[] = {
#define RULE(id, severity, title, condition, source) \
  {#id, Severity::severity, title, condition, source},
#include "runtime/emulator/judge/checks.def"
#undef RULE
};

std::string Place(const Site& s) {
  if (s.line == 0) return s.source;
  std::string place = fmt::format("{}:{}", s.file, s.line);
  return s.source.empty() ? place : fmt::format("{} ({})", s.source, place);
}

Json AsJson(const Finding& f) {
  Json accesses = Json::array();
  for (const Access& a : f.accesses)
    accesses.push_back({{"who", a.who},
                        {"what", a.what},
                        {"memory", a.memory},
                        {"role", a.role},
                        {"object", a.object},
                        {"turn", a.turn},
                        {"file", a.site.file},
                        {"line", a.site.line},
                        {"instruction", a.site.text},
                        {"source", a.site.source}});
  return {{"check", Def(f.rule).id},
          {"severity", SeverityName(f.severity)},
          {"title", Def(f.rule).title},
          {"entry", f.entry},
          {"message", f.message},
          {"accesses", accesses},
          {"missing", f.missing},
          {"notes", f.notes},
          {"fix", f.fix},
          {"seed", f.seed},
          {"replay", f.replay},
          {"count", f.count}};
}

// Text of programs may hold anything; JSON must be UTF-8.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kPortability: return "portability";
    case Severity::kHint: return "hint";
  }
  return "";
}

const RuleDef& Def(Rule rule) { return kRules[static_cast<size_t>(rule)]; }

std::optional<Rule> RuleFromId(std::string_view id) {
  for (size_t k = 0; k < std::size(kRules); ++k)
    if (id == kRules[k].id) return static_cast<Rule>(k);
  return std::nullopt;
}

const std::vector<Rule>& AllRules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules;
    for (size_t k = 0; k < std::size(kRules); ++k) rules.push_back(static_cast<Rule>(k));
    return rules;
  }();
  return all;
}

void Report::SetReplay(std::string replay) {
  std::lock_guard lock(mutex_);
  replay_ = std::move(replay);
}

void Report::Add(Finding finding) {
  std::lock_guard lock(mutex_);
  std::string key = fmt::format("{}|{}", static_cast<int>(finding.rule), finding.entry);
  for (const Access& a : finding.accesses)
    key += fmt::format("|{}|{}|{}", a.site.file, a.site.line, a.site.text);
  if (finding.accesses.empty()) key += "|" + finding.message;
  auto [it, added] = index_.emplace(std::move(key), findings_.size());
  if (!added) {
    findings_[it->second].count += finding.count;
    return;
  }
  if (finding.replay.empty()) finding.replay = replay_;
  if (trace_ != nullptr && finding.at == 0) finding.at = trace_->next();
  findings_.push_back(std::move(finding));
}

std::vector<Finding> Report::findings() const {
  std::lock_guard lock(mutex_);
  return findings_;
}

size_t Report::Count(Severity severity) const {
  std::lock_guard lock(mutex_);
  size_t n = 0;
  for (const Finding& f : findings_) n += f.severity == severity;
  return n;
}

bool Report::Has(Rule rule) const {
  std::lock_guard lock(mutex_);
  for (const Finding& f : findings_)
    if (f.rule == rule) return true;
  return false;
}

void Report::Clear() {
  std::lock_guard lock(mutex_);
  findings_.clear();
  index_.clear();
}

std::string ToText(const Finding& f) {
  const RuleDef& def = Def(f.rule);
  // A fault's own message may begin with the check's title.
  std::string_view message = f.message;
  const std::string title = std::string(def.title) + ": ";
  if (message.substr(0, title.size()) == title) message.remove_prefix(title.size());
  std::string s =
      fmt::format("{}[{}] {}: {}\n", SeverityName(f.severity), def.id, def.title, message);
  for (size_t k = 0; k < f.accesses.size(); ++k) {
    const Access& a = f.accesses[k];
    s += fmt::format("  {}: `{}` at {}\n", k == 0 ? "here" : "and", a.site.text, Place(a.site));
    std::string line = a.who;
    if (!a.what.empty()) line += (line.empty() ? "" : " ") + a.what;
    if (!a.memory.empty()) line += (line.empty() ? "" : " ") + a.memory;
    if (!a.object.empty()) line += fmt::format(" ({})", a.object);
    if (a.turn > 0) line += fmt::format(", turn {}", a.turn);
    if (!line.empty()) s += "        " + line + "\n";
  }
  if (!f.missing.empty()) s += "  missing: " + f.missing + "\n";
  for (const std::string& note : f.notes) s += "  note: " + note + "\n";
  if (!f.fix.empty()) s += "  help: " + f.fix + "\n";
  s += fmt::format("  entry `{}`, seed {}{}\n", f.entry, f.seed,
                   f.count > 1 ? fmt::format(", seen {} times", f.count) : "");
  if (!f.replay.empty()) s += "  replay: " + f.replay + "\n";
  return s;
}

std::string ToText(const std::vector<Finding>& findings) {
  std::string s;
  for (const Finding& f : findings) s += ToText(f);
  return s;
}

std::string ToJson(const Finding& finding) { return Dump(AsJson(finding), -1); }

std::string ToJson(const std::vector<Finding>& findings) {
  Json all = Json::array();
  for (const Finding& f : findings) all.push_back(AsJson(f));
  return Dump(all, 2) + "\n";
}

}  // namespace tilec::runtime::judge
