// From typed tensor views to a launch: binds the dims of a signature, checks everything a caller
// can get wrong, evaluates the image's expressions and packs the arguments.
//
// The image is data (backend/kernel_image.h), so nothing here needs a compiler. Every mismatch is a
// diagnostic R51x-R53x that names the parameters and the numbers on both sides; all mismatches of
// one launch are reported, not only the first.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/kernel_image.h"
#include "runtime/device.h"
#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime {

// A tensor as a caller has it. Strides count elements; none given: dense, row-major.
struct TensorView {
  std::string dtype;
  DeviceAddress data = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  bool operator==(const TensorView&) const = default;
};

using ScalarValue = std::variant<int64_t, double>;

// Arguments by name. `dims` may repeat dims and statics for checking; tensors bind them anyway.
struct LaunchArgs {
  std::map<std::string, TensorView> tensors;
  std::map<std::string, ScalarValue> scalars;
  Bindings dims;
  bool operator==(const LaunchArgs&) const = default;
};

// The same arguments as whoever knows an image's signature reads them off: in its order, in the
// caller's memory. `strides`: none, or one for each dim; `steps`: EffectiveStrides of it.
struct GivenTensor {
  std::string_view dtype;
  DeviceAddress data = 0;
  std::span<const int64_t> dims, strides, steps;
};
struct GivenDim {  // told beside the tensors, which bind it: checked
  std::string_view name;
  int64_t size = 0;
};
struct GivenLaunch {
  std::span<const GivenTensor> tensors;
  std::span<const ScalarValue> scalars;
  std::span<const GivenDim> dims;
};

// Bytes per element of a dtype spelling; 0 if there is no such dtype.
int DTypeBytes(std::string_view dtype);
// Elements of a view; meaningful only after its extents were checked.
int64_t ElementCount(const TensorView& view);
// What expressions call a stride: `T.stride<i>`.
std::string StrideName(const std::string& tensor, size_t dim);
// One stride per dim. Dims of extent 0 or 1 are never stepped along: theirs is replaced by one that
// suits everybody (a multiple of 16 bytes beyond the dims inside).
std::vector<int64_t> EffectiveStrides(const TensorView& view);
// The same of elements of so many bytes, into `steps`.
void StepsOf(int bytes, std::span<const int64_t> dims, std::span<const int64_t> strides,
             int64_t* steps);

// What a specialisation may assume of a tensor; powers of two up to 16.
struct TensorFacts {
  int base_align_bytes = 16;
  int stride_align_bytes = 16;  // of every outer stride; 1 if one is 0 or reaches 2^40 bytes
  int last_dim_align = 1;       // of the last extent, in elements
  bool last_contiguous = true;
  bool operator==(const TensorFacts&) const = default;
};
TensorFacts FactsOf(const TensorView& view);
TensorFacts FactsOf(int bytes, DeviceAddress data, std::span<const int64_t> dims,
                    std::span<const int64_t> steps);

// The signature as far as binding needs it, so that a kernel can be bound before it is compiled.
struct SignatureView {
  std::string kernel;
  const std::vector<backend::TensorArg>* tensors = nullptr;
  const std::vector<backend::ScalarArg>* scalars = nullptr;
  const Bindings* statics = nullptr;  // may be null
  // Of a compiled kernel: the dims that may be 2³¹ or more. Null: that is not known yet.
  const std::vector<std::string>* wide = nullptr;
};

// Dims bound by the tensors (and `args.dims`), integer scalars, and `T.stride<i>`. Checks names,
// presence, rank, dtype, extents, strides and agreement of dims.
Result<Bindings> BindArguments(const SignatureView& signature, const LaunchArgs& args,
                               DiagSink& diags);

// Everything a launch needs but the encoded tensor maps.
struct LaunchPlan {
  LaunchConfig config;
  std::vector<KernelArg> args;      // kTensorMap entries are 128 zero bytes
  std::vector<TensorMapDesc> maps;  // parallel to image.tensor_maps
  std::vector<int> scratch_offset;  // ≥ 0: the tensor has no elements, this place stands for it
  std::vector<int64_t> elements;    // parallel to image.tensors
  std::vector<uint64_t> work_at;    // parallel to image.work: bytes from where that begins
  uint64_t work_bytes = 0;
  bool nothing_to_do = false;  // the grid is empty
};
// `work`: where the image's work begins; 0 while its size is not known.
Result<LaunchPlan> PlanLaunch(const backend::KernelImage& image, const LaunchArgs& args,
                              DiagSink& diags, DeviceAddress work = 0);

class QuickPlanner;  // runtime/quick_plan.h

