// tilec: the command line. The only file that sees CLI11; it fills Options and calls a command.
//
// Exit codes: 0 done, 1 a check or test failed, 2 the input or the command line is wrong, 3 the
// device is missing or failed.
//
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include <CLI/CLI.hpp>

#include "api/pipeline.h"
#include "support/heap.h"
#include "support/nearest.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/session.h"

namespace tilec::tools {

namespace {

std::string Text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}
bool Said(const char* name) { return !Text(name).empty(); }

std::string VersionLine() {
  const std::string commit = BuildCommit();
  return fmt::format("tilec {}{}", api::CompilerVersion(),
                     commit.empty() ? "" : fmt::format(", commit {}", commit));
}

}  // namespace

CommandLine::CommandLine() : app_("tilec: a tensor compiler for GPUs", "tilec") {
  app_.set_version_flag("--version", VersionLine());
  app_.footer(
      "Exit codes: 0 done, 1 a check or test failed, 2 wrong input or command line, 3 the device "
      "is missing or failed.\n`tilec COMMAND --help` tells more; `tilec help CODE` explains a "
      "diagnostic.");
  app_.allow_extras();
  AddRunAndBuild();
  AddCheck();
  AddBench();
  AddTestAndFmt();
  AddTheRest();
}

int CommandLine::Run(int argc, char** argv) {
  o_.commit = BuildCommit();
  o_.color = isatty(STDERR_FILENO) != 0 && !Said("NO_COLOR") && Text("TERM") != "dumb";
  for (int i = 1; i < argc; ++i)  // before anything can go wrong
    if (std::strcmp(argv[i], "--diagnostics=json") == 0) o_.diagnostics = "json";
  // What stands behind `--` of a check is another program's.
  if (argc > 1 && std::strcmp(argv[1], "check") == 0) {
    for (int i = 2; i < argc; ++i) {
      if (std::strcmp(argv[i], "--") != 0) continue;
      o_.program_words.assign(argv + i + 1, argv + argc);
      argc = i;
      if (o_.program_words.empty())
        return Fail([&](DiagSink& d) {
          d.Report(kUsage, Span{}, "behind `--` stands a program and its arguments")
              .Help("tilec check -- ./app 12");
        });
    }
  }
  // Its word is the name of a command, which the parser would take for that command.
  if (argc == 3 && std::strcmp(argv[1], "man") == 0 && argv[2][0] != '-') return Man(argv[2]);
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app_.exit(e) == 0 ? kOk : kBadInput;
  } catch (const CLI::ParseError& e) {
    return Fail(
        [&](DiagSink& d) { d.Report(kUsage, Span{}, OneLine(e.what())).Help("`tilec --help`"); });
  }
  for (const auto& [name, command] : commands_) {
    if (!command.app->parsed()) continue;
    if (!command.app->remaining().empty()) return UnknownFlag(name, command);
    return command.run();
  }
  if (!app_.remaining().empty()) return UnknownCommand(app_.remaining().front());
  std::fputs(app_.help().c_str(), stdout);
  return kBadInput;
}

std::vector<std::string> CommandLine::OptionsOf(const CLI::App* app) const {
  std::vector<std::string> out;
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    for (const std::string& name : option->get_snames()) out.push_back("-" + name);
  }
  return out;
}

std::vector<CommandWords> CommandLine::Words() const {
  std::vector<CommandWords> words;
  for (const auto& [name, command] : commands_) {
    words.push_back(
        {name, command.app->get_description(), OptionsOf(command.app), command.takes_files, {}});
    for (const CLI::Option* option : command.app->get_options())
      for (size_t i = option->get_lnames().size() + option->get_snames().size(); i > 0; --i)
        words.back().texts.push_back(option->get_description());
  }
  return words;
}

// `only`: a command; "": all of them.
int CommandLine::Man(const std::string& only) {
  std::vector<CommandWords> words = Words();
  std::erase_if(words, [&](const CommandWords& w) { return !only.empty() && w.name != only; });
  if (words.empty()) return UnknownCommand(only);
  std::fputs(ManPage(api::CompilerVersion(), app_.get_description(), words).c_str(), stdout);
  return kOk;
}

int CommandLine::Complete() {
  const std::vector<CommandWords> words = Words();
  const std::string script = CompletionScript(o_.word, words);
  if (script.empty()) return Fail([&](DiagSink& d) { d.Report(kBadShell, Span{}, o_.word); });
  std::fputs(script.c_str(), stdout);
  return kOk;
}

int CommandLine::UnknownFlag(const std::string& name, const Command& command) {
  const std::string word = command.app->remaining().front();
  const std::string flag = word.substr(0, word.find('='));
  if (flag.empty() || flag[0] != '-')
    return Fail([&](DiagSink& d) {
      d.Report(kUsage, Span{}, fmt::format("`tilec {}` has no use for `{}`", name, word))
          .Help(fmt::format("`tilec {} --help`", name));
    });
  return Fail([&](DiagSink& d) {
    const std::string near = NearestName(flag, OptionsOf(command.app));
    d.Report(kUnknownFlag, Span{}, name, flag)
        .Help(near.empty() ? fmt::format("`tilec {} --help` lists its options", name)
                           : fmt::format("did you mean `{}`?", near));
  });
}

int CommandLine::UnknownCommand(const std::string& word) {
  return Fail([&](DiagSink& d) {
    std::vector<std::string> names;
    for (const auto& [name, command] : commands_) names.push_back(name);
    const std::string near = NearestName(word, names);
    d.Report(kUnknownCommand, Span{}, word)
        .Help(near.empty() ? fmt::format("commands are {}", fmt::join(names, ", "))
                           : fmt::format("did you mean `{}`?", near));
  });
}

int CommandLine::Fail(const std::function<void(DiagSink&)>& report) {
  Session session(o_);
  report(session.diags());
  return session.Finish();
}

std::string CommandLine::OneLine(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace tilec::tools

int main(int argc, char** argv) {
  tilec::KeepFreedMemory();
  return tilec::tools::CommandLine().Run(argc, argv);
}
