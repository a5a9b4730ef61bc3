// SPDX-License-Identifier: Apache-2.0
#include "runtime/quick_plan.h"

#include <algorithm>

#include "runtime/plan_parts.h"
#include "support/apply_op.h"

namespace tilec::runtime {

namespace {

using backend::EntryParam;
using backend::KernelImage;
using backend::TensorArg;

constexpr size_t kDeepest = 24;  // values of an expression that wait for an operator
constexpr size_t kMostDims = 8;

int PlaceIn(const std::vector<TensorArg>& tensors, const std::string& name) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return static_cast<int>(i);
  return -1;
}

int64_t Elements(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

}  // namespace

QuickPlanner::QuickPlanner(const KernelImage& image) : image_(image) {
  for (const auto& [name, value] : image.statics) {
    const int slot = SlotOf(name);
    at_first_[static_cast<size_t>(slot)] = {value, true};
  }
  for (const TensorArg& t : image.tensors) tensors_.push_back(Number(t));
  for (const backend::ScalarArg& s : image.scalars) scalars_.push_back(SlotOf(s.name));
  for (const TensorArg& t : image.work) work_.push_back(Number(t));
  for (const backend::Fact& f : image.facts) facts_.push_back(Compile(f.condition));
  for (int i = 0; i < 3; ++i) grid_[i] = Compile(image.grid[i]);
  for (const backend::AlignmentFact& a : image.alignment) alignment_.push_back(PlaceOf(a.tensor));
  for (const backend::TensorMapRecipe& r : image.tensor_maps) {
    Map map;
    map.place = PlaceOf(r.tensor);
    map.bytes = std::max(1, DTypeBytes(r.dtype));
    const int input = PlaceIn(image.tensors, r.tensor);
    const bool reads = input >= 0 && image.tensors[static_cast<size_t>(input)].direction ==
                                         backend::Direction::kIn;
    map.scratch = reads ? 0 : kScratchHalf;
    for (const Expr& e : r.dims) map.dims.push_back(Compile(e));
    for (const Expr& e : r.strides_bytes) map.strides.push_back(Compile(e));
    usable_ = usable_ && map.place >= 0;
    usable_ = usable_ && !r.dims.empty() && r.dims.size() <= 5;
    for (const uint32_t b : BoxOf(r)) usable_ = usable_ && b >= 1 && b <= kMaxTmaBox;
    maps_.push_back(std::move(map));
  }
  for (const EntryParam& p : image.params) {
    Param param;
    if (p.kind == EntryParam::Kind::kTensorPointer) param.place = PlaceOf(p.name);
    if (p.kind == EntryParam::Kind::kTensorMap)
      param.place = p.map < static_cast<int>(maps_.size()) ? p.map : -1;
    if (p.kind == EntryParam::Kind::kInt) param.place = 0, param.value = Compile(p.value);
    if (p.kind == EntryParam::Kind::kScalar)
      for (size_t i = 0; i < image.scalars.size(); ++i)
        if (image.scalars[i].name == p.name) param.place = static_cast<int>(i);
    usable_ = usable_ && param.place >= 0;
    params_.push_back(param);
  }
  for (const int place : alignment_) usable_ = usable_ && place >= 0;
  usable_ = usable_ && image.block <= kMaxBlock;
  data_.resize(image.tensors.size() + image.work.size());
  elements_.resize(data_.size());
}

int QuickPlanner::SlotOf(const std::string& name) {
  const auto [at, fresh] = numbers_.emplace(name, static_cast<int>(at_first_.size()));
  if (fresh) at_first_.push_back({});
  return at->second;
}

QuickPlanner::Code QuickPlanner::Compile(const Expr& e) {
  Code code;
  code.first = static_cast<uint32_t>(steps_.size());
  Append(e, 1);
  code.count = static_cast<uint32_t>(steps_.size()) - code.first;
  return code;
}

void QuickPlanner::Append(const Expr& e, size_t depth) {
  usable_ = usable_ && depth <= kDeepest;
  for (size_t i = 0; i < e.args.size(); ++i) Append(e.args[i], depth + i);
  steps_.push_back({e.op, e.op == Expr::Op::kName ? SlotOf(e.name) : -1, e.value});
}

// The work first, as PlanLaunch looks for it.
int QuickPlanner::PlaceOf(const std::string& tensor) const {
  if (const int i = PlaceIn(image_.work, tensor); i >= 0)
    return static_cast<int>(image_.tensors.size()) + i;
  return PlaceIn(image_.tensors, tensor);
}

QuickPlanner::Tensor QuickPlanner::Number(const TensorArg& arg) {
  Tensor t;
  t.bytes = DTypeBytes(arg.dtype);
  usable_ = usable_ && arg.dims.size() <= kMostDims;
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    const Expr& e = arg.dims[i];
    const bool named = e.op == Expr::Op::kName;
    t.names.push_back(named ? SlotOf(e.name) : -1);
    t.dims.push_back(Compile(e));
    t.steps.push_back(SlotOf(StrideName(arg.name, i)));
    t.wide.push_back(IsWideDim(e, image_.wide));
  }
  return t;
}

