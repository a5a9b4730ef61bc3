// What a run is called with: dims, tensors and scalars, whether they agree with the signature and
// its facts, and whether the interpreter has room for them.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/interpret_driver.h"

namespace tilec::ir::interpret_internal {

namespace {

constexpr int64_t kMaxTileElements = int64_t{1} << 24;
constexpr int64_t kMaxAllElements = int64_t{1} << 26;

}  // namespace

std::string ShapeText(const std::vector<int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Result<> Driver::BindDims() {
  names_ = fn_.statics;
  for (const auto& [name, value] : inputs_.dims) names_[name] = value;
  for (const Param& p : fn_.params) {
    if (p.kind == ParamKind::kScalar && IsInteger(fn_.type(p.value).dtype))
      if (auto it = inputs_.scalars.find(p.name); it != inputs_.scalars.end())
        names_.emplace(p.name, static_cast<int64_t>(it->second));
    if (p.kind != ParamKind::kTensor) continue;
    auto it = inputs_.tensors.find(p.name);
    if (it == inputs_.tensors.end()) {
      if (p.direction == Direction::kOut) continue;
      return diags_.Report(kMissingArgument, p.at, p.name);
    }
    const TensorValue& t = it->second;
    const DType d = fn_.type(p.value).dtype;
    if (t.dtype != d)
      return diags_.Report(
          kArgumentMismatch, p.at, p.name,
          fmt::format("its elements are {}, not {}", Spelling(d), Spelling(t.dtype)));
    if (t.dims.size() != p.dims.size())
      return diags_.Report(
          kArgumentMismatch, p.at, p.name,
          fmt::format("it has {} dims; the argument is {}", p.dims.size(), ShapeText(t.dims)));
    const size_t held = t.wide() ? t.words.size() : t.v.size();
    if (static_cast<int64_t>(held) != t.elements() || (!t.e.empty() && t.e.size() != held) ||
        (!t.undecided.empty() && t.undecided.size() != held))
      return diags_.Report(kArgumentMismatch, p.at, p.name,
                           fmt::format("{} elements for {}", held, ShapeText(t.dims)));
    for (size_t i = 0; i < p.dims.size(); ++i)
      if (p.dims[i].op == Expr::Op::kName) names_.emplace(p.dims[i].name, t.dims[i]);
  }
  return Done();
}

Result<> Driver::BindTensors() {
  for (const Param& p : fn_.params) {
    if (p.kind != ParamKind::kTensor) continue;
    std::vector<int64_t> dims;
    int64_t elements = 1;
    for (const Expr& e : p.dims) {
      std::string missing;
      const std::optional<int64_t> v = Eval(e, names_, &missing);
      if (!v && !missing.empty()) return diags_.Report(kMissingArgument, p.at, missing);
      if (!v || *v < 0)
        return diags_.Report(kArgumentMismatch, p.at, p.name,
                             fmt::format("its extent `{}` has no value", ToText(e)));
      dims.push_back(*v);
      if (__builtin_mul_overflow(elements, *v, &elements) || elements > kMaxTensorElements)
        return diags_.Report(kInterpretLimit, p.at, fmt::format("elements of `{}`", p.name),
                             ShapeText(dims), kMaxTensorElements);
    }
    auto [it, made] = inputs_.tensors.try_emplace(p.name);
    if (made) it->second = TensorValue::Zeros(fn_.type(p.value).dtype, dims);
    if (it->second.dims != dims)
      return diags_.Report(kArgumentMismatch, p.at, p.name,
                           fmt::format("the signature says {}, the argument is {}", ShapeText(dims),
                                       ShapeText(it->second.dims)));
    Tensor& t = kernel_.tensors[p.value.index];
    t.param = &p;
    t.value = &it->second;
  }
  return Done();
}

Result<> Driver::BindScalars(Worker& top) {
  for (const Param& p : fn_.params) {
    if (p.kind == ParamKind::kTensor) continue;
    Tile& t = top.env()[static_cast<size_t>(p.value.index)];
    t.Reset(fn_.type(p.value));
    auto scalar = inputs_.scalars.find(p.name);
    auto name = names_.find(p.name);
    const bool has_scalar = p.kind == ParamKind::kScalar && scalar != inputs_.scalars.end();
    if (!has_scalar && name == names_.end()) return diags_.Report(kMissingArgument, p.at, p.name);
    if (t.is_float()) {
      t.v[0] = Round(t.dtype, has_scalar ? scalar->second : static_cast<double>(name->second));
      continue;
    }
    const int64_t n =
        has_scalar && name == names_.end() ? static_cast<int64_t>(scalar->second) : name->second;
    t.n[0] = WrapInt(t.dtype, n);
    if (t.n[0] != n && t.dtype != DType::kU64)
      return diags_.Report(kInputRange, p.at, p.name,
                           fmt::format("{} does not fit {}", n, Spelling(t.dtype)));
  }
  return Done();
}

Result<> Driver::CheckFacts() {
  for (const WhereFact& f : fn_.facts) {
    const std::optional<int64_t> holds = Eval(f.condition, names_);
    if (!holds || *holds) continue;  // facts over runtime floats are the launcher's to check
    std::string values;
    for (const std::string& name : NamesIn(f.condition))
      values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", name, names_[name]);
    return diags_.Report(kFactViolated, f.at, f.text.empty() ? ToText(f.condition) : f.text,
                         values);
  }
  return Done();
}

Result<> Driver::CheckSizes() {
  int64_t total = 0;  // every value has its tile, in every thread
  for (const Op& op : fn_.ops)
    for (ValueId v : op.results) {
      int64_t elements = 1;
      for (int64_t d : fn_.type(v).shape)
        if (__builtin_mul_overflow(elements, d, &elements) || elements > kMaxTileElements)
          return diags_.Report(kInterpretLimit, op.at, "elements of a tile",
                               ShapeText(fn_.type(v).shape), kMaxTileElements);
      total += elements;
      if (total > kMaxAllElements)
        return diags_.Report(kInterpretLimit, op.at, "elements of all tiles", total,
                             kMaxAllElements);
    }
  return Done();
}

}  // namespace tilec::ir::interpret_internal
