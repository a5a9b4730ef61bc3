// Binding the arguments of a launch to a signature: who is given, what shape, and what every dim
// is.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <set>

#include "runtime/diagnostics.h"
#include "runtime/launch.h"
#include "runtime/plan_parts.h"
#include "support/nearest.h"

namespace tilec::runtime {

namespace {

struct DTypeRow {
  const char* spelling;
  int bytes;
};
constexpr DTypeRow kDTypes[] = {
    {"bool", 1}, {"i8", 1},   {"i16", 2},    {"i32", 4},   {"i64", 8},   {"u8", 1},  {"u16", 2},
    {"u32", 4},  {"u64", 8},  {"f16", 2},    {"bf16", 2},  {"tf32", 4},  {"f32", 4}, {"f64", 8},
    {"e4m3", 1}, {"e5m2", 1}, {"e2m1x2", 1}, {"ue8m0", 1}, {"ue4m3", 1},
};

std::string ShapeText(const std::vector<int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string SignatureText(const backend::TensorArg& t) {
  std::string dims;
  for (const Expr& e : t.dims) dims += (dims.empty() ? "" : ", ") + ToText(e);
  return fmt::format("{}: {}[{}]", t.name, t.dtype, dims);
}

int PowerOfTwoPart(uint64_t v) {  // largest power of two up to 16 that divides v
  return v == 0 ? 16 : 1 << std::min(4, std::countr_zero(v));
}

class Binder {
 public:
  Binder(const SignatureView& signature, const LaunchArgs& args, DiagSink& diags)
      : sig_(signature), args_(args), diags_(diags), errors_before_(diags.errors()) {}

  Result<Bindings> Run() {
    if (sig_.statics) {
      names_ = *sig_.statics;
      for (const auto& [name, value] : names_) source_[name] = {};
    }
    CheckNames();
    for (const auto& [name, value] : args_.dims) Bind(name, value, {nullptr, -1});
    for (const backend::TensorArg& t : *sig_.tensors) CheckTensor(t);
    for (const backend::ScalarArg& s : *sig_.scalars) BindScalar(s);  // dims may speak of them
    for (const backend::TensorArg& t : *sig_.tensors) CheckExpressions(t);
    if (diags_.errors() > errors_before_) return DiagSink::Propagate();
    return std::move(names_);
  }

 private:
  template <typename... A>
  DiagBuilder Error(const DiagDef& def, const A&... a) {
    return diags_.Report(def, Span{}, a...).Place(fmt::format("launch of `{}`", sig_.kernel));
  }

  std::vector<std::string> AllNames() const {
    std::vector<std::string> all;
    for (const backend::TensorArg& t : *sig_.tensors) all.push_back(t.name);
    for (const backend::ScalarArg& s : *sig_.scalars) all.push_back(s.name);
    for (const backend::TensorArg& t : *sig_.tensors)
      for (const Expr& e : t.dims)
        for (std::string& n : NamesIn(e)) all.push_back(std::move(n));
    if (sig_.statics)
      for (const auto& [name, value] : *sig_.statics) all.push_back(name);
    return all;
  }

  void Unknown(const std::string& name) {
    const std::string near = NearestName(name, AllNames());
    DiagBuilder d = Error(kUnknownArgument, sig_.kernel, name);
    if (!near.empty()) d.Help(fmt::format("did you mean `{}`?", near));
  }

  const backend::TensorArg* FindTensor(const std::string& name) const {
    for (const backend::TensorArg& t : *sig_.tensors)
      if (t.name == name) return &t;
    return nullptr;
  }
  const backend::ScalarArg* FindScalar(const std::string& name) const {
    for (const backend::ScalarArg& s : *sig_.scalars)
      if (s.name == name) return &s;
    return nullptr;
  }

  // Names given that the signature does not know, or knows as something else.
  void CheckNames() {
    for (const auto& [name, view] : args_.tensors) {
      if (FindTensor(name)) continue;
      if (FindScalar(name))
        Error(kNotATensor, name, "scalar", sig_.kernel, "tensor");
      else
        Unknown(name);
    }
    for (const auto& [name, value] : args_.scalars) {
      if (FindScalar(name)) continue;
      if (FindTensor(name))
        Error(kNotATensor, name, "tensor", sig_.kernel, "number");
      else
        Unknown(name);
    }
    if (args_.dims.empty()) return;
    const std::vector<std::string> all = AllNames();
    for (const auto& [name, value] : args_.dims)
      if (std::find(all.begin(), all.end(), name) == all.end()) Unknown(name);
  }

  // Who bound a name; words are made of it only where two disagree, since every launch of a new
  // size comes by here.
  struct Source {
    const backend::TensorArg* tensor = nullptr;
    int dim = 0;  // of the tensor; without one: −1 for an argument of that name
  };
  static std::string TextOf(const Source& s) {
    if (s.tensor) return fmt::format("dim {} of tensor `{}`", s.dim, s.tensor->name);
    return s.dim < 0 ? "the argument of that name" : "this specialisation";
  }

  void Bind(const std::string& name, int64_t value, const Source& source) {
    const auto [at, fresh] = names_.emplace(name, value);
    if (fresh) {
      source_[name] = source;
      return;
    }
    if (at->second == value) return;
    if (sig_.statics && sig_.statics->count(name)) {
      Error(kStaticMismatch, sig_.kernel, name, at->second, value)
          .Note(fmt::format("{} is {} by {}", name, value, TextOf(source)));
      return;
    }
    Error(kDimConflict, name, at->second, TextOf(source_[name]), value, TextOf(source));
  }

  void CheckTensor(const backend::TensorArg& t) {
    const auto found = args_.tensors.find(t.name);
    if (found == args_.tensors.end()) {
      Error(kMissingArgument, sig_.kernel, "tensor", t.name).Note(SignatureText(t));
      return;
    }
    const TensorView& v = found->second;
    if (v.dims.size() != t.dims.size()) {
      Error(kWrongRank, t.name, v.dims.size(), t.dims.size(), SignatureText(t))
          .Note(fmt::format("its shape is {}", ShapeText(v.dims)));
      return;
    }
    if (!AcceptsDType(t.dtype, v.dtype)) Error(kWrongDtype, t.name, v.dtype, t.dtype);
    if (!v.strides.empty() && v.strides.size() != v.dims.size()) {
      Error(kStrideCount, t.name, v.dims.size(), v.strides.size());
      return;
    }
    for (size_t i = 0; i < v.dims.size(); ++i) CheckDim(t, v, i);
    const std::vector<int64_t> strides = EffectiveStrides(v);
    if (!v.dims.empty() && !LiesDense(t, v.dims.back(), strides.back()))
      Error(kNotContiguous, t.name, v.strides.back())
          .Help(fmt::format("write `{}: {}[…] strided(any)` in the signature, or copy the tensor",
                            t.name, t.dtype));
    for (size_t i = 0; i < strides.size(); ++i) names_[StrideName(t.name, i)] = strides[i];
  }

  void CheckDim(const backend::TensorArg& t, const TensorView& v, size_t i) {
    const int64_t extent = v.dims[i];
    if (extent < 0) {
      Error(kNegativeExtent, "extent of dim", i, t.name, extent);
      return;
    }
    if (extent > INT32_MAX && !MayBeWide(t.dims[i]))
      Error(kDimTooLarge, i, t.name, extent, sig_.kernel);
    if (!v.strides.empty()) {
      if (v.strides[i] < 0)
        Error(kNegativeExtent, "stride of dim", i, t.name, v.strides[i])
            .Help("copy a reversed view into a new tensor");
      if (Overlaps(extent, v.strides[i], t.direction)) Error(kOverlappingOutput, i, t.name, extent);
    }
    const Expr& e = t.dims[i];
    if (e.op == Expr::Op::kName) Bind(e.name, extent, {&t, static_cast<int>(i)});
  }

  bool MayBeWide(const Expr& dim) const { return !sig_.wide || IsWideDim(dim, *sig_.wide); }

  // Every division exact?
  bool Exact(const Expr& e) const {
    for (const Expr& a : e.args)
      if (!Exact(a)) return false;
    if (e.op != Expr::Op::kDiv) return true;
    const auto a = Eval(e.args[0], names_), b = Eval(e.args[1], names_);
    return a && b && *b != 0 && FloorMod(*a, *b) == 0;
  }

  std::string Values(const Expr& e) const {
    std::string out;
    for (const std::string& n : NamesIn(e))
      if (const auto at = names_.find(n); at != names_.end())
        out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", n, at->second);
    return out;
  }

  void CheckExpressions(const backend::TensorArg& t) {
    const auto found = args_.tensors.find(t.name);
    if (found == args_.tensors.end() || found->second.dims.size() != t.dims.size()) return;
    for (size_t i = 0; i < t.dims.size(); ++i) {
      const Expr& e = t.dims[i];
      if (e.op == Expr::Op::kName) continue;
      const int64_t extent = found->second.dims[i];
      std::string missing;
      const auto want = Eval(e, names_, &missing);
      if (!missing.empty()) {
        if (reported_unbound_.insert(missing).second) Error(kDimUnbound, missing, sig_.kernel);
      } else if (!want) {
        Error(kExprUndefined, ToText(e), fmt::format("dim {} of tensor `{}`", i, t.name),
              Values(e));
      } else if (!Exact(e)) {
        Error(kDimMismatch, i, t.name, extent, ToText(e), "not a whole number").Note(Values(e));
      } else if (*want != extent) {
        DiagBuilder d = Error(kDimMismatch, i, t.name, extent, ToText(e), *want);
        if (const std::string values = Values(e); !values.empty()) d.Note(values);
      }
    }
  }

  void BindScalar(const backend::ScalarArg& s) {
    const auto found = args_.scalars.find(s.name);
    if (found == args_.scalars.end()) {
      Error(kMissingArgument, sig_.kernel, "scalar", s.name)
          .Help(fmt::format("give {}=VALUE, a {}", s.name, s.dtype));
      return;
    }
    if (const auto* i = std::get_if<int64_t>(&found->second)) names_[s.name] = *i;
  }

  const SignatureView& sig_;
  const LaunchArgs& args_;
  DiagSink& diags_;
  int errors_before_;
  Bindings names_;
  std::map<std::string, Source> source_;
  std::set<std::string> reported_unbound_;
};

}  // namespace

// Same storage under another name.
bool AcceptsDType(std::string_view wanted, std::string_view given) {
  return wanted == given || (wanted == "tf32" && given == "f32") ||
         (wanted == "bool" && given == "u8") ||
         (given == "u8" && (wanted == "e2m1x2" || wanted == "ue8m0" || wanted == "ue4m3"));
}

int DTypeBytes(std::string_view dtype) {
  for (const DTypeRow& row : kDTypes)
    if (dtype == row.spelling) return row.bytes;
  return 0;
}

std::string StrideName(const std::string& tensor, size_t dim) {
  std::string name = tensor;
  return name.append(".stride").append(std::to_string(dim));
}

int64_t ElementCount(const TensorView& view) {
  int64_t n = 1;
  for (int64_t d : view.dims) n *= d;
  return n;
}

void StepsOf(int bytes, std::span<const int64_t> dims, std::span<const int64_t> strides,
             int64_t* steps) {
  const int64_t sixteen_bytes = std::max<int64_t>(1, 16 / std::max(1, bytes));
  bool empty = false;  // nobody steps where nothing is
  for (const int64_t dim : dims) empty = empty || dim == 0;
  int64_t inside = 1;  // elements spanned by the dims further in
  for (size_t k = dims.size(); k-- > 0;) {
    const bool last = k + 1 == dims.size();
    const bool free = empty || dims[k] <= 1;
    if (!strides.empty() && !free)
      steps[k] = strides[k];
    else if (free)
      steps[k] = last ? 1 : RoundUp(inside, sixteen_bytes);
    else
      steps[k] = inside;
    // Saturating: extents were not checked yet, and a product too large is refused later.
    int64_t span = 0;
    if (__builtin_mul_overflow(steps[k], std::max<int64_t>(1, dims[k]), &span) ||
        span > INT64_MAX / 4)
      span = INT64_MAX / 4;
    if (strides.empty())
      inside = free ? inside : span;
    else
      inside = std::max(inside, span);
  }
}

std::vector<int64_t> EffectiveStrides(const TensorView& view) {
  std::vector<int64_t> steps(view.dims.size());
  StepsOf(DTypeBytes(view.dtype), view.dims, view.strides, steps.data());
  return steps;
}

TensorFacts FactsOf(int bytes, DeviceAddress data, std::span<const int64_t> dims,
                    std::span<const int64_t> steps) {
  TensorFacts facts;
  facts.base_align_bytes = PowerOfTwoPart(data);
  bytes = std::max(1, bytes);
  if (!dims.empty()) facts.last_dim_align = PowerOfTwoPart(static_cast<uint64_t>(dims.back()));
  for (size_t i = 0; i < steps.size(); ++i) {
    if (dims[i] <= 1) continue;
    if (i + 1 == steps.size()) {
      facts.last_contiguous = steps[i] == 1;
      continue;
    }
    const bool odd = steps[i] <= 0 || steps[i] >= (int64_t{1} << 40) / bytes;
    const int align = odd ? 1 : PowerOfTwoPart(static_cast<uint64_t>(steps[i] * bytes));
    facts.stride_align_bytes = std::min(facts.stride_align_bytes, align);
  }
  return facts;
}

TensorFacts FactsOf(const TensorView& view) {
  return FactsOf(DTypeBytes(view.dtype), view.data, view.dims, EffectiveStrides(view));
}

Result<Bindings> BindArguments(const SignatureView& signature, const LaunchArgs& args,
                               DiagSink& diags) {
  return Binder(signature, args, diags).Run();
}

}  // namespace tilec::runtime
