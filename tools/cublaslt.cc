// Numbers and signatures below are those of the public header cublasLt.h, restated.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/cublaslt.h"

#include <dlfcn.h>

#include "runtime/cuda_api.h"
#include "tools/diagnostics.h"

namespace tilec::tools {

namespace {

using Status = int;
using Handle = void*;

constexpr int kCompute32F = 68, kComputeTf32 = 77, kRealFloat = 0;
constexpr int kTransposeA = 3, kTransposeB = 4, kFastAccumulation = 25;
constexpr int kMaxWorkspace = 1;
constexpr int32_t kTransposed = 1;
constexpr uint64_t kWorkspaceBytes = 64 << 20;

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

// The element types it multiplies, by its numbers; −1: not one of them.
int RealType(ir::DType d) {
  if (d == ir::DType::kF16) return 2;
  if (d == ir::DType::kBF16) return 14;
  if (d == ir::DType::kF32 || d == ir::DType::kTF32) return 0;
  if (d == ir::DType::kE4M3) return 28;
  return -1;
}

struct Functions {
  Status (*Create)(Handle*);
  size_t (*GetVersion)();
  Status (*MatmulDescCreate)(Handle*, int, int);
  Status (*MatmulDescSetAttribute)(Handle, int, const void*, size_t);
  Status (*MatrixLayoutCreate)(Handle*, int, uint64_t, uint64_t, int64_t);
  Status (*MatmulPreferenceCreate)(Handle*);
  Status (*MatmulPreferenceSetAttribute)(Handle, int, const void*, size_t);
  Status (*MatmulAlgoGetHeuristic)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int,
                                   Heuristic*, int*);
  Status (*Matmul)(Handle, Handle, const void*, const void*, Handle, const void*, Handle,
                   const void*, const void*, Handle, void*, Handle, const void*, void*, size_t,
                   void*);
};

class CublasLtLibrary final : public CublasLt {
 public:
  explicit CublasLtLibrary(runtime::Device& device) : device_(device) {}
  ~CublasLtLibrary() override {
    if (workspace_) device_.Free(workspace_);
  }