// An image loaded on a device. Thread-safe. Must not outlive its device.
class LoadedKernel {
 public:
  // `cubin`: machine code of the image's PTX, or none; `before`: of its launches before. It is
  // needed until this returns.
  static Result<std::unique_ptr<LoadedKernel>> Load(Device& device, backend::KernelImage image,
                                                    DiagSink& diags, std::string_view cubin = {},
                                                    std::span<const std::string> before = {});
  ~LoadedKernel();
  const backend::KernelImage& image() const { return image_; }

  // Arguments that were checked and packed, tensor maps encoded. Whoever launches with the same
  // arguments again keeps it.
  struct Ready {
    std::shared_ptr<const LaunchPlan> plan;  // shared by launches that differ in addresses only
    std::vector<KernelArg> args;
    DeviceAddress work = 0;                     // where the image's work begins
    std::vector<DeviceAddress> addresses = {};  // of its tensors, if it has work
    std::vector<Ready> before = {};             // parallel to image.before
    // Launches with other work, made when a stream first needs them.
    struct Elsewhere;
    std::shared_ptr<Elsewhere> elsewhere = nullptr;
    // Launches of the device.
    size_t launches() const { return plan->nothing_to_do ? 0 : 1 + before.size(); }
  };
  Result<std::shared_ptr<const Ready>> Prepare(LaunchArgs args, DiagSink& diags);
  // The same by places, for sizes that nobody saw before; null with nothing said where an argument
  // is not as it must be: the other one says why.
  Result<std::shared_ptr<const Ready>> Prepare(const GivenLaunch& given, DiagSink& diags);
  // The same launch on tensors that lie elsewhere: one address for each tensor of the image, in its
  // order. Checks what depends on addresses (storage, alignment), nothing else.
  Result<Ready> Move(const Ready& ready, std::span<const DeviceAddress> addresses, DiagSink& diags);
  // `stats` (may be null) makes the launch synchronous and timed.
  Result<> Launch(const Ready& ready, StreamId stream, LaunchStats* stats, DiagSink& diags);
  Result<> Launch(const LaunchArgs& args, StreamId stream, LaunchStats* stats, DiagSink& diags);
  // The same launch with work of its own, for a graph: graphs may run beside each other.
  Result<std::shared_ptr<const Ready>> Apart(const std::shared_ptr<const Ready>& ready,
                                             DiagSink& diags);
  // Launch, but into a graph, as so many as `ready` has; nothing where there is nothing to do.
  Result<> AddTo(LaunchGraph& graph, const Ready& ready, DiagSink& diags) const;

 private:
  LoadedKernel(Device& device, backend::KernelImage image);
  Result<> EncodeMaps(LaunchPlan& plan, DiagSink& diags);
  Result<> CheckAddresses(const LaunchPlan& plan, std::span<const DeviceAddress> addresses,
                          DiagSink& diags) const;
  Result<TensorMap> MapFor(const TensorMapDesc& desc, DiagSink& diags);
  Result<> ReserveWork(uint64_t bytes, Ready* ready, DiagSink& diags);
  Result<Ready> MoveAll(const Ready& ready, std::span<const DeviceAddress> addresses,
                        DeviceAddress work, DiagSink& diags);
  struct Work {
    DeviceAddress at = 0;
    uint64_t bytes = 0;
  };
  Result<Work> NewWork(uint64_t bytes, DiagSink& diags);
  Result<DeviceAddress> WorkOf(StreamId stream, uint64_t bytes, DiagSink& diags);
  Result<const Ready*> On(const Ready& ready, StreamId stream, DiagSink& diags);

  Device& device_;
  backend::KernelImage image_;
  std::unique_ptr<Module> module_;
  std::mutex mutex_;
  std::shared_ptr<const Ready> last_;  // repeated launches skip all checking
  LaunchArgs last_args_;
  std::unique_ptr<QuickPlanner> quick_;
  struct KeptMap;
  std::vector<KeptMap> maps_;  // by a hash of the description; empty: none so far
  DeviceAddress scratch_ = 0;  // stands for tensors without elements
  std::vector<std::unique_ptr<LoadedKernel>> before_;
  // Work by stream, where launches follow each other; grown work's former places may be in use.
  std::map<StreamId, Work> work_;
  std::vector<Work> spare_work_;  // of other streams: one that is captured may not allocate
  std::vector<DeviceAddress> all_work_;
};

// By where the work begins.
struct LoadedKernel::Ready::Elsewhere {
  std::mutex mutex;
  std::map<DeviceAddress, Ready> ready;
};

}  // namespace tilec::runtime
