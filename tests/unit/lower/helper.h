// What the tests of passes and lowerings share: programs from text, and what is in them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/function.h"
#include "ir/interpret.h"
#include "ir/lower/sequential.h"
#include "ir/pass.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/warp_check/check.h"
#include "tests/unit/h200.h"

namespace tilec::ir {

inline Function Parsed(std::string_view text) {
  DiagSink diags;
  SourceMap sources;
  const int32_t file = sources.Add("test.ir", std::string(text));
  Result<Function> fn = ParseFunction(sources.text(file), diags, file);
  EXPECT_TRUE(fn.ok()) << RenderAll(diags, sources);
  if (!fn.ok()) return {};
  EXPECT_TRUE(Verify(*fn, diags).ok()) << RenderAll(diags, sources);
  return std::move(*fn);
}

inline void ExpectVerified(const Function& fn) {
  DiagSink diags;
  SourceMap sources;
  EXPECT_TRUE(Verify(fn, diags).ok()) << RenderAll(diags, sources) << Print(fn);
}

// The program behind a pass that finds so much to change.
inline Function Changed(const PassFunction& pass, const Function& before, int changes) {
  Function after = before;
  DiagSink diags;
  SourceMap sources;
  PassContext cx{diags, H200(), 0};
  EXPECT_TRUE(pass(after, cx).ok()) << RenderAll(diags, sources);
  EXPECT_EQ(cx.changes, changes);
  ExpectVerified(after);
  return after;
}

// Small integers: every order of a sum gives the same.
inline TensorValue Numbers(DType dtype, std::vector<int64_t> dims, int64_t seed) {
  TensorValue t = TensorValue::Zeros(dtype, std::move(dims));
  for (size_t i = 0; i < t.v.size(); ++i)
    t.v[i] = static_cast<double>((static_cast<int64_t>(i) * 7 + seed) % 11 - 5);
  return t;
}

// The program of warps, with a load role.
inline Function InRoles(const Function& tile, const SequentialOptions& options = {}) {
  DiagSink diags;
  SourceMap sources;
  bool specialized = false;
  Result<Function> warps = Specialize(tile, H200(), options, &specialized, diags);
  EXPECT_TRUE(warps.ok() && specialized) << RenderAll(diags, sources);
  if (!warps.ok()) return {};
  ExpectVerified(*warps);
  return std::move(*warps);
}

// What the proof has to say against a program of warps; empty: it is proved.
inline std::string Said(const Function& warps) {
  DiagSink diags;
  return CheckWarps(warps, WarpCheckOptions(H200()), diags).ok() ? "" : diags.all()[0].message;
}

// `text` with every `from` replaced; there is at least one.
inline std::string With(std::string text, std::string_view from, std::string_view to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

inline int Count(const Function& fn, OpKind kind) {
  int n = 0;
  for (OpId id : OpsInOrder(fn)) n += fn.ops[id].kind == kind;
  return n;
}

// The first of a kind.
inline OpId Find(const Function& fn, OpKind kind) {
  for (OpId id : OpsInOrder(fn))
    if (fn.ops[id].kind == kind) return id;
  ADD_FAILURE() << Info(kind).mnemonic;
  return {};
}

// What the interpreter leaves in the tensor.
inline std::vector<double> Interpreted(const Function& fn, InterpretInputs in,
                                       const std::string& tensor) {
  DiagSink diags;
  SourceMap sources;
  EXPECT_TRUE(Interpret(fn, in, {}, diags).ok()) << RenderAll(diags, sources);
  return in.tensors[tensor].v;
}

}  // namespace tilec::ir
