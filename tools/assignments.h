// NAME=VALUE words of the command line.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/call.h"
#include "support/diag.h"

namespace tilec::tools {

struct Assignments {
  api::Given values;                         // NAME=512, NAME=0.5, NAME=true
  std::map<std::string, std::string> files;  // NAME=@file.npy
};

Result<Assignments> ParseAssignments(const std::vector<std::string>& words, DiagSink& diags);

// "NAME=PATH" words of --save.
Result<std::map<std::string, std::string>> ParseSaves(const std::vector<std::string>& words,
                                                      DiagSink& diags);

}  // namespace tilec::tools