  Result<> Load(DiagSink& diags) {
    void* library = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return Failed("libcublasLt.so was not found", diags);
    bool all = true;
    const auto bind = [&](auto& to, const char* symbol) {
      to = reinterpret_cast<std::decay_t<decltype(to)>>(dlsym(library, symbol));
      all &= to != nullptr;
    };
    bind(lt_.Create, "cublasLtCreate");
    bind(lt_.GetVersion, "cublasLtGetVersion");
    bind(lt_.MatmulDescCreate, "cublasLtMatmulDescCreate");
    bind(lt_.MatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
    bind(lt_.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
    bind(lt_.MatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate");
    bind(lt_.MatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
    bind(lt_.MatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
    bind(lt_.Matmul, "cublasLtMatmul");
    if (!all) return Failed("the library lacks functions of cuBLASLt", diags);
    TRY(driver_, runtime::cuda::LoadDriver(diags));
    runtime::cuda::CUdevice d = 0;
    if (driver_->cuDeviceGet(&d, 0) != 0 || driver_->cuDevicePrimaryCtxRetain(&context_, d) != 0)
      return Failed("no context", diags);
    TRY(workspace_, device_.Alloc(kWorkspaceBytes, diags));
    return InContext([&] { return lt_.Create(&handle_); }, "cublasLtCreate", diags);
  }

  std::string version() const override { return fmt::format("{}", lt_.GetVersion()); }

  // It thinks in columns: Cᵀ = Bᵀ · Aᵀ, and a row-major matrix is its own transpose there.
  Result<> Launch(const Product& p, const runtime::LaunchArgs& args, DiagSink& diags) override {
    const runtime::TensorView &a = args.tensors.at(p.a), &b = args.tensors.at(p.b),
                              &c = args.tensors.at(p.c);
    const std::string key =
        fmt::format("{} {} {}", fmt::join(a.dims, ","), fmt::join(b.dims, ","), c.dtype);
    if (key != planned_) TRY_VOID(Plan(p, a, b, c, diags));
    planned_ = key;
    const float one = 1, zero = 0;
    return InContext(
        [&] {
          const auto at = [](uint64_t address) { return reinterpret_cast<void*>(address); };
          return lt_.Matmul(handle_, operation_, &one, at(b.data), left_, at(a.data), right_, &zero,
                            at(c.data), result_, at(c.data), result_, best_.algorithm,
                            at(workspace_), kWorkspaceBytes, nullptr);
        },
        "cublasLtMatmul", diags);
  }

 private:
  Result<> Failed(const std::string& why, DiagSink& diags) {
    return diags.Report(kNoCublas, Span{}, why)
        .Place("command line")
        .Help("put its folder on LD_LIBRARY_PATH; it comes with the CUDA toolkit and with PyTorch");
  }

  template <typename F>
  Result<> InContext(F call, const char* name, DiagSink& diags) {
    runtime::cuda::CUcontext before = nullptr;
    driver_->cuCtxPushCurrent(context_);
    const Status s = call();
    driver_->cuCtxPopCurrent(&before);
    if (s == 0) return Done();
    return Failed(fmt::format("{} failed with status {}", name, s), diags);
  }

  Result<> Plan(const Product& p, const runtime::TensorView& a, const runtime::TensorView& b,
                const runtime::TensorView& c, DiagSink& diags) {
    const int in = RealType(p.in), out = RealType(p.out);
    if (in < 0 || out < 0)
      return Failed(
          fmt::format("it multiplies no {} into {}", ir::Spelling(p.in), ir::Spelling(p.out)),
          diags);
    const int compute = p.in == ir::DType::kTF32 ? kComputeTf32 : kCompute32F;
    const auto layout = [&](Handle* to, int type, const runtime::TensorView& t) {
      return lt_.MatrixLayoutCreate(to, type, static_cast<uint64_t>(t.dims[1]),
                                    static_cast<uint64_t>(t.dims[0]), t.dims[1]);
    };
    const int8_t fast = 1;
    Handle preference = nullptr;
    int found = 0;
    const auto plan = [&]() -> Status {
      if (Status s = lt_.MatmulDescCreate(&operation_, compute, kRealFloat)) return s;
      if (p.b_turned)
        lt_.MatmulDescSetAttribute(operation_, kTransposeA, &kTransposed, sizeof kTransposed);
      if (p.a_turned)
        lt_.MatmulDescSetAttribute(operation_, kTransposeB, &kTransposed, sizeof kTransposed);
      if (p.in == ir::DType::kE4M3)
        lt_.MatmulDescSetAttribute(operation_, kFastAccumulation, &fast, sizeof fast);
      if (Status s = layout(&left_, in, b)) return s;
      if (Status s = layout(&right_, in, a)) return s;
      if (Status s = layout(&result_, out, c)) return s;
      if (Status s = lt_.MatmulPreferenceCreate(&preference)) return s;
      lt_.MatmulPreferenceSetAttribute(preference, kMaxWorkspace, &kWorkspaceBytes,
                                       sizeof kWorkspaceBytes);
      return lt_.MatmulAlgoGetHeuristic(handle_, operation_, left_, right_, result_, result_,
                                        preference, 1, &best_, &found);
    };
    TRY_VOID(InContext(plan, "cublasLtMatmulAlgoGetHeuristic", diags));
    if (found == 0) return Failed("it knows no algorithm for this product", diags);
    return Done();
  }

  runtime::Device& device_;
  Functions lt_ = {};
  std::unique_ptr<runtime::cuda::Api> driver_;
  runtime::cuda::CUcontext context_ = nullptr;
  runtime::DeviceAddress workspace_ = 0;
  Handle handle_ = nullptr, operation_ = nullptr, left_ = nullptr, right_ = nullptr,
         result_ = nullptr;
  Heuristic best_ = {};
  std::string planned_;
};

}  // namespace

Result<std::unique_ptr<CublasLt>> LoadCublasLt(runtime::Device& device, DiagSink& diags) {
  auto made = std::make_unique<CublasLtLibrary>(device);
  TRY_VOID(made->Load(diags));
  return std::unique_ptr<CublasLt>(std::move(made));
}

}  // namespace tilec::tools
