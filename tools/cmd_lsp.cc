// tilec lsp: the language server on standard input and output (editor/server.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>

#include "editor/protocol.h"
#include "editor/server.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

int CmdLsp(const Options& options) {
  Session session(options);
  if (!session.CheckOptions().ok()) return session.Finish();
  editor::Server server({options.target, options.stdlib_dir, TILEC_VERSION});
  editor::FrameReader reader;
  char buffer[1 << 16];
  while (server.exit_code() < 0) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got <= 0) break;  // the client is gone
    reader.Add(std::string_view(buffer, static_cast<size_t>(got)));
    while (const auto message = reader.Next()) {
      for (const std::string& answer : server.Handle(*message)) {
        const std::string frame = editor::Frame(answer);
        std::fwrite(frame.data(), 1, frame.size(), stdout);
      }
      std::fflush(stdout);
      if (server.exit_code() >= 0) break;
    }
    if (!reader.broken().empty()) {
      session.diags()
          .Report(kUsage, Span{}, "standard input is not of a language client: " + reader.broken())
          .Place("standard input")
          .Help("an editor starts `tilec lsp`; docs/editors.md says how");
      return session.Finish();
    }
  }
  return server.exit_code() == 0 ? kOk : kBadInput;
}

}  // namespace tilec::tools
