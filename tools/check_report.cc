// What `tilec check` says at the end: the verdict, what was found and what could be cheaper, as
// text and as JSON.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/kernel_check.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/emulator/judge/cause.h"
#include "runtime/emulator/judge/trace.h"
#include "shim/settings.h"
#include "support/file.h"
#include "tools/check_page.h"
#include "tools/diagnostics.h"
#include "tools/runner.h"
#include "tools/subject.h"
#include "tools/suppressions.h"

namespace tilec::tools {

// The execution that showed the first finding once more, written down.
Result<> KernelCheck::WritePage() {
  if (findings_.empty()) {
    page_ = fmt::format("no finding, so nothing was written to {}", o_.html);
    return Done();
  }
  const judge::Finding& root = findings_[judge::FindCauses(findings_)[0].root];
  const auto seen = first_seen_.find(Key(root));
  runtime::EmulatorOptions options = Options(seen == first_seen_.end() ? usual_ : seen->second);
  options.report = std::make_shared<judge::Report>();
  const auto trace = std::make_shared<judge::Trace>();
  options.report->SetTrace(trace);
  Rerun(options);
  const judge::Finding* found = &root;
  const std::vector<judge::Finding> again = options.report->findings();
  for (size_t k = again.size(); k-- > 0;)
    if (Key(again[k]) == Key(root)) found = &again[k];
  CheckPageWords words;
  words.subject = subject_->name();
  words.command = root.replay;
  words.source = [](const std::string& file, int line) { return LineOf(file, line); };
  std::string why;
  if (!WriteOutput(o_.html, CheckPage(*found, *trace, words), &why))
    return session_.diags().Report(kFileUnwritable, Span{}, o_.html, why).Place("command line");
  page_ = fmt::format("how the first finding came about: {}", o_.html);
  return Done();
}

std::string KernelCheck::LineOf(const std::string& file, int line) {
  std::string text, why;
  if (line <= 0 || !ReadFile(file, &text, &why)) return "";
  size_t at = 0;
  while (--line > 0 && at < text.size()) {
    const size_t end = text.find('\n', at);
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return text.substr(at, text.find('\n', at) - at);
}

size_t KernelCheck::Count(judge::Severity severity) const {
  return static_cast<size_t>(
      std::count_if(findings_.begin(), findings_.end(),
                    [&](const judge::Finding& f) { return f.severity == severity; }));
}

void KernelCheck::PrintText(bool good) const {
  if (!words_.empty()) fmt::print("\"{}\" {} ", words_, fmt::join(given_, " "));
  fmt::print("{}: {} execution{}", subject_->name(), plans_, plans_ == 1 ? "" : "s");
  if (!single_) fmt::print(" (all policies, {} seeds)", o_.seeds);
  fmt::print(", {} warp instructions\n", instructions_);
  fmt::print("{}", judge::Summarise(o_.lint ? Judgements() : findings_, o_.all_findings));
  if (o_.lint) PrintCosts();
  for (const auto& [name, t] : worst_) fmt::print("  {}: {}\n", name, DescribeCheck(t));
  for (const std::string& what : test_says_) fmt::print("  without the judge: {}\n", what);
  std::map<std::string, int> seen;
  for (const Wrong& w : wrong_) ++seen[w.what];
  for (const auto& [plan, what] : wrong_) {
    const int n = std::exchange(seen[what], 0);
    if (n == 0) continue;
    fmt::print("  with {}{}: {}\n", plan.Words(), n > 1 ? fmt::format(" and {} more", n - 1) : "",
               what);
  }
  if (!shortened_.empty()) fmt::print("  {}\n", shortened_);
  if (!page_.empty()) fmt::print("  {}\n", page_);
  if (suppressed_ > 0) fmt::print("  {} suppressed by {}\n", suppressed_, o_.suppress);
  if (!o_.tests)
    for (const Suppression& row : suppressions_)
      if (row.matched == 0)
        fmt::print("  {}:{}: the suppression matches nothing\n", o_.suppress, row.line);
  const size_t errors = Count(judge::Severity::kError);
  const size_t portability = Count(judge::Severity::kPortability);
  const size_t hints = Count(judge::Severity::kHint);
  if (errors + portability + hints > 0)
    fmt::print("  {} errors, {} of portability, {} hints\n", errors, portability, hints);
  if (good)
    fmt::print("OK: no violation in these executions{}\n", Agreement());
  else
    fmt::print("WRONG: {}\n", errors > 0 ? "the checks found errors"
                              : wrong_.empty() && test_says_.empty()
                                  ? "not portable"
                                  : "outputs are not what they must be");
}

bool KernelCheck::IsCost(const judge::Finding& f) {
  return f.rule == judge::Rule::kB1 || f.rule == judge::Rule::kB2 || f.rule == judge::Rule::kB3 ||
         f.rule == judge::Rule::kB4;
}

std::vector<judge::Finding> KernelCheck::Judgements() const {
  std::vector<judge::Finding> rest;
  std::copy_if(findings_.begin(), findings_.end(), std::back_inserter(rest),
               [](const judge::Finding& f) { return !IsCost(f); });
  return rest;
}

// What could be cheaper, in two lines each.
void KernelCheck::PrintCosts() const {
  size_t n = 0;
  for (const judge::Finding& f : findings_) {
    if (!IsCost(f)) continue;
    const judge::Site& s = f.accesses[0].site;
    if (n++ == 0) fmt::print("  what could be cheaper, in the first execution:\n");
    fmt::print("  {} {}{}:{} `{}`: {}\n     {}\n", judge::Def(f.rule).id,
               s.source.empty() ? "" : s.source + ", ", s.file, s.line, s.text, f.message, f.fix);
  }
  if (n == 0) fmt::print("  nothing that could be cheaper was seen\n");
}

// "; agrees with the interpreter; 64 elements decided, 0 undecided".
std::string KernelCheck::Agreement() const {
  if (subject_->reference().empty()) return "";
  Decided decided;
  for (const auto& [name, t] : worst_)
    decided.Add(t.result.checked, t.result.sampled, t.result.undecided);
  return fmt::format("; {} {}; {}",
                     decided.enough ? "agrees with" : "too little can be compared with",
                     subject_->reference(), decided.Text());
}

void KernelCheck::PrintJson(bool good) const {
  Json outputs = Json::array(), different = Json::array();
  for (const auto& [name, t] : worst_)
    outputs.push_back({{"name", name},
                       {"checked", t.result.checked},
                       {"sampled", t.result.sampled},
                       {"undecided", t.result.undecided},
                       {"failed", t.result.failed},
                       {"max_error", t.result.max_error},
                       {"of_bound", t.result.max_ratio}});
  for (const std::string& what : test_says_)
    different.push_back({{"execution", "without the judge"}, {"what", what}});
  for (const auto& [plan, what] : wrong_)
    different.push_back({{"execution", plan.Words()}, {"what", what}});
  Json all = {{"subject", subject_->name()},
              {"verdict", good ? "ok" : "wrong"},
              {"executions", plans_},
              {"stopped", faulted_},
              {"warp_instructions", instructions_},
              {"reference", subject_->reference()},
              {"outputs", outputs},
              {"wrong", different},
              {"suppressed", suppressed_},
              {"causes", Causes()},
              {"findings", Json::parse(judge::ToJson(findings_))}};
  fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
}

// Indices into the findings: each cause with what follows from it.
Json KernelCheck::Causes() const {
  Json causes = Json::array();
  for (const judge::Cause& c : judge::FindCauses(findings_))
    causes.push_back({{"finding", c.root}, {"consequences", c.consequences}});
  return causes;
}

}  // namespace tilec::tools
