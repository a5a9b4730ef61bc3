// A timeline that was measured (`tilec run --timeline=FILE`), to be laid over the predicted one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::explain {

struct MeasuredSpan {
  int role = 0;
  std::string what;    // "wait", "product", "copy", "compute", "store"
  std::string source;  // "gemm.tile:17"; may be empty
  bool in_loop = false;
  int64_t occurrence = 0;      // of its place in the program: the iteration, in a loop
  int64_t begin = 0, end = 0;  // cycles
};

struct Measured {
  std::string kernel, device;
  std::vector<std::string> roles;
  std::vector<MeasuredSpan> spans;
};

// `path` is for messages.
Result<Measured> ParseMeasured(std::string_view text, const std::string& path, DiagSink& diags);

}  // namespace tilec::explain
