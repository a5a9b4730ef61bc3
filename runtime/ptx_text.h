// Facts read off PTX text without understanding it: entries, version, target; and assembler logs
// whose line numbers are translated to .tile places.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace tilec::runtime {

std::vector<std::string> PtxEntries(std::string_view ptx);  // in order of the text
std::string PtxVersion(std::string_view ptx);               // "8.0"; "" if there is none
std::string PtxTarget(std::string_view ptx);                // "sm_90a"
// The log's lines, at most 20; "line 12" gets the .tile place it came from.
std::vector<std::string> NotedLogLines(const std::string& log, const LoadOptions& options);

}  // namespace tilec::runtime