bool QuickPlanner::Bind(int32_t slot, int64_t value) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.bound) return s.value == value;
  s = {value, true};
  return true;
}

bool QuickPlanner::Value(Code code, bool exact, int64_t* value) const {
  int64_t waiting[kDeepest + 2];
  size_t top = 0;
  for (uint32_t i = code.first; i < code.first + code.count; ++i) {
    const Step& step = steps_[i];
    if (step.op == Expr::Op::kConst) {
      waiting[top++] = step.value;
    } else if (step.op == Expr::Op::kName) {
      const Slot& s = slots_[static_cast<size_t>(step.slot)];
      if (!s.bound) return false;
      waiting[top++] = s.value;
    } else if (step.op == Expr::Op::kNot) {
      waiting[top - 1] = waiting[top - 1] == 0;
    } else {
      const int64_t b = waiting[--top], a = waiting[top - 1];
      const std::optional<int64_t> r = ApplyOp(step.op, a, b);
      if (!r || (exact && step.op == Expr::Op::kDiv && FloorMod(a, b) != 0)) return false;
      waiting[top - 1] = *r;
    }
  }
  *value = waiting[0];
  return true;
}

bool QuickPlanner::BindTensor(size_t i, const GivenTensor& given) {
  const TensorArg& arg = image_.tensors[i];
  const Tensor& t = tensors_[i];
  const size_t rank = given.dims.size();
  if (rank != arg.dims.size() || given.steps.size() != rank ||
      !AcceptsDType(arg.dtype, given.dtype))
    return false;
  if (!given.strides.empty() && given.strides.size() != rank) return false;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t extent = given.dims[d];
    if (extent < 0 || (extent > INT32_MAX && !t.wide[d])) return false;
    if (!given.strides.empty() &&
        (given.strides[d] < 0 || Overlaps(extent, given.strides[d], arg.direction)))
      return false;
    if (t.names[d] >= 0 && !Bind(t.names[d], extent)) return false;
  }
  if (rank > 0 && !LiesDense(arg, given.dims.back(), given.steps.back())) return false;
  for (size_t d = 0; d < rank; ++d) Set(t.steps[d], given.steps[d]);
  data_[i] = given.data;
  elements_[i] = Elements(given.dims);
  return given.data != 0 || elements_[i] == 0;
}

bool QuickPlanner::CheckDims(size_t i, const GivenTensor& given) const {
  const Tensor& t = tensors_[i];
  for (size_t d = 0; d < t.dims.size(); ++d) {
    int64_t extent = 0;
    if (t.names[d] < 0 && !(Value(t.dims[d], true, &extent) && extent == given.dims[d]))
      return false;
  }
  return true;
}

bool QuickPlanner::PlanWork() {
  for (size_t i = 0; i < work_.size(); ++i) {
    const Tensor& t = work_[i];
    int64_t dims[kMostDims], some[kMostDims], steps[kMostDims];
    const size_t rank = t.dims.size();
    for (size_t d = 0; d < rank; ++d) {
      if (!Value(t.dims[d], false, &dims[d])) return false;
      dims[d] = std::max<int64_t>(0, dims[d]);
      some[d] = std::max<int64_t>(1, dims[d]);
    }
    StepsOf(t.bytes, {some, rank}, {}, steps);
    for (size_t d = 0; d < rank; ++d) Set(t.steps[d], steps[d]);
    plan_.work_at.push_back(plan_.work_bytes);
    const size_t place = tensors_.size() + i;
    elements_[place] = Elements({dims, rank});
    const auto bytes = static_cast<uint64_t>(elements_[place] * t.bytes);
    plan_.work_bytes += (bytes + kWorkAlign - 1) / kWorkAlign * kWorkAlign;
  }
  return true;
}

bool QuickPlanner::PlanGrid() {
  for (int i = 0; i < 3; ++i) {
    int64_t g = 0;
    if (!Value(grid_[i], false, &g) || g > kMaxGrid[i]) return false;
    if (g <= 0) plan_.nothing_to_do = true;
    plan_.config.grid[i] = static_cast<uint32_t>(std::max<int64_t>(g, 0));
    plan_.config.cluster[i] = static_cast<uint32_t>(image_.cluster[i]);
  }
  plan_.config.block[0] = static_cast<uint32_t>(image_.block);
  plan_.config.smem_bytes = static_cast<uint64_t>(image_.smem_bytes);
  plan_.config.dependent = image_.dependent_launch;
  plan_.config.dependent_if_full = image_.dependent_if_full;
  return true;
}

