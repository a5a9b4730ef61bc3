// SPDX-License-Identifier: Apache-2.0
#include "api/size_ranges.h"

#include <limits>
#include <set>
#include <utility>

#include "api/diagnostics.h"
#include "api/size_classes.h"

namespace tilec::api {

namespace {

using frontend::ParamInfo;
using frontend::Signature;

// Rows begin at multiples of up to so many bytes, as far as anybody asks.
constexpr int64_t kAlignments = scheduler::kLineBytes;

class Ranges {
 public:
  Ranges(const Signature& signature, const Args& args, const std::vector<SizeRange>& ranges,
         DiagSink& diags)
      : signature_(signature), args_(args), ranges_(ranges), diags_(diags) {}

  Result<std::vector<Args>> Run() {
    for (const SizeRange& range : ranges_) TRY_VOID(Check(range));
    ReadNames();
    TRY_VOID(Choose(0));
    return std::move(out_);
  }

 private:
  DiagBuilder Error(const std::string& why) {
    return diags_.Report(kRangeUnusable, Span{}, signature_.kernel, why);
  }

  Result<> Check(const SizeRange& range) {
    if (range.dims.empty()) return Error("it names no dim");
    if (range.first < 0 || range.last < range.first)
      return Error(
          fmt::format("{} … {} of `{}` has no sizes", range.first, range.last, range.dims.front()));
    for (const std::string& dim : range.dims) {
      if (signature_.dim(dim) == nullptr)
        return Error(fmt::format("`{}` is none of its dims", dim));
      if (signature_.TakesValue(dim, std::numeric_limits<int64_t>::max()))
        return Error(fmt::format("`{}` is compiled in, each of its values is a class", dim));
      if (!ranged_.insert(dim).second) return Error(fmt::format("`{}` has two ranges", dim));
    }
    return Done();
  }

  // What the tensors say of dims that have no range, and the values.
  void ReadNames() {
    for (const auto& [name, value] : args_.values())
      if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
    for (const ParamInfo& p : signature_.params) {
      const auto at = args_.tensors().find(p.name);
      if (at == args_.tensors().end() || at->second.dims.size() != p.dims.size()) continue;
      for (size_t d = 0; d < p.dims.size(); ++d)
        if (p.dims[d].op == Expr::Op::kName) names_.emplace(p.dims[d].name, at->second.dims[d]);
    }
  }

  // Is a ranged dim of range `r` only the outermost of tensors? Then it moves no row.
  bool MovesRows(const SizeRange& range) const {
    const auto mentions = [&](const Expr& e) {
      for (const std::string& name : NamesIn(e))
        for (const std::string& dim : range.dims)
          if (name == dim) return true;
      return false;
    };
    for (const ParamInfo& p : signature_.params)
      for (size_t d = p.dims.size() > 1 ? 1 : 0; d < p.dims.size(); ++d)
        if (mentions(p.dims[d])) return true;
    return false;
  }

  Result<> Choose(size_t r) {
    if (r == ranges_.size()) return Add();
    const SizeRange& range = ranges_[r];
    const int64_t alignments = MovesRows(range) ? kAlignments : 1;
    for (const int64_t size : MembersOf(range.first, range.last, alignments)) {
      for (const std::string& dim : range.dims) names_[dim] = size;
      TRY_VOID(Choose(r + 1));
    }
    return Done();
  }

  // With the sizes that `names_` has now, unless that is a class that is there already.
  Result<> Add() {
    Args args = args_;
    std::string key;
    for (const std::string& dim : ranged_)
      key += fmt::format("{}={} ", dim, ClassOf(names_.at(dim)));
    for (const ParamInfo& p : signature_.params) {
      const auto at = args_.tensors().find(p.name);
      if (at == args_.tensors().end()) continue;
      Tensor tensor = at->second;
      for (size_t d = 0; d < p.dims.size() && d < tensor.dims.size(); ++d)
        if (const auto size = Eval(p.dims[d], names_)) tensor.dims[d] = *size;
      const runtime::TensorView view{Name(tensor.dtype), tensor.data, tensor.dims, tensor.strides};
      const runtime::TensorFacts f = runtime::FactsOf(view);
      key += fmt::format("{} {} {} {} {} ", f.base_align_bytes, f.stride_align_bytes,
                         f.last_dim_align, f.last_contiguous, RowStart(view, p.dtype));
      args.Set(p.name, std::move(tensor));
    }
    for (const std::string& dim : ranged_)
      if (args_.values().count(dim) > 0) args.Set(dim, names_.at(dim));
    if (seen_.insert(std::move(key)).second) out_.push_back(std::move(args));
    return Done();
  }

  const Signature& signature_;
  const Args& args_;
  const std::vector<SizeRange>& ranges_;
  DiagSink& diags_;
  std::set<std::string> ranged_, seen_;
  Bindings names_;
  std::vector<Args> out_;
};

}  // namespace

Result<std::vector<Args>> ArgsOfRanges(const Signature& signature, const Args& args,
                                       const std::vector<SizeRange>& ranges, DiagSink& diags) {
  return Ranges(signature, args, ranges, diags).Run();
}

}  // namespace tilec::api
