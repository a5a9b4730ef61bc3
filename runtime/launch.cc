// The loaded kernel: it keeps plans of launches, their tensor maps and the memory between its
// launches, and puts them on a stream.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/diagnostics.h"
#include "runtime/plan_parts.h"
#include "runtime/quick_plan.h"

namespace tilec::runtime {

namespace {

using backend::EntryParam;
using backend::KernelImage;

constexpr size_t kKeptMaps = 256;  // per loaded kernel
constexpr std::ptrdiff_t kSpareWork = 2;

}  // namespace

// A tensor map by numbers of its description: all of them, each kind as many as its count says.
struct LoadedKernel::KeptMap {
  // Dtype, base, swizzle, rank; dims, strides, boxes (and their steps) of up to five.
  std::array<uint64_t, 4 + 5 + 4 + 5> of = {};
  TensorMap map;
};

LoadedKernel::LoadedKernel(Device& device, KernelImage image)
    : device_(device), image_(std::move(image)), quick_(std::make_unique<QuickPlanner>(image_)) {}

LoadedKernel::~LoadedKernel() {
  if (scratch_ != 0) device_.Free(scratch_);
  for (const DeviceAddress work : all_work_) device_.Free(work);
}

Result<std::unique_ptr<LoadedKernel>> LoadedKernel::Load(Device& device, KernelImage image,
                                                         DiagSink& diags, std::string_view cubin,
                                                         std::span<const std::string> before) {
  std::unique_ptr<LoadedKernel> kernel(new LoadedKernel(device, std::move(image)));
  const KernelImage& loaded = kernel->image_;
  const std::string isa = device.isa();
  if (!loaded.target.empty() && loaded.target.back() == 'a' && loaded.target != isa)
    return diags.Report(kWrongTarget, Span{}, loaded.name, loaded.target,
                        fmt::format("{} ({})", isa, device.description()));
  for (size_t i = 0; i < loaded.before.size(); ++i) {
    TRY(std::unique_ptr<LoadedKernel> first,
        Load(device, loaded.before[i], diags, i < before.size() ? before[i] : std::string_view()));
    kernel->before_.push_back(std::move(first));
  }
  LoadOptions options;
  options.name = loaded.name + ".ptx";
  options.cubin = cubin;
  for (const backend::SourceLine& l : loaded.lines)
    options.lines.push_back({l.ptx_line, l.file.empty()
                                             ? ""
                                             : fmt::format("{}:{}:{}{}", l.file, l.line, l.column,
                                                           l.op.empty() ? "" : " (" + l.op + ")")});
  for (const backend::RoleRange& r : loaded.roles)
    options.roles.push_back(
        {r.name, static_cast<uint32_t>(r.first_warp), static_cast<uint32_t>(r.warps)});
  for (const backend::SharedObject& s : loaded.shared)
    options.shared.push_back({s.name, static_cast<uint64_t>(s.offset),
                              static_cast<uint64_t>(s.bytes), static_cast<uint64_t>(s.slots)});
  TRY(kernel->module_, device.Load(loaded.ptx, options, diags));
  const std::vector<std::string> entries = kernel->module_->entries();
  if (std::find(entries.begin(), entries.end(), loaded.entry) == entries.end())
    return diags.Report(kUnknownEntry, Span{}, options.name, loaded.entry);
  return kernel;
}

// Nearly all that is asked for is there or was never seen, so each has one place of its own: who
// comes to it later takes it.
Result<TensorMap> LoadedKernel::MapFor(const TensorMapDesc& d, DiagSink& diags) {
  decltype(KeptMap::of) of = {};
  const size_t rank = d.dims.size();
  if (d.dtype.size() > sizeof of[0] || rank > 5 || d.strides_bytes.size() > 4 || d.box.size() > 5)
    return device_.EncodeTensorMap(d, diags);
  std::memcpy(of.data(), d.dtype.data(), d.dtype.size());
  of[1] = d.base;
  of[2] = static_cast<uint64_t>(d.swizzle_bytes);
  of[3] = rank << 16 | d.strides_bytes.size() << 8 | d.box.size();
  std::copy(d.dims.begin(), d.dims.end(), &of[4]);
  std::copy(d.strides_bytes.begin(), d.strides_bytes.end(), &of[9]);
  std::copy(d.box.begin(), d.box.end(), &of[13]);
  for (size_t i = 0; i < d.element_strides.size() && i < 5; ++i)
    of[13 + i] |= uint64_t{d.element_strides[i]} << 32;
  uint64_t hash = 0;
  for (const uint64_t v : of) {
    hash = (hash ^ v) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  if (maps_.empty()) maps_.resize(kKeptMaps);
  KeptMap& kept = maps_[hash % kKeptMaps];
  if (kept.of != of) {
    TRY(kept.map, device_.EncodeTensorMap(d, diags));
    kept.of = of;
  }
  return kept.map;
}

Result<> LoadedKernel::EncodeMaps(LaunchPlan& plan, DiagSink& diags) {
  size_t index = 0;
  for (const EntryParam& p : image_.params) {
    KernelArg& arg = plan.args[index++];
    if (p.kind != EntryParam::Kind::kTensorMap) continue;
    TensorMapDesc& desc = plan.maps.at(static_cast<size_t>(p.map));
    const int offset = plan.scratch_offset.at(static_cast<size_t>(p.map));
    if (offset >= 0) {
      // No element may be seen, and a map cannot be empty: one zero stands for the tensor.
      if (scratch_ == 0) {
        TRY(scratch_, device_.Alloc(2 * kScratchHalf, diags));
        TRY_VOID(device_.Fill(scratch_, 0, 2 * kScratchHalf, diags));
      }
      desc.base = scratch_ + static_cast<uint64_t>(offset);
    }
    TRY(const TensorMap map, MapFor(desc, diags));
    std::memcpy(arg.bytes.data(), map.bytes, sizeof map.bytes);
  }
  return Done();
}

// For the launch and for those of two other streams, should they come.
Result<> LoadedKernel::ReserveWork(uint64_t bytes, Ready* ready, DiagSink& diags) {
  TRY(ready->work, WorkOf(0, bytes, diags));
  const auto fits = [&](const Work& spare) { return spare.bytes >= bytes; };
  while (std::count_if(spare_work_.begin(), spare_work_.end(), fits) < kSpareWork) {
    TRY(const Work spare, NewWork(bytes, diags));
    spare_work_.push_back(spare);
  }
  ready->elsewhere = std::make_shared<Ready::Elsewhere>();
  return Done();
}

Result<std::shared_ptr<const LoadedKernel::Ready>> LoadedKernel::Prepare(LaunchArgs args,
                                                                         DiagSink& diags) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (last_ && last_args_ == args) return last_;
  auto ready = std::make_shared<Ready>();
  TRY(LaunchPlan plan, PlanLaunch(image_, args, diags));
  if (plan.work_bytes > 0 && !plan.nothing_to_do) {
    TRY_VOID(ReserveWork(plan.work_bytes, ready.get(), diags));
    TRY(plan, PlanLaunch(image_, args, diags, ready->work));
    for (const backend::TensorArg& t : image_.tensors)
      ready->addresses.push_back(args.tensors.at(t.name).data);
    for (const auto& first : before_) {
      TRY(LaunchPlan of, PlanLaunch(first->image_, args, diags, ready->work));
      TRY_VOID(first->EncodeMaps(of, diags));
      Ready& made = ready->before.emplace_back();
      made.work = ready->work;
      made.args = std::move(of.args);
      made.plan = std::make_shared<const LaunchPlan>(std::move(of));
    }
  }
  if (!plan.nothing_to_do) TRY_VOID(EncodeMaps(plan, diags));
  ready->args = std::move(plan.args);
  ready->plan = std::make_shared<const LaunchPlan>(std::move(plan));
  last_ = ready;
  last_args_ = std::move(args);
  return std::shared_ptr<const Ready>(std::move(ready));
}

Result<std::shared_ptr<const LoadedKernel::Ready>> LoadedKernel::Prepare(const GivenLaunch& given,
                                                                         DiagSink& diags) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<const Ready> none;
  if (!quick_->Begin(given)) return none;
  auto ready = std::make_shared<Ready>();
  if (quick_->work_bytes() > 0 && !quick_->nothing_to_do()) {
    TRY_VOID(ReserveWork(quick_->work_bytes(), ready.get(), diags));
    for (const GivenTensor& t : given.tensors) ready->addresses.push_back(t.data);
    ready->before.reserve(before_.size());
    for (const auto& first : before_) {
      auto of = std::make_shared<LaunchPlan>();
      if (!first->quick_->Begin(given) || !first->quick_->Finish(ready->work, of.get()))
        return none;
      TRY_VOID(first->EncodeMaps(*of, diags));
      Ready& made = ready->before.emplace_back();
      made.work = ready->work;
      made.args = std::move(of->args);
      made.plan = std::move(of);
    }
  }
  auto plan = std::make_shared<LaunchPlan>();
  if (!quick_->Finish(ready->work, plan.get())) return none;
  if (!plan->nothing_to_do) TRY_VOID(EncodeMaps(*plan, diags));
  ready->args = std::move(plan->args);
  ready->plan = std::move(plan);
  return std::shared_ptr<const Ready>(std::move(ready));
}

