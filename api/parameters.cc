// A kernel's signature in the words of the interface.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/state.h"

namespace tilec {

std::vector<Parameter> Kernel::parameters() const {
  std::vector<Parameter> out;
  const frontend::Signature& s = state_->signature;
  for (const frontend::ParamInfo& p : s.params) {
    Parameter q;
    q.name = p.name;
    q.dtype = ir::Spelling(p.dtype);
    q.is_static = s.IsStatic(p.name);
    if (p.default_value) q.default_value = frontend::ToText(*p.default_value);
    switch (p.role) {
      case frontend::ParamRole::kTensor: {
        q.kind = Parameter::Kind::kTensor;
        const char* const directions[] = {"in", "out", "inout"};
        q.direction = directions[static_cast<int>(p.direction)];
        for (const Expr& e : p.dims) q.dims.push_back(ToText(e));
        break;
      }
      case frontend::ParamRole::kScalar: q.kind = Parameter::Kind::kScalar; break;
      case frontend::ParamRole::kConst: q.kind = Parameter::Kind::kConst; break;
    }
    out.push_back(std::move(q));
  }
  for (const frontend::DimInfo& d : s.dims) {
    Parameter q;
    q.kind = Parameter::Kind::kDim;
    q.name = d.name;
    q.is_static = d.is_static;
    out.push_back(std::move(q));
  }
  for (const frontend::TuneInfo& t : s.tunes) {
    Parameter q;
    q.kind = Parameter::Kind::kTune;
    q.name = t.name;
    q.is_static = true;
    if (t.default_value) q.default_value = frontend::ToText(*t.default_value);
    out.push_back(std::move(q));
  }
  return out;
}

}  // namespace tilec
