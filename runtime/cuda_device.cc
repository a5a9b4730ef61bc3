// Device on silicon: the primary context of one GPU, PTX assembled by the driver's JIT.
//
// The context is pushed for the length of each call and popped after, so the host program's own
// current context is never disturbed. Kernels are launched through cuLaunchKernelEx, which takes
// the cluster shape that the PTX may not carry.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "runtime/cuda_api.h"
#include "runtime/cuda_graph.h"
#include "runtime/cuda_module.h"
#include "runtime/device.h"
#include "runtime/diagnostics.h"
#include "runtime/ptx_text.h"

namespace tilec::runtime {

namespace {

using namespace cuda;  // the driver's own names

struct MapType {
  const char* dtype;
  TensorMapType type;
};
constexpr MapType kMapTypes[] = {
    {"bool", kMapU8},   {"i8", kMapU8},    {"s8", kMapU8},    {"u8", kMapU8},     {"e4m3", kMapU8},
    {"e5m2", kMapU8},   {"i16", kMapU16},  {"s16", kMapU16},  {"u16", kMapU16},   {"f16", kMapF16},
    {"bf16", kMapBf16}, {"i32", kMapI32},  {"s32", kMapI32},  {"u32", kMapU32},   {"f32", kMapF32},
    {"e2m1x2", kMapU8}, {"ue8m0", kMapU8}, {"ue4m3", kMapU8}, {"tf32", kMapTf32}, {"i64", kMapI64},
    {"s64", kMapI64},   {"u64", kMapU64},  {"f64", kMapF64},
};

class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<Api> api, CUdevice device) : api_(std::move(api)), device_(device) {
    streams_.push_back(nullptr);
  }
  ~CudaDevice() override {
    if (!context_) return;
    {
      ContextScope scope(*api_, context_);
      for (CUstream s : owned_) api_->cuStreamDestroy(s);
    }
    api_->cuDevicePrimaryCtxRelease(device_);
  }

