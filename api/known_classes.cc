// SPDX-License-Identifier: Apache-2.0
#include "api/known_classes.h"

#include <algorithm>
#include <bit>

#include "api/size_classes.h"

namespace tilec::api {

namespace {

using frontend::ParamInfo;
using frontend::ParamRole;

bool OfName(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool Mentions(const frontend::FactInfo& fact, const std::string& name) {
  const std::string& text = fact.text;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !OfName(text[at - 1])) && (end == text.size() || !OfName(text[end])))
      return true;
  }
  return false;
}

class Key {
 public:
  Key(const frontend::Signature& signature, const frontend::Values& values, const Tensors& tensors)
      : signature_(signature), values_(values), tensors_(tensors) {}

  std::optional<std::string> Of(const void* device) {
    Put(reinterpret_cast<intptr_t>(device));
    size_t found = 0;
    for (const ParamInfo& p : signature_.params) {
      if (p.role != ParamRole::kTensor) continue;
      if (!PutTensor(p)) return std::nullopt;
      ++found;
    }
    if (found != tensors_.size()) return std::nullopt;
    for (const frontend::DimInfo& dim : signature_.dims) {
      const std::optional<int64_t> size = SizeOf(dim.name);
      if (!size) return std::nullopt;
      const bool compiled_in = signature_.TakesValue(dim.name, *size);
      Put(compiled_in);
      Put(compiled_in ? *size : ClassOf(*size));
    }
    for (const auto& [name, value] : values_) PutValue(name, value);
    return std::move(text_);
  }

 private:
  void Put(int64_t v) { text_.append(reinterpret_cast<const char*>(&v), sizeof v); }

  bool PutTensor(const ParamInfo& p) {
    const auto at = tensors_.find(p.name);
    if (at == tensors_.end()) return false;
    const runtime::TensorView& view = at->second;
    const size_t rank = view.dims.size();
    if (rank != p.dims.size() || (!view.strides.empty() && view.strides.size() != rank))
      return false;
    const runtime::TensorFacts f = runtime::FactsOf(view);
    for (const int64_t fact :
         {int64_t{f.base_align_bytes}, int64_t{f.stride_align_bytes}, int64_t{f.last_dim_align},
          int64_t{f.last_contiguous}, RowStart(view, p.dtype)})
      Put(fact);
    return true;
  }

  // As given, or as the first tensor has it.
  std::optional<int64_t> SizeOf(const std::string& dim) const {
    if (const auto given = values_.find(dim); given != values_.end())
      if (const auto* size = std::get_if<int64_t>(&given->second)) return *size;
    for (const ParamInfo& p : signature_.params)
      for (size_t d = 0; d < p.dims.size(); ++d)
        if (p.dims[d].op == Expr::Op::kName && p.dims[d].name == dim)
          return tensors_.at(p.name).dims[d];
    return std::nullopt;
  }

  void PutValue(const std::string& name, const frontend::ConstValue& value) {
    if (signature_.dim(name)) return;
    const auto* whole = std::get_if<int64_t>(&value);
    const ParamInfo* p = signature_.param(name);
    if (p && p->role == ParamRole::kScalar) {
      if (whole) return Put(ClassOf(*whole, kScalarDigits));
      const auto asks = [&](const frontend::FactInfo& fact) { return Mentions(fact, name); };
      if (std::none_of(signature_.facts.begin(), signature_.facts.end(), asks)) return;
    }
    text_.append(name).append(1, '=');
    Put(static_cast<int64_t>(value.index()));
    if (whole)
      Put(*whole);
    else if (const auto* truth = std::get_if<bool>(&value))
      Put(*truth);
    else
      Put(std::bit_cast<int64_t>(std::get<double>(value)));
  }

  const frontend::Signature& signature_;
  const frontend::Values& values_;
  const Tensors& tensors_;
  std::string text_;
};

}  // namespace

bool KnownClasses::Tell(const frontend::Signature& signature) {
  return std::none_of(signature.facts.begin(), signature.facts.end(),
                      [&](const frontend::FactInfo& fact) {
                        bool floats = false, whole = false;
                        for (const ParamInfo& p : signature.params)
                          if (p.role == ParamRole::kScalar && Mentions(fact, p.name))
                            (ir::IsFloat(p.dtype) ? floats : whole) = true;
                        for (const frontend::DimInfo& dim : signature.dims)
                          whole = whole || Mentions(fact, dim.name);
                        return floats && whole;
                      });
}

std::optional<std::string> KnownClasses::KeyOf(const frontend::Signature& signature,
                                               const frontend::Values& values,
                                               const Tensors& tensors, const void* device) {
  return Key(signature, values, tensors).Of(device);
}

void KnownClasses::Keep(std::string key, runtime::LoadedKernel* program) {
  if (programs_.size() >= kMost) programs_.clear();
  programs_.insert_or_assign(std::move(key), program);
}

}  // namespace tilec::api