Result<> LoadedKernel::CheckAddresses(const LaunchPlan& plan,
                                      std::span<const DeviceAddress> addresses,
                                      DiagSink& diags) const {
  const int before = diags.errors();
  const auto error = [&](const DiagDef& def, const auto&... a) {
    diags.Report(def, Span{}, a...).Place(fmt::format("launch of `{}`", image_.name));
  };
  if (addresses.size() != image_.tensors.size())
    return error(kAddressCount, image_.name, image_.tensors.size(), addresses.size()),
           DiagSink::Propagate();
  // 0 of a tensor without elements, which lies anywhere
  const auto address = [&](const std::string& tensor) {
    for (size_t i = 0; i < addresses.size(); ++i)
      if (image_.tensors[i].name == tensor && plan.elements[i] != 0) return addresses[i];
    return DeviceAddress{0};
  };
  for (size_t i = 0; i < addresses.size(); ++i)
    if (addresses[i] == 0 && plan.elements[i] != 0)
      error(kNullTensor, image_.tensors[i].name, plan.elements[i]);
  for (const backend::AlignmentFact& a : image_.alignment)
    if (a.base_bytes > 1 && address(a.tensor) % static_cast<uint64_t>(a.base_bytes) != 0)
      error(kMisaligned, a.tensor, address(a.tensor), a.base_bytes);
  for (const backend::TensorMapRecipe& r : image_.tensor_maps)
    if (address(r.tensor) % 16 != 0)
      error(kTmaLimit, r.tensor,
            fmt::format("it starts at {:#x}, not at a multiple of 16", address(r.tensor)));
  if (diags.errors() > before) return DiagSink::Propagate();
  return Done();
}

