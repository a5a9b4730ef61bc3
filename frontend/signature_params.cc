// What callers ask of a signature: parameters, dims and tunes by name, which names are static.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontend/instantiate.h"
#include "frontend/internal.h"

namespace tilec::frontend {

const ParamInfo* Signature::param(std::string_view name) const {
  for (const ParamInfo& p : params)
    if (p.name == name) return &p;
  return nullptr;
}
const DimInfo* Signature::dim(std::string_view name) const {
  for (const DimInfo& d : dims)
    if (d.name == name) return &d;
  return nullptr;
}
const TuneInfo* Signature::tune(std::string_view name) const {
  for (const TuneInfo& t : tunes)
    if (t.name == name) return &t;
  return nullptr;
}
bool Signature::IsStatic(std::string_view name) const {
  if (tune(name)) return true;
  if (const ParamInfo* p = param(name)) return p->role == ParamRole::kConst;
  const DimInfo* d = dim(name);
  return d && d->is_static;
}
bool DimInfo::Takes(const ConstValue& value) const {
  const int64_t* v = std::get_if<int64_t>(&value);
  return is_static || rows_again || (turns && v && *v <= kFewTurns);
}
bool Signature::TakesValue(std::string_view name, const ConstValue& value) const {
  const DimInfo* d = dim(name);
  return IsStatic(name) || (d && d->Takes(value));
}
bool Signature::Has(std::string_view name) const { return param(name) || dim(name) || tune(name); }
std::vector<std::string> Signature::names() const {
  std::vector<std::string> out;
  for (const ParamInfo& p : params) out.push_back(p.name);
  for (const DimInfo& d : dims) out.push_back(d.name);
  for (const TuneInfo& t : tunes) out.push_back(t.name);
  return out;
}

const lang::KernelItem& KernelOf(const ProgramData& program, ItemRef ref) {
  const auto* kernel = program.item(ref).As<lang::KernelItem>();
  CHECK(kernel, "not a kernel");
  return *kernel;
}

std::optional<ItemRef> FindKernel(const ProgramData& program, std::string_view kernel) {
  const ItemRef* ref = program.Find(0, kernel);
  if (!ref || !program.item(*ref).As<lang::KernelItem>() || IsPattern(program.item(*ref)))
    return std::nullopt;
  return *ref;
}

}  // namespace tilec::frontend
