// Planning a launch by the names of its arguments: what every dim is, which facts hold, the grid,
// the tensor maps, the parameters. What is wrong is said here; quick_plan.cc plans the same by
// places.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/diagnostics.h"
#include "runtime/launch.h"
#include "runtime/plan_parts.h"

namespace tilec::runtime {

namespace {

using backend::EntryParam;
using backend::KernelImage;

constexpr const char* kAxis[3] = {"x", "y", "z"};

template <typename T>
void Append(KernelArg& arg, T v) {
  arg = KernelArg::Of(v);
}

class Planner {
 public:
  Planner(const KernelImage& image, const LaunchArgs& args, DeviceAddress work, DiagSink& diags)
      : image_(image), args_(args), diags_(diags), errors_before_(diags.errors()), at_(work) {}

  Result<LaunchPlan> Run() {
    const SignatureView signature{image_.name, &image_.tensors, &image_.scalars, &image_.statics,
                                  &image_.wide};
    TRY(names_, BindArguments(signature, args_, diags_));
    for (const backend::TensorArg& t : image_.work) PlanWork(t);
    CheckStorage();
    CheckFacts();
    PlanConfig();
    for (const backend::TensorMapRecipe& r : image_.tensor_maps) PlanMap(r);
    for (const EntryParam& p : image_.params) plan_.args.push_back(Pack(p));
    if (diags_.errors() > errors_before_) return DiagSink::Propagate();
    return std::move(plan_);
  }

 private:
  template <typename... A>
  DiagBuilder Error(const DiagDef& def, const A&... a) {
    return diags_.Report(def, Span{}, a...).Place(fmt::format("launch of `{}`", image_.name));
  }

  std::string Values(const Expr& e) const {
    std::string out;
    for (const std::string& n : NamesIn(e))
      if (const auto at = names_.find(n); at != names_.end())
        out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", n, at->second);
    return out;
  }

  // `what` gives the words for it, should it have no value.
  template <typename What>
  int64_t Value(const Expr& e, const What& what) {
    std::string missing;
    const auto v = Eval(e, names_, &missing);
    if (v) return *v;
    Error(kExprUndefined, ToText(e), what(),
          missing.empty() ? Values(e) : fmt::format("`{}` has no value", missing));
    return 0;
  }

  const TensorView& View(const std::string& tensor) const {
    const auto work = work_.find(tensor);
    return work != work_.end() ? work->second : args_.tensors.at(tensor);
  }

  // Dense, one behind the other. One without elements has the strides of one that has some: what
  // was compiled for is said of those.
  void PlanWork(const backend::TensorArg& t) {
    TensorView& view = work_[t.name];
    view.dtype = t.dtype;
    for (const Expr& dim : t.dims)
      view.dims.push_back(
          std::max<int64_t>(0, Value(dim, [&] { return fmt::format("a dim of `{}`", t.name); })));
    TensorView some = view;
    for (int64_t& dim : some.dims) dim = std::max<int64_t>(1, dim);
    const std::vector<int64_t> strides = EffectiveStrides(some);
    for (size_t d = 0; d < strides.size(); ++d) names_[StrideName(t.name, d)] = strides[d];
    plan_.work_at.push_back(plan_.work_bytes);
    view.data = at_ + plan_.work_bytes;
    const auto bytes = static_cast<uint64_t>(ElementCount(view) * DTypeBytes(t.dtype));
    plan_.work_bytes += (bytes + kWorkAlign - 1) / kWorkAlign * kWorkAlign;
  }

  void CheckStorage() {
    for (const backend::TensorArg& t : image_.tensors) {
      const TensorView& v = View(t.name);
      plan_.elements.push_back(ElementCount(v));
      if (v.data == 0 && ElementCount(v) != 0) Error(kNullTensor, t.name, ElementCount(v));
    }
    for (const backend::AlignmentFact& a : image_.alignment) {
      const TensorView& v = View(a.tensor);
      if (a.base_bytes > 1 && v.data % static_cast<uint64_t>(a.base_bytes) != 0 &&
          ElementCount(v) != 0)
        Error(kMisaligned, a.tensor, v.data, a.base_bytes);
    }
  }

  void CheckFacts() {
    for (const backend::Fact& f : image_.facts) {
      std::string missing;
      const auto v = Eval(f.condition, names_, &missing);
      if (v && *v != 0) continue;
      DiagBuilder d = Error(kFactViolated, image_.name, f.text);
      if (!missing.empty())
        d.Note(fmt::format("`{}` has no value", missing));
      else if (const std::string values = Values(f.condition); !values.empty())
        d.Note(values);
    }
  }

