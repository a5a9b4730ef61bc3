// Helpers of the IR's tests: text in, function out, diagnostics as text.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "ir/function.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/diag.h"

namespace tilec::ir {

inline std::string Messages(const DiagSink& diags) { return RenderAll(diags, SourceMap()); }

inline std::string FirstCode(const DiagSink& diags) {
  return diags.all().empty() ? "" : diags.all()[0].def->code;
}

// Parses and verifies; the test fails with the diagnostics otherwise.
inline Function Parsed(std::string_view text, bool verify = true) {
  DiagSink diags;
  Result<Function> fn = ParseFunction(text, diags);
  if (!fn.ok()) {
    ADD_FAILURE() << Messages(diags) << "\n" << text;
    return Function();
  }
  if (verify && !Verify(*fn, diags).ok()) ADD_FAILURE() << Messages(diags) << "\n" << text;
  return std::move(*fn);
}

}  // namespace tilec::ir
