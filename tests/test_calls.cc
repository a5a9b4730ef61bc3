// SPDX-License-Identifier: Apache-2.0
#include "tests/test_calls.h"

#include <fmt/format.h>

namespace tilec {

std::string CallText(const frontend::TestCallInfo& call) {
  std::string out;
  for (const auto& [name, value] : call.args)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, frontend::ToText(value));
  return fmt::format("{}({})", call.kernel, out);
}

Result<api::Call> BindDense(const frontend::Program& program, const frontend::TestCallInfo& call,
                            DiagSink& diags) {
  TRY(const frontend::Signature signature, frontend::SignatureOf(program, call.kernel, diags));
  TRY(const frontend::Values values, api::CheckValues(signature, call.args, diags));
  TRY(const auto shapes, api::InferShapes(signature, values, {}, diags));
  api::Tensors tensors;
  for (const frontend::ParamInfo& p : signature.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    runtime::TensorView view;
    view.dtype = ir::Spelling(p.dtype);
    view.data = 1 << 20;
    view.dims = shapes.at(p.name);
    tensors[p.name] = view;
  }
  return api::BindCall(program, signature, api::ForRuntime(signature), values, tensors, diags);
}

}  // namespace tilec
