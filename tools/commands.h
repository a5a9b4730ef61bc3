// The commands of `tilec`, one file each (cmd_*.cc). Each returns the exit code.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "support/diag.h"
#include "tools/options.h"

namespace tilec::tools {

int CmdRun(const Options& options);
int CmdBench(const Options& options);
int CmdTune(const Options& options);  // and `bench --search`
int CmdCalibrate(const Options& options);
int CmdBundle(const Options& options);
int CmdBuild(const Options& options);
int CmdCheck(const Options& options);
int CmdTest(const Options& options);
int CmdFmt(const Options& options);
int CmdOpt(const Options& options);
int CmdCache(const Options& options);
int CmdSchedule(const Options& options);
int CmdVerify(const Options& options);
int CmdExplain(const Options& options);
int CmdDoctor(const Options& options);
int CmdTargets(const Options& options);
int CmdLsp(const Options& options);
int CmdNew(const Options& options);
int CmdHelp(const Options& options);

// Every diagnostic of every folder, sorted by code.
std::vector<const DiagDef*> AllDiagnostics();

// For `tilec completion` and `tilec man`: commands with their options.
struct CommandWords {
  std::string name;
  std::string summary;
  std::vector<std::string> options;
  bool takes_files = false;
  std::vector<std::string> texts;  // of the options
};
// "" if the shell is none of bash, zsh, fish.
std::string CompletionScript(const std::string& shell, const std::vector<CommandWords>& commands);
// In the language of man(7).
std::string ManPage(const std::string& version, const std::string& summary,
                    const std::vector<CommandWords>& commands);

// The commit that this program was built from, "1da7b61" or "1da7b61-dirty"; "" if it is not known.
const char* BuildCommit();

}  // namespace tilec::tools
