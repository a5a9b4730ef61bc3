// tilec opt: passes on IR text, for tests, bug reports and the curious.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/pass.h"
#include "ir/text.h"
#include "support/file.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

void PrintPass(const ir::PassInfo& p) { fmt::print("{:20}  {}\n", p.name, p.summary); }

Result<std::string> Opt(Session& session) {
  const Options& o = session.options();
  DiagSink& diags = session.diags();
  if (o.file.empty())
    return diags.Report(kUsage, Span{}, "`tilec opt` needs a file of IR text, or --list")
        .Place("command line");
  std::vector<ir::PassStep> steps;
  for (const std::string& name : o.passes) {
    TRY(const ir::PassStep step, api::FindStep(name, diags));
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
    for (const ir::PassInfo& p : ir::AllPasses()) PrintPass(p);
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
