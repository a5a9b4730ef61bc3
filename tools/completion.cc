// Completion scripts, from the same words that the parser of the command line has.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tools/commands.h"

namespace tilec::tools {

namespace {

std::string Names(const std::vector<CommandWords>& commands) {
  std::string out;
  for (const CommandWords& c : commands) out += (out.empty() ? "" : " ") + c.name;
  return out;
}

std::string Bash(const std::vector<CommandWords>& commands) {
  std::string out =
      "# tilec completion for bash: source <(tilec completion bash)\n"
      "_tilec() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} words=\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n" +
      fmt::format("    words='{} --help --version'\n", Names(commands)) +
      "  else\n    case ${COMP_WORDS[1]} in\n";
  for (const CommandWords& c : commands)
    out += fmt::format("      {}) words='{}' ;;\n", c.name, fmt::join(c.options, " "));
  out +=
      "    esac\n  fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  case $current in -*) ;; *) COMPREPLY+=($(compgen -f -- \"$current\")) ;; esac\n"
      "}\n"
      "complete -o filenames -F _tilec tilec\n";
  return out;
}

std::string Zsh(const std::vector<CommandWords>& commands) {
  std::string out =
      "#compdef tilec\n# tilec completion for zsh: put it into a folder of $fpath as _tilec\n"
      "local -a commands\ncommands=(\n";
  for (const CommandWords& c : commands) out += fmt::format("  '{}:{}'\n", c.name, c.summary);
  out +=
      ")\nif (( CURRENT == 2 )); then\n  _describe command commands\n  return\nfi\n"
      "case $words[2] in\n";
  for (const CommandWords& c : commands)
    out += fmt::format("  {}) compadd -- {} ;;\n", c.name, fmt::join(c.options, " "));
  out += "esac\n_files\n";
  return out;
}

std::string Fish(const std::vector<CommandWords>& commands) {
  std::string out = "# tilec completion for fish: tilec completion fish | source\n";
  for (const CommandWords& c : commands) {
    out += fmt::format("complete -c tilec -n __fish_use_subcommand {}-a {} -d '{}'\n",
                       c.takes_files ? "" : "-f ", c.name, c.summary);
    for (const std::string& o : c.options)
      if (o.substr(0, 2) == "--")
        out += fmt::format("complete -c tilec -n '__fish_seen_subcommand_from {}' -l {}\n", c.name,
                           o.substr(2));
  }
  return out;
}

}  // namespace

std::string CompletionScript(const std::string& shell, const std::vector<CommandWords>& commands) {
  if (shell == "bash") return Bash(commands);
  if (shell == "zsh") return Zsh(commands);
  if (shell == "fish") return Fish(commands);
  return "";
}

}  // namespace tilec::tools
