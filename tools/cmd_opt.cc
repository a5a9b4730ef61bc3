// tilec opt: passes on IR text, for tests, bug reports and the curious.
//
// SPDX-License-Identifier: Apache-2.0
#include "compile/passes.h"
#include "ir/pass.h"
#include "ir/target.h"
#include "ir/text.h"
#include "support/file.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

void PrintPass(const char* name, const char* summary, const std::string& parameters) {
  fmt::print("{:20}  {}{}\n", name, summary,
             parameters.empty() ? "" : fmt::format(" {{{}}}", parameters));
}

// The command line is cut at commas; those between braces belong to one pass.
std::vector<std::string> Joined(const std::vector<std::string>& words) {
  std::vector<std::string> passes;
  bool open = false;
  for (const std::string& word : words) {
    if (open)
      passes.back() += "," + word;
    else
      passes.push_back(word);
    const std::string& last = passes.back();
    open = last.find('{') != std::string::npos && last.find('}') == std::string::npos;
  }
  return passes;
}

Result<std::string> Opt(Session& session) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  if (o.file.empty())
    return diags.Report(kUsage, Span{}, "`tilec opt` needs a file of IR text, or --list")
        .Place("command line");
  std::vector<ir::PassStep> steps;
  TRY(const api::Machine machine, session.Machine());
  for (const std::string& text : Joined(o.passes)) {
    TRY(const ir::PassStep step,
        compile::ParsePass(text, *machine, session.pipeline().solutions, diags));
    steps.push_back(step);
  }
  std::string text, why;
  constexpr uint64_t kMaxBytes = 64 << 20;
  if (!ReadFile(o.file, &text, &why, kMaxBytes))
    return diags.Report(kFileUnreadable, Span{}, o.file, why).Place("command line");
  const int32_t id = session.loaded().sources.Add(o.file, text);
  TRY(ir::Module module, ir::ParseModule(session.loaded().sources.text(id), diags, id));
  for (ir::Function& fn : module.functions) {
    TRY(fn, api::RunSteps(session.loaded(), std::move(fn), steps, session.pipeline(),
                          &session.look(), diags));
  }
  return ir::Print(module);
}

}  // namespace

int CmdOpt(const Options& options) {
  if (options.list) {
    for (const ir::PassInfo& p : ir::AllPasses()) PrintPass(p.name, p.summary, "");
    for (const compile::ParameterPass& p : compile::ParameterPasses())
      PrintPass(p.name, p.summary, p.parameters);
    return kOk;
  }
  Session session(options);
  const auto text = Opt(session);
  std::string why;
  fmt::print(stderr, "{}", session.look().printed);
  if (text.ok() && !WriteOutput(options.output, *text, &why))
    session.diags().Report(kFileUnwritable, Span{}, options.output, why).Place("command line");
  return session.Finish();
}

}  // namespace tilec::tools
