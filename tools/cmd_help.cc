// tilec help CODE: the long explanation of a diagnostic, from the tables of all folders.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cstring>

#include "api/diagnostics.h"
#include "backend/diagnostics.h"
#include "compile/diagnostics.h"
#include "explain/diagnostics.h"
#include "frontend/diagnostics.h"
#include "ir/diagnostics.h"
#include "ir/lower/diagnostics.h"
#include "ir/plan_laws.h"
#include "ir/warp_check/diagnostics.h"
#include "language/diagnostics.h"
#include "runtime/diagnostics.h"
#include "runtime/emulator/diagnostics.h"
#include "runtime/emulator/judge/finding.h"
#include "sass/diagnostics.h"
#include "scheduler/diagnostics.h"
#include "support/nearest.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

// Text in lines of at most 80 columns.
std::string Wrapped(const std::string& text) {
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > 80) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out + line + "\n";
}

const char* Word(Severity s) {
  switch (s) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
  }
  return "error";
}

}  // namespace

std::vector<const DiagDef*> AllDiagnostics() {
  std::vector<const DiagDef*> all;
  const auto add = [&](const auto& table) {
    for (const DiagDef* d : table) all.push_back(d);
  };
  add(language::kDiags);
  add(frontend::kDiags);
  add(ir::kDiags);
  add(ir::lower_diag::kDiags);
  add(ir::law::kDiags);
  add(ir::warp_check::kDiags);
  add(scheduler::kDiags);
  add(compile::kDiags);
  add(explain::kDiags);
  add(backend::kDiags);
  add(sass::kDiags);
  add(runtime::kDiags);
  add(runtime::emulator::kDiags);
  add(api::kDiags);
  add(kDiags);
  std::sort(all.begin(), all.end(),
            [](const DiagDef* a, const DiagDef* b) { return std::strcmp(a->code, b->code) < 0; });
  return all;
}

int CmdHelp(const Options& options) {
  Session session(options);
  std::string code = options.word;
  for (char& c : code) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::vector<const DiagDef*> all = AllDiagnostics();
  if (code.empty()) {
    for (const DiagDef* d : all) fmt::print("{}  {}\n", d->code, d->name);
    return kOk;
  }
  std::vector<std::string> codes;
  for (const DiagDef* d : all) {
    if (code == d->code) {
      fmt::print("{}[{}] {}\n\n  {}\n\n{}", Word(d->severity), d->code, d->name, d->format,
                 Wrapped(d->explain));
      return kOk;
    }
    codes.push_back(d->code);
  }
  namespace judge = runtime::judge;
  if (const auto rule = judge::RuleFromId(code)) {  // what `tilec check` finds
    const judge::RuleDef& def = judge::Def(*rule);
    fmt::print("{}[{}] {}\n\n{}{}", judge::SeverityName(def.severity), def.id, def.title,
               Wrapped(def.condition), Wrapped(std::string("see ") + def.source));
    return kOk;
  }
  DiagBuilder d = session.diags().Report(kUnknownCode, Span{}, options.word).Place("command line");
  const std::string near = NearestName(code, codes);
  d.Help(near.empty() ? "`tilec help` lists all codes" : fmt::format("did you mean `{}`?", near));
  return session.Finish();
}

}  // namespace tilec::tools
