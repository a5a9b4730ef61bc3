// The command line: every command with its options, filled into Options. main.cc parses and calls;
// command_options.cc says what there is to say. These two alone see CLI11.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/commands.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
  bool takes_files = false;
};

class CommandLine {
 public:
  CommandLine();
  int Run(int argc, char** argv);

 private:
  CLI::App* Add(const char* name, const char* summary, int (*run)(const Options&),
                bool takes_files);
  void AddRunAndBuild();
  void AddCheck();
  void AddBench();
  void AddTestAndFmt();
  void AddTheRest();
  void AddExplain();
  std::vector<std::string> OptionsOf(const CLI::App* app) const;
  std::vector<CommandWords> Words() const;
  int Man(const std::string& only);
  int Complete();
  int UnknownFlag(const std::string& name, const Command& command);
  int UnknownCommand(const std::string& word);
  int Fail(const std::function<void(DiagSink&)>& report);
  static std::string OneLine(std::string text);

  Options o_;
  CLI::App app_;
  std::vector<std::pair<std::string, Command>> commands_;
};

}  // namespace tilec::tools
