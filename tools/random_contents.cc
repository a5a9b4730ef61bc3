// SPDX-License-Identifier: Apache-2.0
#include "tools/random_contents.h"

#include "tools/random_inputs.h"
#include "tools/session.h"

namespace tilec::tools {

api::ContentsOf RandomContents(Session& session, const frontend::Signature& signature,
                               const api::Call& call) {
  return [&](const frontend::ParamInfo& param, const runtime::TensorView& view) {
    DiagSink quiet;
    Shapes shapes;
    for (const auto& [name, tensor] : call.launch.tensors) shapes[name] = tensor.dims;
    shapes[param.name] = view.dims;
    std::map<std::string, IntegerUse> uses;
    const auto fn = api::MakeTileIr(session.loaded(), signature.kernel, call, nullptr, quiet);
    if (fn.ok()) uses = IntegerUses(*fn, shapes);
    const uint64_t seed = session.options().seed * 1000003;
    return RandomTensor(param.dtype, view.dims, uses[param.name], shapes, seed).ToBytes();
  };
}

}  // namespace tilec::tools
