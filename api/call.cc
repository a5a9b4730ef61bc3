// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"

#include <cmath>
#include <numeric>

#include "api/diagnostics.h"
#include "runtime/diagnostics.h"
#include "support/nearest.h"

namespace tilec::api {

namespace {

using frontend::ConstValue;
using frontend::ParamInfo;
using frontend::ParamRole;
using frontend::Signature;

std::string Place(const Signature& s) { return fmt::format("launch of `{}`", s.kernel); }

const char* KindOf(const Signature& s, const std::string& name) {
  if (const ParamInfo* p = s.param(name)) {
    switch (p->role) {
      case ParamRole::kTensor: return "tensor";
      case ParamRole::kScalar: return "scalar";
      case ParamRole::kConst: return "constant";
    }
  }
  return s.dim(name) ? "dim" : "tune";
}

std::optional<int64_t> AsInteger(const ConstValue& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b ? 1 : 0;
  if (const auto* i = std::get_if<int64_t>(&v)) return *i;
  const double d = std::get<double>(v);
  if (d == std::floor(d) && std::fabs(d) < 9e15) return static_cast<int64_t>(d);
  return std::nullopt;
}

backend::Direction ForRuntime(ir::Direction d) {
  switch (d) {
    case ir::Direction::kIn: return backend::Direction::kIn;
    case ir::Direction::kOut: return backend::Direction::kOut;
    case ir::Direction::kInOut: return backend::Direction::kInOut;
  }
  return backend::Direction::kIn;
}

// Integer values of everything named: given ones, then defaults of consts and tunes.
Bindings Integers(const Signature& s, const frontend::Values& values) {
  Bindings names;
  for (const auto& [name, value] : values)
    if (const auto i = AsInteger(value)) names.emplace(name, *i);
  for (const ParamInfo& p : s.params)
    if (p.default_value)
      if (const auto i = AsInteger(*p.default_value)) names.emplace(p.name, *i);
  for (const frontend::TuneInfo& t : s.tunes)
    if (t.default_value)
      if (const auto i = AsInteger(*t.default_value)) names.emplace(t.name, *i);
  return names;
}

}  // namespace

std::optional<ConstValue> Convert(ir::DType dtype, const ConstValue& v) {
  if (ir::IsFloat(dtype)) {
    if (const auto* b = std::get_if<bool>(&v)) return ConstValue(*b ? 1.0 : 0.0);
    if (const auto* i = std::get_if<int64_t>(&v)) return ConstValue(static_cast<double>(*i));
    return v;
  }
  const std::optional<int64_t> i = AsInteger(v);
  if (!i) return std::nullopt;
  if (dtype == ir::DType::kBool)
    return *i == 0 || *i == 1 ? std::optional<ConstValue>(*i != 0) : std::nullopt;
  return ConstValue(*i);
}

ir::DType TypeOf(const Signature& s, const std::string& name) {
  if (const ParamInfo* p = s.param(name)) return p->dtype;
  const frontend::TuneInfo* t = s.tune(name);
  if (t && t->default_value) {
    if (std::holds_alternative<bool>(*t->default_value)) return ir::DType::kBool;
    if (std::holds_alternative<double>(*t->default_value)) return ir::DType::kF64;
  }
  return ir::DType::kI64;
}

std::optional<runtime::ScalarValue> ForLaunch(const ConstValue& v) {
  if (const auto* d = std::get_if<double>(&v)) return *d;
  if (const auto i = AsInteger(v)) return *i;
  return std::nullopt;
}

RuntimeSignature ForRuntime(const Signature& signature) {
  RuntimeSignature out;
  out.kernel = signature.kernel;
  for (const ParamInfo& p : signature.params) {
    if (p.role == ParamRole::kTensor)
      out.tensors.push_back(
          {p.name, ir::Spelling(p.dtype), ForRuntime(p.direction), p.dims, p.strided_any});
    else if (p.role == ParamRole::kScalar)
      out.scalars.push_back({p.name, ir::Spelling(p.dtype)});
  }
  return out;
}

Result<frontend::Values> CheckValues(const Signature& s, const Given& given, DiagSink& diags) {
  const int before = diags.errors();
  frontend::Values out;
  for (const auto& [name, value] : given) {
    if (!s.Has(name)) {
      DiagBuilder d = diags.Report(kUnknownName, Span{}, s.kernel, name).Place(Place(s));
      const std::string near = NearestName(name, s.names());
      if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
      d.Note(fmt::format("`{}` has {}", s.kernel, fmt::join(s.names(), ", ")));
      continue;
    }
    const ParamInfo* p = s.param(name);
    if (p && p->role == ParamRole::kTensor) {
      diags.Report(kValueType, Span{}, name, s.kernel, "tensor", frontend::ToText(value))
          .Place(Place(s));
      continue;
    }
    const ir::DType dtype = TypeOf(s, name);
    if (const auto converted = Convert(dtype, value))
      out[name] = *converted;
    else
      diags
          .Report(kValueType, Span{}, name, s.kernel,
                  fmt::format("{} of type {}", KindOf(s, name), ir::Spelling(dtype)),
                  frontend::ToText(value))
          .Place(Place(s));
  }
  for (const ParamInfo& p : s.params)
    if (p.role == ParamRole::kScalar && p.default_value) out.emplace(p.name, *p.default_value);
  for (const ParamInfo& p : s.params)
    if (p.role == ParamRole::kConst && !p.default_value && !given.count(p.name))
      diags.Report(kValueMissing, p.at, s.kernel, "constant", p.name)
          .Help(fmt::format("give {}=VALUE, a {}", p.name, ir::Spelling(p.dtype)));
  if (diags.errors() > before) return DiagSink::Propagate();
  return out;
}

// Multiples of what do rows begin at? H200, bf16 product of 4096^3, rested: with K = 4104, 16 bytes
// beyond a sector, 0.64 of cuBLAS; with K = 4112, a whole one, 1.00. Base addresses were sectors'
// in both. Rows of which whole ones fill a sector are cut by none.
int64_t RowStart(std::span<const int64_t> dims, std::span<const int64_t> steps, ir::DType dtype) {
  int64_t start = scheduler::kLineBytes;
  for (size_t d = 0; d + 1 < dims.size(); ++d)
    if (const int64_t pitch = steps[d] * static_cast<int64_t>(ir::ByteSize(dtype));
        dims[d] > 1 && pitch != 0 && (pitch < 0 || scheduler::kSectorBytes % pitch != 0))
      start = std::gcd(start, pitch);
  return start;
}
int64_t RowStart(const runtime::TensorView& view, ir::DType dtype) {
  return RowStart(view.dims, runtime::EffectiveStrides(view), dtype);
}

scheduler::RowStarts RowStartsOf(const Signature& signature, const frontend::Values& values) {
  const Bindings names = Integers(signature, values);
  scheduler::RowStarts starts;
  for (const ParamInfo& p : signature.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    runtime::TensorView view;
    for (const Expr& dim : p.dims)
      if (const auto size = Eval(dim, names)) view.dims.push_back(*size);
    if (view.dims.size() == p.dims.size()) starts[p.name] = RowStart(view, p.dtype);
  }
  return starts;
}

void PutInLaunch(const Signature& s, const frontend::Values& values, runtime::LaunchArgs* launch) {
  for (const auto& [name, value] : values) {
    const ParamInfo* p = s.param(name);
    if (s.dim(name)) {
      launch->dims[name] = std::get<int64_t>(value);
    } else if (p && p->role == ParamRole::kScalar) {
      launch->scalars[name] = *ForLaunch(value);
    }
  }
}

Result<Call> BindCall(const frontend::Program& program, const Signature& s,
                      const RuntimeSignature& runtime_signature, const frontend::Values& values,
                      Tensors tensors, DiagSink& diags) {
  Call call;
  call.launch.tensors = std::move(tensors);
  Bindings constants;  // consts and tunes; dims and scalars are bound by what is launched
  for (const auto& [name, value] : Integers(s, values)) {
    const ParamInfo* p = s.param(name);
    if (!s.dim(name) && !(p && p->role == ParamRole::kScalar)) constants.emplace(name, value);
  }
  PutInLaunch(s, values, &call.launch);
  for (const auto& [name, value] : values)
    if (call.launch.dims.count(name) == 0 && call.launch.scalars.count(name) == 0)
      call.statics[name] = value;
  TRY(const Bindings names,
      runtime::BindArguments(runtime_signature.View(&constants), call.launch, diags));
  call.all = values;
  for (const frontend::DimInfo& d : s.dims) {
    const auto at = names.find(d.name);
    if (at == names.end()) return diags.Report(kValueMissing, d.at, s.kernel, "dim", d.name);
    call.all[d.name] = at->second;
    if (s.TakesValue(d.name, at->second)) call.statics[d.name] = at->second;
  }
  for (const auto& [name, view] : call.launch.tensors) {
    const runtime::TensorFacts f = runtime::FactsOf(view);
    call.facts[name] = {.base_align_bytes = f.base_align_bytes,
                        .stride_align_bytes = f.stride_align_bytes,
                        .last_dim_align = f.last_dim_align,
                        .last_contiguous = f.last_contiguous};
    const ParamInfo* p = s.param(name);
    if (p) call.row_starts[name] = RowStart(view, p->dtype);
  }
  TRY_VOID(frontend::CheckFacts(program, s.kernel, call.all, diags));
  return call;
}

Result<std::map<std::string, std::vector<int64_t>>> InferShapes(const Signature& s,
                                                                const frontend::Values& values,
                                                                const Tensors& existing,
                                                                DiagSink& diags) {
  Bindings names = Integers(s, values);
  for (const ParamInfo& p : s.params) {  // conflicts are reported when the call is bound
    const auto at = existing.find(p.name);
    if (at == existing.end()) continue;
    if (at->second.dims.size() != p.dims.size()) {
      std::vector<std::string> dims;
      for (const Expr& e : p.dims) dims.push_back(ToText(e));
      return diags
          .Report(runtime::kWrongRank, Span{}, p.name, at->second.dims.size(), p.dims.size(),
                  fmt::format("{}: {}[{}]", p.name, ir::Spelling(p.dtype), fmt::join(dims, ", ")))
          .Place(Place(s))
          .Note(fmt::format("its shape is [{}]", fmt::join(at->second.dims, ", ")));
    }
    for (size_t i = 0; i < p.dims.size(); ++i)
      if (p.dims[i].op == Expr::Op::kName) names.emplace(p.dims[i].name, at->second.dims[i]);
  }
  const int before = diags.errors();
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, bool> reported;
  for (const ParamInfo& p : s.params) {
    if (p.role != ParamRole::kTensor) continue;
    std::vector<int64_t>& shape = shapes[p.name];
    for (const Expr& e : p.dims) {
      std::string missing;
      const auto v = Eval(e, names, &missing);
      shape.push_back(v.value_or(0));
      if (!missing.empty()) {
        if (std::exchange(reported[missing], true)) continue;
        const frontend::DimInfo* dim = s.dim(missing);
        diags.Report(kValueMissing, dim ? dim->at : p.at, s.kernel, "dim", missing)
            .Help(fmt::format("give {}=NUMBER, or a tensor: {}=@file.npy", missing, p.name));
      } else if (!v || *v < 0) {
        diags.Report(kShapeUndefined, p.at, ToText(e), p.name,
                     v ? fmt::format("{}", *v) : "no value");
      }
    }
  }
  if (diags.errors() > before) return DiagSink::Propagate();
  return shapes;
}

}  // namespace tilec::api
