// One op on values that a test writes down, and what comes out with its bound.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/interpret.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

constexpr double kInf = INFINITY;
inline const double kNan = std::nan("");

inline TensorValue Make(DType d, std::vector<int64_t> dims, std::vector<double> v) {
  TensorValue t = TensorValue::Zeros(d, std::move(dims));
  if (t.wide())
    for (size_t i = 0; i < v.size(); ++i) t.words[i] = static_cast<int64_t>(v[i]);
  else
    t.v = std::move(v);
  return t;
}

// Elements as doubles whatever the type.
inline std::vector<double> Values(const TensorValue& t) {
  if (!t.wide()) return t.v;
  return {t.words.begin(), t.words.end()};
}

// Runs one op over whole 1-D tensors A, B, C of n elements into R.
struct OpRun {
  DType in = DType::kF32;
  DType out = DType::kF32;
  std::string op;  // "add %a, %b"
};
inline TensorValue RunOp(const OpRun& run, std::vector<std::vector<double>> operands) {
  const auto n = static_cast<int64_t>(operands[0].size());
  std::string text = "func @f tile {\n";
  const char* names = "ABC";
  for (size_t i = 0; i < operands.size(); ++i)
    text += fmt::format(
        "  param tensor %{}: tensor<{}, 1> in [{}] align=1 stride_align=1 contiguous=1\n", names[i],
        Spelling(run.in), n);
  text += fmt::format(
      "  param tensor %R: tensor<{}, 1> out [{}] align=1 stride_align=1 contiguous=1\n  body {{\n",
      Spelling(run.out), n);
  text += fmt::format(
      "    %z = constant {{value = 0}} : i64\n    %n = constant {{value = {}}} : i64\n", n);
  for (size_t i = 0; i < operands.size(); ++i)
    text += fmt::format("    %{0} = load %{1}, %z {{modes = \"r\", sizes = [{2}]}} : {3}[{2}]\n",
                        static_cast<char>('a' + i), names[i], n, Spelling(run.in));
  text += fmt::format("    %r = {} : {}[{}]\n", run.op, Spelling(run.out), n);
  text += fmt::format("    store %R, %r, %z, %n {{modes = \"r\", sizes = [{}]}}\n  }}\n}}\n", n);
  const Function fn = Parsed(text);
  InterpretInputs inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.tensors[std::string(1, names[i])] = Make(run.in, {n}, std::move(operands[i]));
  DiagSink diags;
  Result<InterpretReport> report = Interpret(fn, inputs, {}, diags);
  EXPECT_TRUE(report.ok()) << Messages(diags) << text;
  return inputs.tensors["R"];
}

inline void ExpectSame(const std::vector<double>& got, const std::vector<double>& want,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << what << " at " << i << ": " << got[i];
    else
      EXPECT_EQ(got[i], want[i]) << what << " at " << i;
  }
}

}  // namespace tilec::ir
