// One finding of the judge as a page: the stretch of the execution in which two accesses came to be
// unordered, a row for each warp, and the edge between them that is missing. The page needs nothing
// but itself: no script from elsewhere, no request.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "runtime/emulator/judge/trace.h"

namespace tilec::tools {

struct CheckPageWords {
  std::string subject;  // the kernel
  std::string command;  // that shows the same again
  // A line of a source file; empty where it cannot be read.
  std::function<std::string(const std::string& file, int line)> source;
};

std::string CheckPage(const runtime::judge::Finding& finding, const runtime::judge::Trace& trace,
                      const CheckPageWords& words);

}  // namespace tilec::tools