  void PlanConfig() {
    for (int i = 0; i < 3; ++i) {
      const int64_t g =
          Value(image_.grid[i], [&] { return fmt::format("grid size along {}", kAxis[i]); });
      if (g > kMaxGrid[i]) Error(kGridTooLarge, image_.name, g, kAxis[i], kMaxGrid[i]);
      if (g <= 0) plan_.nothing_to_do = true;
      plan_.config.grid[i] = static_cast<uint32_t>(std::clamp<int64_t>(g, 0, kMaxGrid[i]));
      plan_.config.cluster[i] = static_cast<uint32_t>(image_.cluster[i]);
    }
    if (image_.block > kMaxBlock) Error(kBlockTooLarge, image_.name, image_.block);
    plan_.config.block[0] = static_cast<uint32_t>(image_.block);
    plan_.config.smem_bytes = static_cast<uint64_t>(image_.smem_bytes);
    plan_.config.dependent = image_.dependent_launch;
    plan_.config.dependent_if_full = image_.dependent_if_full;
  }

  bool IsInput(const std::string& tensor) const {
    for (const backend::TensorArg& t : image_.tensors)
      if (t.name == tensor) return t.direction == backend::Direction::kIn;
    return false;
  }

  void TmaError(const std::string& tensor, const std::string& why) {
    Error(kTmaLimit, tensor, why);
  }

  void PlanMap(const backend::TensorMapRecipe& r) {
    TensorMapDesc desc;
    desc.dtype = r.dtype;
    const TensorView& v = View(r.tensor);
    const int bytes = std::max(1, DTypeBytes(r.dtype));
    const bool empty = ElementCount(v) == 0;
    desc.base = v.data;
    desc.swizzle_bytes = r.swizzle_bytes;
    desc.l2_promotion_bytes = kTmaPromotion;
    desc.box = BoxOf(r);
    desc.element_strides.assign(r.steps.begin(), r.steps.end());
    if (r.dims.empty() || r.dims.size() > 5)
      TmaError(r.tensor, fmt::format("{} dims, 1 to 5 fit", r.dims.size()));
    for (size_t i = 0; i < r.dims.size(); ++i) {
      const int64_t d =
          Value(r.dims[i], [&] { return fmt::format("extent {} of the tensor map", i); });
      if (!empty && (d < 1 || static_cast<uint64_t>(d) > kMaxTmaExtent))
        TmaError(r.tensor, fmt::format("extent {} is {}, 1 to {} fit", i, d, kMaxTmaExtent));
      desc.dims.push_back(empty ? 1 : static_cast<uint64_t>(std::max<int64_t>(1, d)));
    }
    for (size_t i = 0; i < r.strides_bytes.size(); ++i) {
      const int64_t s =
          Value(r.strides_bytes[i], [&] { return fmt::format("stride {} of the tensor map", i); });
      if (!empty && (s <= 0 || s % 16 != 0))
        TmaError(r.tensor,
                 fmt::format("stride {} is {} bytes, not a positive multiple of 16", i, s));
      else if (!empty && static_cast<uint64_t>(s) >= kMaxTmaStride)
        TmaError(r.tensor,
                 fmt::format("stride {} is {} bytes, at most {} fit", i, s, kMaxTmaStride - 16));
      desc.strides_bytes.push_back(empty ? 16 * static_cast<uint64_t>(bytes)
                                         : static_cast<uint64_t>(s));
    }
    for (size_t i = 0; i < desc.box.size(); ++i)
      if (desc.box[i] < 1 || desc.box[i] > 256)
        TmaError(r.tensor, fmt::format("box extent {} is {}, 1 to 256 fit", i, desc.box[i]));
    if (!empty && v.data % 16 != 0)
      TmaError(r.tensor, fmt::format("it starts at {:#x}, not at a multiple of 16", v.data));
    plan_.maps.push_back(std::move(desc));
    plan_.scratch_offset.push_back(!empty ? -1 : IsInput(r.tensor) ? 0 : kScratchHalf);
  }

  KernelArg Pack(const EntryParam& p) {
    KernelArg arg;
    switch (p.kind) {
      case EntryParam::Kind::kTensorPointer: Append(arg, View(p.name).data); break;
      case EntryParam::Kind::kTensorMap: arg.bytes.assign(sizeof(TensorMap), 0); break;
      case EntryParam::Kind::kInt:
        Append(arg, Value(p.value, [] { return "a kernel argument"; }));
        break;
      case EntryParam::Kind::kScalar: PackArgument(arg, p); break;
    }
    return arg;
  }

  void PackArgument(KernelArg& arg, const EntryParam& p) {
    const ScalarValue& value = args_.scalars.at(p.name);
    if (PackScalar(value, p.dtype, &arg)) return;
    const auto* whole = std::get_if<int64_t>(&value);
    Error(kScalarValue, p.name,
          whole ? fmt::format("{}", *whole) : fmt::format("{}", std::get<double>(value)), p.dtype);
  }

  const KernelImage& image_;
  const LaunchArgs& args_;
  DiagSink& diags_;
  int errors_before_;
  const DeviceAddress at_;  // where the work begins
  std::map<std::string, TensorView> work_;
  Bindings names_;
  LaunchPlan plan_;
};

}  // namespace

Result<LaunchPlan> PlanLaunch(const KernelImage& image, const LaunchArgs& args, DiagSink& diags,
                              DeviceAddress work) {
  return Planner(image, args, work, diags).Run();
}

}  // namespace tilec::runtime
