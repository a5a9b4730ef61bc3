// tilec fmt: files in the one canonical layout; with --check only said.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "language/format.h"
#include "language/parse.h"
#include "support/file.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

// Whether the file's text differs from its layout; it is rewritten unless only checked.
Result<bool> FormatFile(Session& session, const std::string& path) {
  DiagSink& diags = session.diags();
  std::string text, why;
  constexpr uint64_t kMaxBytes = 16 << 20;
  if (!ReadFile(path, &text, &why, kMaxBytes))
    return diags.Report(kFileUnreadable, Span{}, path, why).Place("command line");
  SourceMap& sources = session.loaded().sources;
  const int32_t id = sources.Add(path, text);
  TRY(const language::Ast ast, language::Parse(sources, id, diags));
  const std::string formatted = language::Format(ast, sources, id);
  const bool differs = formatted != text;
  if (differs && !session.options().fmt_check && !WriteFileAtomically(path, formatted, &why))
    return diags.Report(kFileUnwritable, Span{}, path, why);
  if (differs) fmt::print("{}\n", path);
  return differs;
}

}  // namespace

int CmdFmt(const Options& options) {
  Session session(options);
  size_t differing = 0;
  for (const std::string& path : options.files) {
    const auto differs = FormatFile(session, path);
    if (differs.ok() && *differs) ++differing;
  }
  const int code = session.Finish();
  if (code != kOk) return code;
  if (options.fmt_check && differing > 0) {
    session.diags()
        .Report(kNotFormatted, Span{}, differing, options.files.size())
        .Help("run `tilec fmt` on them");
    session.Finish();
    return kMismatch;
  }
  return kOk;
}

}  // namespace tilec::tools
