// Runs IR text in the interpreter: what the tests of whole kernels share.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/interpret.h"
#include "tests/unit/ir/test_util.h"

namespace tilec::ir {

struct Ran {
  bool ok = false;
  InterpretInputs inputs;
  InterpretReport report;
  DiagSink diags;
  const TensorValue& operator[](const std::string& name) { return inputs.tensors[name]; }
  const Diagnostic& first() const { return diags.all().at(0); }
};

inline Ran Execute(const std::string& text, std::map<std::string, TensorValue> tensors,
                   std::map<std::string, double> scalars = {}, Bindings dims = {},
                   int threads = 0) {
  Ran run;
  run.inputs = {std::move(tensors), std::move(scalars), std::move(dims)};
  InterpretOptions options;
  options.threads = threads;
  options.max_trips = 1000;
  const Function fn = Parsed(text);
  Result<InterpretReport> report = Interpret(fn, run.inputs, options, run.diags);
  run.ok = report.ok();
  if (report.ok()) run.report = *report;
  EXPECT_EQ(run.ok, !run.diags.has_errors());
  return run;
}

inline TensorValue Counting(DType d, std::vector<int64_t> dims) {
  TensorValue t = TensorValue::Zeros(d, std::move(dims));
  for (size_t i = 0; i < t.v.size(); ++i) t.v[i] = static_cast<double>(i);
  return t;
}

}  // namespace tilec::ir