bool QuickPlanner::Begin(const GivenLaunch& given) {
  if (!usable_ || given.tensors.size() != tensors_.size() ||
      given.scalars.size() != scalars_.size())
    return false;
  given_ = &given;
  slots_ = at_first_;
  plan_ = {};
  for (const GivenDim& dim : given.dims) {
    const auto at = numbers_.find(dim.name);
    if (at == numbers_.end() || !Bind(at->second, dim.size)) return false;
  }
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!BindTensor(i, given.tensors[i])) return false;
  for (size_t i = 0; i < scalars_.size(); ++i)
    if (const auto* whole = std::get_if<int64_t>(&given.scalars[i])) Set(scalars_[i], *whole);
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!CheckDims(i, given.tensors[i])) return false;
  if (!PlanWork()) return false;
  for (const Code fact : facts_) {
    int64_t holds = 0;
    if (!Value(fact, false, &holds) || holds == 0) return false;
  }
  return PlanGrid();
}

bool QuickPlanner::PlanMap(const Map& map, const backend::TensorMapRecipe& recipe,
                           TensorMapDesc* desc) const {
  const auto place = static_cast<size_t>(map.place);
  const bool empty = elements_[place] == 0;
  desc->dtype = recipe.dtype;
  desc->base = data_[place];
  desc->swizzle_bytes = recipe.swizzle_bytes;
  desc->l2_promotion_bytes = kTmaPromotion;
  desc->box = BoxOf(recipe);
  desc->element_strides.assign(recipe.steps.begin(), recipe.steps.end());
  desc->dims.reserve(map.dims.size());
  desc->strides_bytes.reserve(map.strides.size());
  for (const Code dim : map.dims) {
    int64_t d = 0;
    if (!Value(dim, false, &d)) return false;
    if (!empty && (d < 1 || static_cast<uint64_t>(d) > kMaxTmaExtent)) return false;
    desc->dims.push_back(empty ? 1 : static_cast<uint64_t>(d));
  }
  for (const Code stride : map.strides) {
    int64_t s = 0;
    if (!Value(stride, false, &s)) return false;
    if (!empty && (s <= 0 || s % kTmaAlign != 0 || static_cast<uint64_t>(s) >= kMaxTmaStride))
      return false;
    desc->strides_bytes.push_back(static_cast<uint64_t>(empty ? kTmaAlign * map.bytes : s));
  }
  return empty || data_[place] % kTmaAlign == 0;
}

bool QuickPlanner::Pack(const EntryParam& param, size_t i, KernelArg* arg) const {
  const auto place = static_cast<size_t>(params_[i].place);
  switch (param.kind) {
    case EntryParam::Kind::kTensorPointer: *arg = KernelArg::Of(data_[place]); return true;
    case EntryParam::Kind::kTensorMap: arg->bytes.assign(sizeof(TensorMap), 0); return true;
    case EntryParam::Kind::kInt: {
      int64_t value = 0;
      if (!Value(params_[i].value, false, &value)) return false;
      *arg = KernelArg::Of(value);
      return true;
    }
    case EntryParam::Kind::kScalar: return PackScalar(given_->scalars[place], param.dtype, arg);
  }
  return false;
}

bool QuickPlanner::Finish(DeviceAddress work, LaunchPlan* plan) {
  for (size_t i = 0; i < work_.size(); ++i) data_[tensors_.size() + i] = work + plan_.work_at[i];
  for (size_t i = 0; i < alignment_.size(); ++i) {
    const auto place = static_cast<size_t>(alignment_[i]);
    const int base = image_.alignment[i].base_bytes;
    if (base > 1 && data_[place] % static_cast<uint64_t>(base) != 0 && elements_[place] != 0)
      return false;
  }
  plan_.elements.assign(elements_.begin(),
                        elements_.begin() + static_cast<std::ptrdiff_t>(tensors_.size()));
  plan_.maps.resize(maps_.size());
  plan_.scratch_offset.resize(maps_.size());
  for (size_t i = 0; i < maps_.size(); ++i) {
    if (!PlanMap(maps_[i], image_.tensor_maps[i], &plan_.maps[i])) return false;
    const bool empty = elements_[static_cast<size_t>(maps_[i].place)] == 0;
    plan_.scratch_offset[i] = empty ? maps_[i].scratch : -1;
  }
  plan_.args.resize(params_.size());
  for (size_t i = 0; i < params_.size(); ++i)
    if (!Pack(image_.params[i], i, &plan_.args[i])) return false;
  *plan = std::move(plan_);
  return true;
}

}  // namespace tilec::runtime
