// Host time of one launch, ours against a bare cuLaunchKernelEx of the same kernel with the same
// arguments: what checking, planning and looking up cost a host program. The GPU's own time is not
// in it: bursts are shorter than the driver's queue, and each is waited for outside the clock.
//
//   launch_bench            one line per kernel and way of calling; needs a GPU (or a stand-in
//                           named libcuda.so.1 on the loader's path, which leaves our part alone),
//                           then 100,000 argument sets in turn, bound launches, and a graph
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "backend/kernel_image.h"
#include "include/tilec/tilec.h"
#include "runtime/cuda_api.h"
#include "runtime/launch.h"

namespace {

using namespace tilec;
using Clock = std::chrono::steady_clock;

constexpr int kBursts = 60, kBurst = 100, kSets = 100000;

struct Work {
  const char* file;
  const char* kernel;
  std::vector<std::pair<const char*, std::vector<int64_t>>> tensors;
  DType dtype;
};

// Median over bursts of the microseconds of one call.
double Microseconds(const std::function<bool(int)>& call, const std::function<void()>& wait,
                    int bursts = kBursts) {
  std::vector<double> each;
  for (int b = 0; b < bursts; ++b) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBurst; ++i)
      if (!call(b * kBurst + i)) return -1;
    each.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                   kBurst);
    wait();
  }
  std::sort(each.begin(), each.end());
  return each[each.size() / 2];
}

class Bench {
 public:
  bool Open() {
    auto device = Device::Open("cuda:0");
    if (!device.ok()) return Say(device.status().text());
    device_.emplace(*std::move(device));
    CompilerOptions options;
    options.disk_cache = false;
    auto compiler = Compiler::Create(options);
    if (!compiler.ok()) return Say(compiler.status().text());
    compiler_.emplace(*std::move(compiler));
    auto api = runtime::cuda::LoadDriver(diags_);
    auto inner = runtime::OpenCuda(0, diags_);
    if (!api.ok() || !inner.ok()) return Say("no driver\n");
    api_ = std::move(*api);
    inner_ = std::move(*inner);
    runtime::cuda::CUdevice d = 0;
    runtime::cuda::CUcontext c = nullptr;
    if (api_->cuDeviceGet(&d, 0) || api_->cuDevicePrimaryCtxRetain(&c, d) ||
        api_->cuCtxPushCurrent(c))
      return Say("no context\n");
    fmt::print("{}\n", device_->description());
    return true;
  }

  bool Run(const Work& w) {
    auto kernel = compiler_->Compile(w.file, w.kernel);
    if (!kernel.ok()) return Say(kernel.status().text());
    std::vector<Args> sets(8);
    for (Args& a : sets)
      for (const auto& [name, dims] : w.tensors) {
        uint64_t bytes = static_cast<uint64_t>(Bytes(w.dtype));
        for (int64_t d : dims) bytes *= static_cast<uint64_t>(d);
        auto address = device_->Alloc(bytes);
        if (!address.ok()) return Say(address.status().text());
        Tensor t;
        t.dtype = w.dtype;
        t.data = *address;
        t.dims = dims;
        a.Set(name, std::move(t));
      }
    auto json = kernel->Emit("json", sets[0]);
    if (!json.ok()) return Say(json.status().text());
    backend::KernelImage image;
    std::string why;
    if (!backend::FromJson(*json, &image, &why)) return Say(why + "\n");
    const double bare = Bare(image, sets[0]);
    if (bare < 0) return false;
    const auto wait = [&] { (void)device_->Synchronize(0).ok(); };
    const auto ours = [&](size_t n) {
      return Microseconds(
          [&](int i) { return kernel->Launch(*device_, sets[static_cast<size_t>(i) % n], 0).ok(); },
          wait);
    };
    for (size_t i = 0; i < sets.size(); ++i)
      if (const Status s = kernel->Launch(*device_, sets[i], 0); !s.ok()) return Say(s.text());
    wait();
    const double one = ours(1), two = ours(2), eight = ours(8);
    fmt::print(
        "{:8} bare {:6.2f} us   ours {:6.2f} (+{:.2f})   2 argument sets in turn {:6.2f} "
        "(+{:.2f})   8 sets {:6.2f} (+{:.2f})\n",
        w.kernel, bare, one, one - bare, two, two - bare, eight, eight - bare);
    return true;
  }

  // The same product at 100,000 places and of 100,000 sizes, each launch made before it is timed.
  bool ManySets() {
    CompilerOptions options;
    options.disk_cache = false;
    options.tune = "default";  // the model would choose tiles for each of the sizes
    const auto compiler = Compiler::Create(options);
    if (!compiler.ok()) return Say(compiler.status().text());
    auto kernel = Compiler(*compiler).Compile("std/matmul.tile", "gemm");
    const auto memory = device_->Alloc(uint64_t{kSets} * 1024);
    if (!kernel.ok() || !memory.ok()) return Say(memory.status().text());
    const auto at = [&](int i) { return *memory + static_cast<uint64_t>(i) * 256; };
    const auto args = [&](uint64_t a, int64_t m) {
      return Args()
          .Set("A", Tensor{DType::kBF16, a, {m, 128}, {}})
          .Set("B", Tensor{DType::kBF16, at(0), {128, 128}, {}})
          .Set("C", Tensor{DType::kBF16, at(2 * kSets), {m, 128}, {}});
    };
    std::vector<Args> places, sizes;
    for (int i = 0; i < kSets; ++i) {
      places.push_back(args(at(i), 128));
      sizes.push_back(args(at(0), 1 + i));
    }
    const auto wait = [&] { (void)device_->Synchronize(0).ok(); };
    const auto in_turn = [&](const std::vector<Args>& sets) {
      const auto call = [&](int i) {
        const Status s = kernel->Launch(*device_, sets[static_cast<size_t>(i) % sets.size()], 0);
        return s.ok() || Say(s.text());
      };
      const double first = Microseconds(call, wait, kSets / kBurst);
      const double again = Microseconds(call, wait, kSets / kBurst);
      fmt::print("  first {:6.2f} us, again {:6.2f} us\n", first, again);
      return first > 0 && again > 0;
    };
    fmt::print("{} places in turn:", kSets);
    if (!in_turn(places)) return Say("failed\n");
    fmt::print("{} sizes in turn: ", kSets);
    if (!in_turn(sizes)) return Say("failed\n");
    return Repeated(*kernel, places[0], at, wait);
  }

