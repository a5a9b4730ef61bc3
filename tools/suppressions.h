// Findings that somebody looked at and lives with, as a file: `tilec check --suppress=FILE`.
//
//   # why each of them is harmless stands behind it
//   P2                      # a whole check
//   S4 k.ptx:120            # at a line of the PTX, or of its source ("gemm.cu:33")
//   M1 k.ptx:12 reduce      # of one entry
//
// A row that matched nothing is told: what it was about is mended, or has moved.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/emulator/judge/finding.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::tools {

struct Suppression {
  runtime::judge::Rule rule = runtime::judge::Rule::kX1;
  std::string place, entry;  // empty: any
  int line = 0;              // of the file
  size_t matched = 0;
};

Result<std::vector<Suppression>> ParseSuppressions(const std::string& path, const std::string& text,
                                                   DiagSink& diags);
// Takes out what is suppressed; how many different findings that were.
size_t Suppress(std::vector<Suppression>& rows, std::vector<runtime::judge::Finding>* findings);

}  // namespace tilec::tools
