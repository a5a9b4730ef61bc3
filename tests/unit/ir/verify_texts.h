// What the tests of the verifier share: programs in text form around the lines that a test is
// about, and what a rejection must say.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ir/verify.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

inline void ExpectRejected(const Function& fn, const std::string& code, const std::string& says,
                           const std::string& what) {
  DiagSink diags;
  EXPECT_FALSE(Verify(fn, diags).ok()) << what;
  ASSERT_TRUE(diags.has_errors()) << what;
  EXPECT_STREQ(diags.all()[0].def->code, code.c_str()) << what << "\n" << Messages(diags);
  EXPECT_NE(diags.all()[0].message.find(says), std::string::npos) << what << "\n"
                                                                  << Messages(diags);
}

inline void ExpectTextRejected(const std::string& text, const std::string& code,
                               const std::string& says) {
  DiagSink diags;
  Result<Function> fn = ParseFunction(text, diags);
  ASSERT_TRUE(fn.ok()) << Messages(diags) << text;
  ExpectRejected(*fn, code, says, text);
}

// Body lines of a tile function with some values at hand.
inline std::string Tile(const std::string& body) {
  return R"(func @f tile {
  param tensor %A: tensor<f32, 2> in [N, 8] align=1 stride_align=1 contiguous=1
  param tensor %O: tensor<f32, 2> out [N, 8] align=1 stride_align=1 contiguous=1
  param dim %N: i64
  param scalar %s: f32
  body {
    %z = constant {value = 0} : i64
    %i = constant {value = 1} : i32
    %t = constant {value = 0.0} : f32[4, 8]
    %h = constant {value = 0.0} : f16[4, 8]
    %n = constant {value = 0} : i32[4, 8]
    %b = constant {value = 0} : bool[4, 8]
    %p = constant {value = 0} : bool
    %g = constant {value = 0} : i32[4]
)" + body +
         "  }\n}\n";
}

}  // namespace tilec::ir