 private:
  static bool Say(const std::string& text) {
    std::fputs(text.c_str(), stderr);
    return false;
  }

  bool Repeated(Kernel& kernel, const Args& args, const std::function<uint64_t(int)>& at,
                const std::function<void()>& wait) {
    const auto bound = kernel.Bind(*device_, args);
    if (!bound.ok()) return Say(bound.status().text());
    const double same = Microseconds([&](int) { return bound->Launch().ok(); }, wait);
    const auto elsewhere = [&](int i) {
      return std::array{at(i % kSets), at(0), at(2 * kSets)};  // A, B, C
    };
    const double moved = Microseconds(
        [&](int i) { return bound->LaunchAt(elsewhere(i).data(), 3).ok(); }, wait, kSets / kBurst);
    Graph graph = Graph::On(*device_);
    constexpr int kNodes = 8;
    for (int i = 0; i < kNodes; ++i)
      if (!graph.Add(*bound).ok()) return Say("no graph\n");
    const double run = Microseconds([&](int) { return graph.Launch().ok(); }, wait);
    const double moved_run = Microseconds(
        [&](int i) {
          return graph.MoveTo(static_cast<size_t>(i % kNodes), elsewhere(i).data(), 3).ok() &&
                 graph.Launch().ok();
        },
        wait);
    fmt::print(
        "bound {:.2f} us, bound at {} places {:.2f} us, graph of {} launches {:.2f} us, with one "
        "of "
        "them moved {:.2f} us\n",
        same, kSets, moved, kNodes, run, moved_run);
    return same > 0 && moved > 0 && run > 0 && moved_run > 0;
  }

  double Bare(const backend::KernelImage& image, const Args& args) {
    runtime::LaunchArgs launch;
    for (const auto& [name, t] : args.tensors())
      launch.tensors[name] = {Name(t.dtype), t.data, t.dims, {}};
    auto plan = runtime::PlanLaunch(image, launch, diags_);
    if (!plan.ok()) return Say("no plan\n"), -1;
    for (size_t i = 0; i < image.params.size(); ++i) {
      const backend::EntryParam& p = image.params[i];
      if (p.kind != backend::EntryParam::Kind::kTensorMap) continue;
      auto map = inner_->EncodeTensorMap(plan->maps[static_cast<size_t>(p.map)], diags_);
      if (!map.ok()) return Say("no map\n"), -1;
      std::copy_n(map->bytes, sizeof map->bytes, plan->args[i].bytes.data());
    }
    runtime::cuda::CUmodule module = nullptr;
    runtime::cuda::CUfunction function = nullptr;
    if (api_->cuModuleLoadDataEx(&module, image.ptx.c_str(), 0, nullptr, nullptr) ||
        api_->cuModuleGetFunction(&function, module, image.entry.c_str()))
      return Say("the driver refused the kernel\n"), -1;
    const runtime::LaunchConfig& c = plan->config;
    if (api_->cuFuncSetAttribute(function, runtime::cuda::kMaxDynamicShared,
                                 static_cast<int>(c.smem_bytes)))
      return Say("shared memory\n"), -1;
    struct alignas(128) Slot {
      uint8_t bytes[128];
    };
    std::vector<Slot> storage(plan->args.size());
    std::vector<void*> params;
    for (size_t i = 0; i < plan->args.size(); ++i) {
      std::copy(plan->args[i].bytes.begin(), plan->args[i].bytes.end(), storage[i].bytes);
      params.push_back(storage[i].bytes);
    }
    const runtime::cuda::CUlaunchConfig config = {c.grid[0],
                                                  c.grid[1],
                                                  c.grid[2],
                                                  c.block[0],
                                                  c.block[1],
                                                  c.block[2],
                                                  static_cast<uint32_t>(c.smem_bytes),
                                                  nullptr,
                                                  nullptr,
                                                  0};
    const auto wait = [&] { api_->cuCtxSynchronize(); };
    const auto call = [&](int) {
      return api_->cuLaunchKernelEx(&config, function, params.data(), nullptr) == 0;
    };
    if (!call(0)) return Say("the driver refused the launch\n"), -1;
    wait();
    return Microseconds(call, wait);
  }

  DiagSink diags_;
  std::optional<Device> device_;
  std::optional<Compiler> compiler_;
  std::unique_ptr<runtime::cuda::Api> api_;
  std::unique_ptr<runtime::Device> inner_;
};

}  // namespace

int main() {
  Bench bench;
  if (!bench.Open()) return 3;
  const bool add = bench.Run(
      {"std/elementwise.tile", "add", {{"X", {1024}}, {"Y", {1024}}, {"Z", {1024}}}, DType::kF32});
  const bool gemm = bench.Run({"std/matmul.tile",
                               "gemm",
                               {{"A", {128, 128}}, {"B", {256, 128}}, {"C", {128, 256}}},
                               DType::kBF16});
  return add && gemm && bench.ManySets() ? 0 : 1;
}