Result<LoadedKernel::Ready> LoadedKernel::Move(const Ready& ready,
                                               std::span<const DeviceAddress> addresses,
                                               DiagSink& diags) {
  TRY_VOID(CheckAddresses(*ready.plan, addresses, diags));
  return MoveAll(ready, addresses, ready.work, diags);
}

Result<LoadedKernel::Ready> LoadedKernel::MoveAll(const Ready& ready,
                                                  std::span<const DeviceAddress> addresses,
                                                  DeviceAddress work, DiagSink& diags) {
  const LaunchPlan& plan = *ready.plan;
  Ready moved = ready;
  if (plan.nothing_to_do) return moved;
  const auto address = [&](const std::string& tensor) {
    for (size_t i = 0; i < image_.work.size(); ++i)
      if (image_.work[i].name == tensor) return work + plan.work_at[i];
    size_t i = 0;
    while (i < image_.tensors.size() && image_.tensors[i].name != tensor) ++i;
    return addresses[i];  // planning has looked each of them up
  };
  moved.work = work;
  if (moved.elsewhere) {
    moved.elsewhere = std::make_shared<Ready::Elsewhere>();
    moved.addresses.assign(addresses.begin(), addresses.end());
  }
  for (size_t i = 0; i < before_.size(); ++i) {
    TRY(moved.before[i], before_[i]->MoveAll(ready.before[i], addresses, work, diags));
  }
  for (size_t i = 0; i < image_.params.size(); ++i) {
    const EntryParam& p = image_.params[i];
    if (p.kind == EntryParam::Kind::kTensorPointer) {
      moved.args[i] = KernelArg::Of(address(p.name));
    } else if (p.kind == EntryParam::Kind::kTensorMap) {
      const auto index = static_cast<size_t>(p.map);
      if (plan.scratch_offset.at(index) >= 0) continue;  // another place stands for it
      TensorMap map;
      std::memcpy(map.bytes, moved.args[i].bytes.data(), sizeof map.bytes);
      TRY_VOID(device_.MoveTensorMap(&map, plan.maps.at(index),
                                     address(image_.tensor_maps[index].tensor), diags));
      std::memcpy(moved.args[i].bytes.data(), map.bytes, sizeof map.bytes);
    }
  }
  return moved;
}

