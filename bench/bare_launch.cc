// The driver's own calls, in the order in which every host makes them.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/bare_launch.h"

#include <algorithm>

namespace tilec::bench {

namespace cuda = runtime::cuda;

Result<std::unique_ptr<BareDriver>> BareDriver::Open(DiagSink& diags) {
  auto bare = std::make_unique<BareDriver>();
  TRY(bare->api_, cuda::LoadDriver(diags));
  TRY(bare->device_, runtime::OpenCuda(0, diags));
  cuda::CUdevice device = 0;
  cuda::CUcontext context = nullptr;
  if (bare->api_->cuDeviceGet(&device, 0) ||
      bare->api_->cuDevicePrimaryCtxRetain(&context, device) ||
      bare->api_->cuCtxPushCurrent(context))
    return DiagSink::Propagate();
  return bare;
}

Result<> BareDriver::Plan(const backend::KernelImage& image, const Args& args, DiagSink& diags) {
  runtime::LaunchArgs launch;
  for (const auto& [name, t] : args.tensors())
    launch.tensors[name] = {Name(t.dtype), t.data, t.dims, {}};
  TRY(runtime::LaunchPlan plan, runtime::PlanLaunch(image, launch, diags));
  for (size_t i = 0; i < image.params.size(); ++i) {
    const backend::EntryParam& p = image.params[i];
    if (p.kind != backend::EntryParam::Kind::kTensorMap) continue;
    TRY(const auto map, device_->EncodeTensorMap(plan.maps[static_cast<size_t>(p.map)], diags));
    std::copy_n(map.bytes, sizeof map.bytes, plan.args[i].bytes.data());
  }
  const runtime::LaunchConfig& c = plan.config;
  config_ = {};
  config_.grid_x = c.grid[0], config_.grid_y = c.grid[1], config_.grid_z = c.grid[2];
  config_.block_x = c.block[0], config_.block_y = c.block[1], config_.block_z = c.block[2];
  config_.smem_bytes = static_cast<uint32_t>(c.smem_bytes);
  if (c.cluster[0] * c.cluster[1] * c.cluster[2] > 1) {
    cluster_.id = cuda::kClusterDimension;
    cluster_.value.cluster = {c.cluster[0], c.cluster[1], c.cluster[2]};
    config_.attributes = &cluster_;
    config_.attribute_count = 1;
  }
  entry_ = image.entry;
  storage_.assign(plan.args.size(), Slot{});
  params_.clear();
  for (size_t i = 0; i < plan.args.size(); ++i) {
    std::copy(plan.args[i].bytes.begin(), plan.args[i].bytes.end(), storage_[i].bytes);
    params_.push_back(storage_[i].bytes);
  }
  return Done();
}

bool BareDriver::Load(const std::string& code) {
  return !api_->cuModuleLoadDataEx(&module_, code.c_str(), 0, nullptr, nullptr) &&
         !api_->cuModuleGetFunction(&function_, module_, entry_.c_str()) &&
         !api_->cuFuncSetAttribute(function_, cuda::kMaxDynamicShared,
                                   static_cast<int>(config_.smem_bytes));
}

bool BareDriver::Launch() {
  return !api_->cuLaunchKernelEx(&config_, function_, params_.data(), nullptr);
}

void BareDriver::Unload() {
  api_->cuModuleUnload(module_);
  module_ = nullptr;
}

}  // namespace tilec::bench
