// The manual page, from the same words that the parser of the command line has.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/commands.h"

namespace tilec::tools {

namespace {

// Text as roff takes it: no line may begin with its control characters, and `-` is a minus.
std::string Roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

}  // namespace

// `summary` begins with the program's name: "tilec: …".
std::string ManPage(const std::string& version, const std::string& summary,
                    const std::vector<CommandWords>& commands) {
  std::string out = fmt::format(
      ".TH TILEC 1 \"\" \"tilec {}\" \"User Commands\"\n.SH NAME\ntilec \\- {}\n.SH SYNOPSIS\n"
      ".B tilec\n.I COMMAND\n.RI [ WORD \" ...] [\" OPTION \" ...]\"\n.SH COMMANDS\n",
      Roff(version), Roff(summary.substr(summary.find(": ") + 2)));
  for (const CommandWords& c : commands) {
    out += fmt::format(".SS {}\n{}\n", Roff(c.name), Roff(c.summary));
    for (size_t i = 0; i < c.options.size(); ++i)
      out += fmt::format(".TP\n.B {}\n{}\n", Roff(c.options[i]),
                         i < c.texts.size() ? Roff(c.texts[i]) : "");
  }
  return out +
         ".SH EXIT STATUS\n0: done. 1: a check or a test failed. 2: the input or the command line "
         "is "
         "wrong. 3: the device is missing or failed.\n"
         ".SH ENVIRONMENT\n.TP\n.B PTXAS, CUDA_HOME\nwhere ptxas is looked for before PATH\n"
         ".TP\n.B XDG_CACHE_HOME\nholds the cache, in a folder tilec\n"
         ".TP\n.B NO_COLOR\nif it is set and not empty, diagnostics have no colours\n"
         ".SH SEE ALSO\n.B tilec help CODE\nexplains a diagnostic.\n";
}

}  // namespace tilec::tools