Result<> LoadedKernel::Launch(const Ready& ready, StreamId stream, LaunchStats* stats,
                              DiagSink& diags) {
  if (stats) *stats = {};
  if (ready.plan->nothing_to_do) return Done();
  TRY(const Ready* here, On(ready, stream, diags));
  LaunchStats all;
  for (size_t i = 0; i < before_.size(); ++i) {
    const Ready& first = here->before[i];
    TRY_VOID(device_.Launch(*before_[i]->module_, before_[i]->image_.entry, first.plan->config,
                            first.args, stream, stats, diags));
    if (stats) all += *stats;
  }
  TRY_VOID(
      device_.Launch(*module_, image_.entry, here->plan->config, here->args, stream, stats, diags));
  if (stats) *stats += all;
  return Done();
}

// Launches of a stream follow each other and share their work; those of two may not.
Result<DeviceAddress> LoadedKernel::WorkOf(StreamId stream, uint64_t bytes, DiagSink& diags) {
  Work& work = work_[stream];
  if (work.bytes >= bytes) return work.at;
  const auto spare = std::find_if(spare_work_.begin(), spare_work_.end(),
                                  [&](const Work& other) { return other.bytes >= bytes; });
  if (spare != spare_work_.end()) {
    work = *spare;
    spare_work_.erase(spare);
    return work.at;
  }
  TRY(work, NewWork(bytes, diags));
  return work.at;
}

// With room for what is somewhat larger: a size that nobody saw before should not wait for memory.
Result<LoadedKernel::Work> LoadedKernel::NewWork(uint64_t bytes, DiagSink& diags) {
  const uint64_t step = std::max<uint64_t>(1, std::bit_floor(bytes) / 4);
  bytes = (bytes + step - 1) / step * step;
  TRY(const DeviceAddress at, device_.Alloc(bytes, diags));
  all_work_.push_back(at);
  return Work{at, bytes};
}

Result<const LoadedKernel::Ready*> LoadedKernel::On(const Ready& ready, StreamId stream,
                                                    DiagSink& diags) {
  if (!ready.elsewhere) return &ready;
  DeviceAddress work = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TRY(work, WorkOf(stream, ready.plan->work_bytes, diags));
  }
  if (work == ready.work) return &ready;
  const std::lock_guard<std::mutex> lock(ready.elsewhere->mutex);
  const auto at = ready.elsewhere->ready.find(work);
  if (at != ready.elsewhere->ready.end()) return &at->second;
  TRY(Ready moved, MoveAll(ready, ready.addresses, work, diags));
  return &ready.elsewhere->ready.emplace(work, std::move(moved)).first->second;
}

Result<std::shared_ptr<const LoadedKernel::Ready>> LoadedKernel::Apart(
    const std::shared_ptr<const Ready>& ready, DiagSink& diags) {
  if (!ready->elsewhere) return ready;
  DeviceAddress work = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    TRY(const Work own, NewWork(ready->plan->work_bytes, diags));
    work = own.at;
  }
  auto apart = std::make_shared<Ready>();
  TRY(*apart, MoveAll(*ready, ready->addresses, work, diags));
  return std::shared_ptr<const Ready>(std::move(apart));
}

Result<> LoadedKernel::AddTo(LaunchGraph& graph, const Ready& ready, DiagSink& diags) const {
  if (ready.plan->nothing_to_do) return Done();
  for (size_t i = 0; i < before_.size(); ++i)
    TRY_VOID(graph.Add(*before_[i]->module_, before_[i]->image_.entry, ready.before[i].plan->config,
                       ready.before[i].args, diags));
  return graph.Add(*module_, image_.entry, ready.plan->config, ready.args, diags);
}

Result<> LoadedKernel::Launch(const LaunchArgs& args, StreamId stream, LaunchStats* stats,
                              DiagSink& diags) {
  TRY(const std::shared_ptr<const Ready> ready, Prepare(args, diags));
  return Launch(*ready, stream, stats, diags);
}

}  // namespace tilec::runtime
