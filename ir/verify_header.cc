// The verifier's rules for what a function declares before its body: parameters, tensor maps, the
// facts of its launch.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/verify_internal.h"

namespace tilec::ir::verify_internal {

bool Verifier::CheckParam(const Param& p) {
  if (p.name.empty()) return FailHeader(p.at, "a parameter has no name");
  if (static_cast<size_t>(p.value.index) >= static_cast<size_t>(fn_.values.size()))
    return FailHeader(p.at, fmt::format("parameter `{}` has no value", p.name));
  const Value& value = fn_.values[p.value];
  if (value.def.valid() || value.block.valid())
    return FailHeader(
        p.at, fmt::format("the value of parameter `{}` is also defined by an op or block", p.name));
  if (visible_[p.value.index])
    return FailHeader(p.at, fmt::format("parameter `{}` shares its value with another", p.name));
  visible_[p.value.index] = 1;
  switch (p.kind) {
    case ParamKind::kDim:
      if (value.type != Type::Scalar(DType::kI64))
        return FailHeader(p.at,
                          fmt::format("dim `{}` has type {}, not i64", p.name, Show(value.type)));
      return true;
    case ParamKind::kScalar:
      if (!value.type.is_scalar() || value.type.layout.valid())
        return FailHeader(p.at, fmt::format("scalar `{}` has type {}", p.name, Show(value.type)));
      return true;
    case ParamKind::kTensor: break;
  }
  if (!value.type.is_tensor() || value.type.rank() != static_cast<int64_t>(p.dims.size()))
    return FailHeader(p.at, fmt::format("tensor `{}` of {} dims has type {}", p.name, p.dims.size(),
                                        Show(value.type)));
  return true;
}

bool Verifier::CheckMap(size_t index) {
  const TensorMapInfo& m = fn_.launch.maps[index];
  const std::string which = fmt::format("tensor map {}", index);
  const Param* p = nullptr;
  for (const Param& q : fn_.params)
    if (q.value == m.tensor && q.kind == ParamKind::kTensor) p = &q;
  if (!p) return FailHeader({}, which + " names no tensor parameter");
  const int64_t rank = static_cast<int64_t>(p->dims.size());
  const size_t all = m.dims.size() + (m.panel ? 1 : 0);
  if (m.dims.empty() || all > 5 || all != m.box.size())
    return FailHeader(p->at,
                      fmt::format("{} has {} dims and {} box extents", which, all, m.box.size()));
  std::set<int> distinct;
  for (int d : m.dims)
    if (d < 0 || d >= rank || !distinct.insert(d).second)
      return FailHeader(p->at, fmt::format("{} has dim {} of a tensor of rank {}", which, d, rank));
  for (int64_t b : m.box)
    if (b < 1 || b > 256)
      return FailHeader(p->at, fmt::format("{} has a box extent of {}", which, b));
  if (!m.steps.empty() && m.steps.size() != m.box.size())
    return FailHeader(p->at, fmt::format("{} has {} box extents and {} steps", which, m.box.size(),
                                         m.steps.size()));
  constexpr int64_t kMostStep = 8, kMostBox = 256;  // of a tensor map
  for (size_t i = 0; i < m.steps.size(); ++i)
    if (m.steps[i] < 1 || m.steps[i] > (i == 0 ? 1 : kMostStep) || m.steps[i] * m.box[i] > kMostBox)
      return FailHeader(p->at, fmt::format("{} takes every {} of {} elements along dim {}", which,
                                           m.steps[i], m.box[i], i));
  if (m.panel) {
    const Expr& extent = p->dims[static_cast<size_t>(m.dims[0])];
    if (m.box[0] != m.panel || !extent.is_const() || extent.value < m.panel)
      return FailHeader(p->at, fmt::format("{} has panels of {} with a box of {}, in a dim of {}",
                                           which, m.panel, m.box[0], ToText(extent)));
  }
  if (m.swizzle_bytes != 0 && m.swizzle_bytes != 32 && m.swizzle_bytes != 64 &&
      m.swizzle_bytes != 128)
    return FailHeader(p->at, fmt::format("{} has swizzle {}", which, m.swizzle_bytes));
  const int64_t inner = m.box[0] * ByteSize(T(p->value).dtype);
  if (m.swizzle_bytes != 0 && inner > m.swizzle_bytes)
    return FailHeader(
        p->at, fmt::format("{}: {} bytes of inner box, swizzle {}", which, inner, m.swizzle_bytes));
  if (inner % 16 != 0)  // or no tensor map can be made of it
    return FailHeader(p->at, fmt::format("{}: {} bytes of inner box", which, inner));
  return true;
}

bool Verifier::CheckHeader() {
  std::set<std::string> names;
  for (const Param& p : fn_.params) {
    if (!CheckParam(p)) return false;
    if (!names.insert(p.name).second)
      return FailHeader(p.at, fmt::format("two parameters are called `{}`", p.name));
  }
  auto known = [&](const Expr& e, Span at, const std::string& where) {
    for (const std::string& name : NamesIn(e)) {
      const Param* p = fn_.param(name);
      if (p ? p->kind == ParamKind::kTensor : !fn_.statics.contains(name))
        return FailHeader(
            at, fmt::format("{} names `{}`, which is no dim, scalar or static", where, name));
    }
    return true;
  };
  for (const Param& p : fn_.params)
    for (const Expr& e : p.dims)
      if (!known(e, p.at, fmt::format("an extent of `{}`", p.name))) return false;
  for (const WhereFact& f : fn_.facts)
    if (!known(f.condition, f.at, "a fact")) return false;
  if (fn_.level == Level::kTile) {
    if (!fn_.launch.maps.empty()) return FailHeader({}, "a tile function has tensor maps");
    return true;
  }
  if (fn_.launch.warps < 1 || fn_.launch.warps > 32)
    return FailHeader({}, fmt::format("{} warps; a CTA has 1 … 32", fn_.launch.warps));
  if (fn_.launch.smem_bytes < 0)
    return FailHeader({}, fmt::format("{} bytes of shared memory", fn_.launch.smem_bytes));
  if (fn_.launch.ctas_per_sm < 0 || fn_.launch.ctas_per_sm * fn_.launch.warps > 64)
    return FailHeader({}, fmt::format("{} CTAs of {} warps; an SM holds 64 warps",
                                      fn_.launch.ctas_per_sm, fn_.launch.warps));
  if (const int64_t n = fn_.launch.cluster; n < 1 || n > 8)
    return FailHeader({}, fmt::format("clusters of {} CTAs; 1 … 8", n));
  if (!known(fn_.launch.grid, {}, "the grid")) return false;
  for (size_t i = 0; i < fn_.launch.maps.size(); ++i)
    if (!CheckMap(i)) return false;
  return true;
}

}  // namespace tilec::ir::verify_internal