  Result<> Open(DiagSink& diags) {
    char name[256] = "";
    size_t memory = 0;
    TRY_VOID(Ok(api_->cuDeviceGetName(name, sizeof name - 1, device_), "cuDeviceGetName", diags));
    TRY_VOID(Ok(api_->cuDeviceTotalMem(&memory, device_), "cuDeviceTotalMem", diags));
    TRY(major_, Attribute(kCapabilityMajor, diags));
    TRY(minor_, Attribute(kCapabilityMinor, diags));
    TRY(multiprocessors_, Attribute(kMultiprocessors, diags));
    TRY(smem_limit_, Attribute(kSharedPerBlockOptin, diags));
    TRY_VOID(
        Ok(api_->cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain", diags));
    description_ = fmt::format("{} ({}, {} SMs, {:.0f} GiB, driver CUDA {}.{})", name, isa(),
                               multiprocessors_, static_cast<double>(memory) / (1 << 30),
                               api_->driver_version / 1000, api_->driver_version % 1000 / 10);
    return Done();
  }

  std::string kind() const override { return "cuda"; }
  std::string description() const override { return description_; }
  std::string isa() const override {
    // From compute capability 9.0 on, the architecture's own instructions carry the suffix `a`.
    return fmt::format("sm_{}{}{}", major_, minor_, major_ >= 9 ? "a" : "");
  }

  Result<DeviceAddress> Alloc(uint64_t bytes, DiagSink& diags) override {
    ContextScope scope(*api_, context_);
    CUdeviceptr p = 0;
    TRY_VOID(Ok(api_->cuMemAlloc(&p, std::max<uint64_t>(bytes, 1)),
                fmt::format("cuMemAlloc of {} bytes", bytes), diags));
    return p;
  }
  void Free(DeviceAddress address) override {
    if (address == 0) return;
    ContextScope scope(*api_, context_);
    api_->cuMemFree(address);
  }
  Result<> CopyIn(DeviceAddress to, const void* from, uint64_t bytes, DiagSink& diags) override {
    if (bytes == 0) return Done();
    ContextScope scope(*api_, context_);
    return Ok(api_->cuMemcpyHtoD(to, from, bytes), "cuMemcpyHtoD", diags);
  }
  Result<> CopyOut(void* to, DeviceAddress from, uint64_t bytes, DiagSink& diags) override {
    if (bytes == 0) return Done();
    ContextScope scope(*api_, context_);
    return Ok(api_->cuMemcpyDtoH(to, from, bytes), "cuMemcpyDtoH", diags);
  }
  Result<> Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, DiagSink& diags) override {
    if (bytes == 0) return Done();
    ContextScope scope(*api_, context_);
    return Ok(api_->cuMemsetD8(to, byte, bytes), "cuMemsetD8", diags);
  }

  Result<std::unique_ptr<Module>> Load(const std::string& ptx, const LoadOptions& options,
                                       DiagSink& diags) override {
    ContextScope scope(*api_, context_);
    constexpr size_t kLogBytes = 1 << 16;
    std::vector<char> info(kLogBytes, 0), errors(kLogBytes, 0);
    int names[] = {kInfoLogBuffer, kInfoLogBytes, kErrorLogBuffer, kErrorLogBytes, kLogVerbose};
    void* values[] = {info.data(), reinterpret_cast<void*>(kLogBytes), errors.data(),
                      reinterpret_cast<void*>(kLogBytes), reinterpret_cast<void*>(uintptr_t{1})};
    CUmodule module = nullptr;
    if (!options.cubin.empty()) {
      const CUresult taken =
          api_->cuModuleLoadDataEx(&module, options.cubin.data(), 0, nullptr, nullptr);
      if (taken == kSuccess) return Loaded(module, ptx, options.name, diags);
      diags.Report(kCubinRefused, Span{}, options.name, api_->ErrorText(taken),
                   api_->ErrorName(taken));
      module = nullptr;
    }
    const CUresult r = api_->cuModuleLoadDataEx(&module, ptx.c_str(), 5, names, values);
    if (r != kSuccess) {
      DiagBuilder d = diags.Report(kJitFailed, Span{}, options.name);
      d.Note(fmt::format("{} ({})", api_->ErrorText(r), api_->ErrorName(r)));
      for (const std::string& line : NotedLogLines(std::string(errors.data()), options))
        d.Note(line);
      if (r == kErrorUnsupportedPtx)
        d.Help(fmt::format(
            "the text says `.version {}`, the driver is of CUDA {}.{}: update the "
            "driver",
            PtxVersion(ptx), api_->driver_version / 1000, api_->driver_version % 1000 / 10));
      if (r == kErrorNoBinary || r == kErrorInvalidPtx)
        d.Help(fmt::format("the text is for `{}`, this device is {}", PtxTarget(ptx), isa()));
      return d;
    }
    return Loaded(module, ptx, options.name, diags);
  }

  Result<TensorMap> EncodeTensorMap(const TensorMapDesc& d, DiagSink& diags) override {
    const MapType* type = nullptr;
    for (const MapType& t : kMapTypes)
      if (d.dtype == t.dtype) type = &t;
    const size_t rank = d.dims.size();
    if (!type || rank < 1 || rank > 5 || d.box.size() != rank || d.strides_bytes.size() + 1 != rank)
      return diags.Report(kTmaLimit, Span{}, d.dtype,
                          fmt::format("{} dims, {} strides, {} box extents, element type {}", rank,
                                      d.strides_bytes.size(), d.box.size(), d.dtype));
    std::vector<uint32_t> steps = d.element_strides;
    if (steps.empty()) steps.assign(rank, 1);
    const int swizzle = d.swizzle_bytes == 128  ? 3
                        : d.swizzle_bytes == 64 ? 2
                                                : d.swizzle_bytes == 32;
    const int l2 = d.l2_promotion_bytes == 256   ? 3
                   : d.l2_promotion_bytes == 128 ? 2
                                                 : d.l2_promotion_bytes == 64;
    std::vector<uint64_t> strides = d.strides_bytes;
    strides.push_back(0);  // the driver refuses a null pointer even for rank 1
    ContextScope scope(*api_, context_);
    cuda::CUtensorMap encoded = {};
    const CUresult r = api_->cuTensorMapEncodeTiled(
        &encoded, type->type, static_cast<uint32_t>(rank), reinterpret_cast<void*>(d.base),
        d.dims.data(), strides.data(), d.box.data(), steps.data(), 0, swizzle, l2,
        d.fill_nan ? 1 : 0);
    if (r != kSuccess)
      return diags
          .Report(kDriverCall, Span{}, "cuTensorMapEncodeTiled", api_->ErrorText(r),
                  api_->ErrorName(r))
          .Note(fmt::format("{} dims [{}], strides [{}] bytes, box [{}], swizzle {}, base {:#x}",
                            d.dtype, fmt::join(d.dims, ", "), fmt::join(d.strides_bytes, ", "),
                            fmt::join(d.box, ", "), d.swizzle_bytes, d.base));
    TensorMap map;
    static_assert(sizeof map.bytes == sizeof encoded);
    std::copy_n(reinterpret_cast<const uint8_t*>(&encoded), sizeof encoded, map.bytes);
    return map;
  }

  Result<> MoveTensorMap(TensorMap* map, const TensorMapDesc&, DeviceAddress base,
                         DiagSink& diags) override {
    ContextScope scope(*api_, context_);
    return Ok(api_->cuTensorMapReplaceAddress(reinterpret_cast<CUtensorMap*>(map->bytes),
                                              reinterpret_cast<void*>(base)),
              "cuTensorMapReplaceAddress", diags);
  }

  std::unique_ptr<LaunchGraph> NewGraph() override {
    return NewCudaGraph(
        {api_.get(), context_,
         [this](const Module& module, const std::string& entry, const LaunchConfig& config,
                DiagSink& diags) { return Function(module, entry, config, diags); },
         [this](StreamId id, DiagSink& d) { return Stream(id, d); }});
  }

  Result<StreamId> NewStream(DiagSink& diags) override {
    ContextScope scope(*api_, context_);
    CUstream stream = nullptr;
    TRY_VOID(Ok(api_->cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate", diags));
    std::lock_guard<std::mutex> lock(mutex_);
    owned_.push_back(stream);
    streams_.push_back(stream);
    return static_cast<StreamId>(streams_.size() - 1);
  }

  std::optional<StreamId> AdoptStream(void* native) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto stream = reinterpret_cast<CUstream>(native);
    const auto at = std::find(streams_.begin(), streams_.end(), stream);
    if (at != streams_.end()) return static_cast<StreamId>(at - streams_.begin());
    streams_.push_back(stream);
    return static_cast<StreamId>(streams_.size() - 1);
  }

  Result<> Launch(const Module& module, const std::string& entry, const LaunchConfig& config,
                  const std::vector<KernelArg>& args, StreamId stream_id, LaunchStats* stats,
                  DiagSink& diags) override {
    TRY(const CUstream stream, Stream(stream_id, diags));
    ContextScope scope(*api_, context_);
    TRY(const CUfunction function, Function(module, entry, config, diags));
    std::vector<AlignedArg> storage(args.size());
    std::vector<void*> params(args.size());
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].bytes.size() > sizeof(AlignedArg))
        return diags.Report(kDriverCall, Span{}, "packing of arguments",
                            fmt::format("argument {} has {} bytes", i, args[i].bytes.size()),
                            "at most 128");
      std::copy(args[i].bytes.begin(), args[i].bytes.end(), storage[i].bytes);
      params[i] = storage[i].bytes;
    }
    CUlaunchAttribute attributes[2] = {};
    uint32_t count = 0;
    if (config.cluster[0] * config.cluster[1] * config.cluster[2] > 1) {
      attributes[count].id = kClusterDimension;
      attributes[count++].value.cluster = {config.cluster[0], config.cluster[1], config.cluster[2]};
    }
    const uint64_t ctas = uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
    if (config.dependent &&
        (config.dependent_if_full || ctas < static_cast<uint64_t>(multiprocessors_))) {
      attributes[count].id = kProgrammaticStreamSerialization;
      attributes[count++].value.dependent = 1;
    }
    const CUlaunchConfig c = {config.grid[0],
                              config.grid[1],
                              config.grid[2],
                              config.block[0],
                              config.block[1],
                              config.block[2],
                              static_cast<uint32_t>(config.smem_bytes),
                              stream,
                              count > 0 ? attributes : nullptr,
                              count};
    if (!stats)
      return Launched(api_->cuLaunchKernelEx(&c, function, params.data(), nullptr), entry, diags);
    return TimedLaunch(c, function, params.data(), entry, stats, diags);
  }

  Result<> Synchronize(StreamId stream_id, DiagSink& diags) override {
    TRY(const CUstream stream, Stream(stream_id, diags));
    ContextScope scope(*api_, context_);
    return Ok(api_->cuStreamSynchronize(stream), "cuStreamSynchronize", diags);
  }

  std::unique_ptr<Stopwatch> NewStopwatch() override {
    return std::make_unique<CudaStopwatch>(
        *api_, context_, [this](StreamId id, DiagSink& d) { return Stream(id, d); });
  }

 private:
  // Whoever assembled it, what it has in place of registers is said.
  std::unique_ptr<Module> Loaded(CUmodule module, const std::string& ptx, const std::string& name,
                                 DiagSink& diags) const {
    std::vector<std::string> entries = PtxEntries(ptx);
    for (const std::string& entry : entries) {
      CUfunction function = nullptr;
      int local = 0, registers = 0;
      if (api_->cuModuleGetFunction(&function, module, entry.c_str()) != kSuccess) continue;
      if (api_->cuFuncLoad) api_->cuFuncLoad(function);  // what it fails at, the launch says
      if (api_->cuFuncGetAttribute(&local, kLocalSize, function) != kSuccess ||
          api_->cuFuncGetAttribute(&registers, kRegisters, function) != kSuccess || local == 0)
        continue;
      diags.Report(kLocalMemory, Span{}, entries.size() > 1 ? entry : name, local, registers)
          .Help(
              "choose smaller tiles; `tilec build` beside a ptxas names the role that is fullest");
    }
    return std::make_unique<CudaModule>(*api_, context_, module, std::move(entries));
  }

  struct alignas(128) AlignedArg {
    uint8_t bytes[128];
  };

  Result<> Ok(CUresult r, std::string_view call, DiagSink& diags) const {
    if (r == kSuccess) return Done();
    return diags.Report(kDriverCall, Span{}, call, api_->ErrorText(r), api_->ErrorName(r));
  }
  Result<> Launched(CUresult r, const std::string& entry, DiagSink& diags) const {
    return r == kSuccess ? Done() : Ok(r, "launch of " + entry, diags);
  }
  // The context is current.
  Result<CUfunction> Function(const Module& module, const std::string& entry,
                              const LaunchConfig& config, DiagSink& diags) const {
    if (config.smem_bytes > static_cast<uint64_t>(smem_limit_))
      return diags.Report(kSmemTooLarge, Span{}, entry, config.smem_bytes, description_,
                          smem_limit_);
    const char* call = "";
    CUresult error = kSuccess;
    TRY(const CUfunction function,
        static_cast<const CudaModule&>(module).Get(entry, config, &call, &error, diags));
    TRY_VOID(Ok(error, call, diags));
    return function;
  }
  Result<int> Attribute(DeviceAttribute a, DiagSink& diags) const {
    int value = 0;
    TRY_VOID(Ok(api_->cuDeviceGetAttribute(&value, a, device_), "cuDeviceGetAttribute", diags));
    return value;
  }
  Result<CUstream> Stream(StreamId id, DiagSink& diags) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (id < 0 || static_cast<size_t>(id) >= streams_.size())
      return diags.Report(kUnknownStream, Span{}, id);
    return streams_[static_cast<size_t>(id)];
  }

  Result<> TimedLaunch(const CUlaunchConfig& c, CUfunction function, void** params,
                       const std::string& entry, LaunchStats* stats, DiagSink& diags) {
    CUevent from = nullptr, to = nullptr;
    float ms = 0;
    const char* call = "cuEventCreate";
    CUresult r = api_->cuEventCreate(&from, 0);
    if (r == kSuccess) r = api_->cuEventCreate(&to, 0);
    if (r == kSuccess) call = "cuEventRecord", r = api_->cuEventRecord(from, c.stream);
    if (r == kSuccess)
      call = entry.c_str(), r = api_->cuLaunchKernelEx(&c, function, params, nullptr);
    if (r == kSuccess) call = "cuEventRecord", r = api_->cuEventRecord(to, c.stream);
    if (r == kSuccess) call = entry.c_str(), r = api_->cuEventSynchronize(to);
    if (r == kSuccess) call = "cuEventElapsedTime", r = api_->cuEventElapsedTime(&ms, from, to);
    if (from) api_->cuEventDestroy(from);
    if (to) api_->cuEventDestroy(to);
    stats->milliseconds = ms;
    return Ok(r, call, diags);
  }

  std::unique_ptr<Api> api_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  int major_ = 0, minor_ = 0, smem_limit_ = 0, multiprocessors_ = 0;
  std::string description_;
  std::mutex mutex_;
  std::vector<CUstream> streams_;  // by StreamId; 0 is the default stream
  std::vector<CUstream> owned_;
};

}  // namespace

Result<std::unique_ptr<Device>> OpenCuda(int ordinal, DiagSink& diags) {
  TRY(std::unique_ptr<Api> api, LoadDriver(diags));
  int count = 0;
  if (const CUresult r = api->cuDeviceGetCount(&count); r != kSuccess)
    return diags.Report(kDriverCall, Span{}, "cuDeviceGetCount", api->ErrorText(r),
                        api->ErrorName(r));
  CUdevice device = 0;
  if (ordinal < 0 || ordinal >= count || api->cuDeviceGet(&device, ordinal) != kSuccess)
    return diags.Report(
        kNoDevice, Span{}, ordinal,
        count == 0 ? "the driver sees no GPU" : fmt::format("devices 0 to {} exist", count - 1));
  auto opened = std::make_unique<CudaDevice>(std::move(api), device);
  TRY_VOID(opened->Open(diags));
  return std::unique_ptr<Device>(std::move(opened));
}

}  // namespace tilec::runtime
