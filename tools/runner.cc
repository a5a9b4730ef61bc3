// SPDX-License-Identifier: Apache-2.0
#include "tools/runner.h"

#include <unistd.h>

#include <algorithm>

#include "ir/diagnostics.h"
#include "ir/interpret.h"
#include "runtime/launch.h"
#include "runtime/npy.h"
#include "tools/diagnostics.h"
#include "tools/kernel_run.h"
#include "tools/random_inputs.h"
#include "tools/timeline.h"

namespace tilec::tools {

namespace {

// Device memory of one run, freed at its end.
class Allocations {
 public:
  explicit Allocations(runtime::Device* device) : device_(device) {}
  ~Allocations() {
    for (runtime::DeviceAddress a : all_) device_->Free(a);
  }
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  Result<runtime::DeviceAddress> Make(uint64_t bytes, DiagSink& diags) {
    TRY(const runtime::DeviceAddress a, device_->Alloc(bytes, diags));
    all_.push_back(a);
    return a;
  }

 private:
  runtime::Device* device_;
  std::vector<runtime::DeviceAddress> all_;
};

}  // namespace

Result<RunResult> KernelRun::Do() {
  DiagSink& diags = session_.diags();
  const frontend::Program& program = *session_.loaded().program;
  TRY(signature_, frontend::SignatureOf(program, request_.kernel, diags));
  TRY_VOID(ReadFiles());
  TRY(values_, api::CheckValues(signature_, request_.values, diags));
  TRY_VOID(MakeViews());
  // Addresses are not known yet; a device's are multiples of 256.
  for (auto& [name, view] : views_) view.data = 4096;
  const api::RuntimeSignature runtime_signature = api::ForRuntime(signature_);
  TRY(call_, api::BindCall(program, signature_, runtime_signature, values_, views_, diags));
  TRY_VOID(CheckSizes());
  TRY_VOID(session_.Tune(signature_, &call_, request_.device));
  result_.values = call_.all;
  TRY_VOID(FillTensors());
  if (request_.device) TRY_VOID(OnDevice());
  if (!result_.stopped && (request_.check || !request_.device)) TRY_VOID(Interpreted());
  return std::move(result_);
}

Result<> KernelRun::ReadFiles() {
  for (const auto& [name, tensor] : request_.tensors) {
    views_[name] = {ir::Spelling(tensor.dtype), 0, tensor.dims, {}};
    tensors_[name] = tensor;
  }
  for (const auto& [name, path] : request_.files) {
    const frontend::ParamInfo* p = signature_.param(name);
    if (!p || p->role != frontend::ParamRole::kTensor) {
      if (!signature_.Has(name)) {  // CheckValues words it
        TRY_VOID(Discard(api::CheckValues(signature_, {{name, int64_t{0}}}, session_.diags())));
      }
      const char* kind = signature_.dim(name) ? "dim" : signature_.tune(name) ? "tune" : "scalar";
      return session_.diags()
          .Report(kNotScalarFile, Span{}, name, kind, signature_.kernel)
          .Place("command line");
    }
    TRY(runtime::NpyArray array, runtime::ReadNpy(path, ir::Spelling(p->dtype), session_.diags()));
    views_[name] = {array.dtype, 0, array.dims, {}};
    if (array.dtype == ir::Spelling(p->dtype)) {
      const auto bytes = std::as_bytes(std::span(array.bytes));
      tensors_[name] = ir::TensorValue::FromBytes(p->dtype, array.dims, bytes);
    }
  }
  return Done();
}

Result<> KernelRun::MakeViews() {
  TRY(const auto shapes, api::InferShapes(signature_, values_, views_, session_.diags()));
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    const std::vector<int64_t>& shape = shapes.at(p.name);
    TensorRun t;
    t.name = p.name;
    t.written = p.direction != ir::Direction::kIn;
    t.source = request_.tensors.count(p.name)  ? "given"
               : request_.inputs.count(p.name) ? "made"
                                               : "random";
    if (const auto file = request_.files.find(p.name); file != request_.files.end()) {
      t.source = file->second;
      t.dims = views_[p.name].dims;
    } else if (request_.tensors.count(p.name)) {
      t.dims = views_[p.name].dims;
    } else {
      t.dims = shape;
      views_[p.name] = {ir::Spelling(p.dtype), 0, shape, {}};
    }
    t.type = fmt::format("{}[{}]", ir::Spelling(p.dtype), fmt::join(t.dims, ", "));
    result_.tensors.push_back(std::move(t));
  }
  return Done();
}

// What is only written starts out random too: an element that is not written shows.
Result<> KernelRun::FillTensors() {
  uint64_t index = 0;
  TRY(const auto uses, Uses());
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    ++index;
    if (tensors_.count(p.name)) continue;
    const std::vector<int64_t>& shape = views_[p.name].dims;
    const auto use = uses.find(p.name);
    if (const auto made = request_.inputs.find(p.name); made != request_.inputs.end()) {
      TRY(tensors_[p.name], MadeTensor(p.name, p.dtype, shape, made->second,
                                       request_.seed * 1000003 + index, session_.diags()));
      continue;
    }
    tensors_[p.name] = RandomTensor(p.dtype, shape, use == uses.end() ? IntegerUse() : use->second,
                                    AllShapes(), request_.seed * 1000003 + index);
  }
  return Done();
}

Shapes KernelRun::AllShapes() const {
  Shapes shapes;
  for (const TensorRun& t : result_.tensors) shapes[t.name] = t.dims;
  return shapes;
}

// What the kernel does with its tensors of integers; looked at quietly.
Result<std::map<std::string, IntegerUse>> KernelRun::Uses() {
  const bool integers =
      std::any_of(signature_.params.begin(), signature_.params.end(), [](const auto& p) {
        return p.role == frontend::ParamRole::kTensor && ir::IsInteger(p.dtype);
      });
  if (!integers) return std::map<std::string, IntegerUse>();
  TRY(const ir::Function fn,
      api::MakeTileIr(session_.loaded(), signature_.kernel, call_, nullptr, session_.diags()));
  return IntegerUses(fn, AllShapes());
}

// Everything that will not fit is refused before anything is filled, which may take minutes.
Result<> KernelRun::CheckSizes() {
  constexpr double kGiB = double{1 << 30};
  const bool interpreted = request_.check || !request_.device;
  double bytes = 0;
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    TRY(const double n, CheckSize(p, views_[p.name].dims, interpreted));
    const bool written = p.direction != ir::Direction::kIn;
    const double own = ir::ByteSize(p.dtype), number = sizeof(double);
    // A number per element, and a bound where it is interpreted; the bytes of the argument and of
    // the device; what comes out.
    bytes += n * (number + (interpreted && written ? number : 0) + 2 * own +
                  (request_.device && written ? number + own : 0));
  }
  const double most = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (bytes <= most || most <= 0) return Done();
  return session_.diags()
      .Report(kNoHostMemory, Span{}, signature_.kernel, bytes / kGiB, most / kGiB)
      .Place("command line");
}

// Random tensors are made in the host's memory with room for the bounds. Elements.
Result<double> KernelRun::CheckSize(const frontend::ParamInfo& p, const std::vector<int64_t>& shape,
                                    bool interpreted) {
  constexpr int64_t kMaxElements = int64_t{1} << 32;
  const int64_t most = interpreted ? ir::kMaxTensorElements : kMaxElements;
  int64_t n = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0.0;
  for (int64_t d : shape) {
    if (!__builtin_mul_overflow(n, d, &n) && n <= most) continue;
    if (interpreted)
      return session_.diags()
          .Report(ir::kInterpretLimit, p.at, fmt::format("elements of `{}`", p.name),
                  fmt::format("[{}]", fmt::join(shape, ", ")), most)
          .Place("command line");
    return session_.diags()
        .Report(kTensorTooBig, p.at, p.name,
                fmt::format("{}[{}]", ir::Spelling(p.dtype), fmt::join(shape, ", ")))
        .Place("command line");
  }
  return static_cast<double>(n);
}

Result<ir::Function*> KernelRun::TileIr() {
  if (!tile_ir_) {
    TRY(tile_ir_, api::MakeTileIr(session_.loaded(), signature_.kernel, call_, &session_.look(),
                                  session_.diags()));
  }
  return &*tile_ir_;
}

Result<backend::KernelImage> KernelRun::Compile() {
  const bool keep = request_.images && !session_.look().looks();
  const api::PipelineOptions options = session_.pipeline();
  std::string key;
  if (keep) {
    key = api::ImageKey(session_.loaded(), signature_.kernel, call_, options);
    if (const auto at = request_.images->find(key); at != request_.images->end()) return at->second;
  }
  auto image = api::CompileCall(
      session_.loaded(), signature_.kernel, call_, options,
      {.cache = session_.cache(), .look = &session_.look(), .cached = &result_.cached},
      session_.diags());
  if (keep && image.ok()) request_.images->emplace(std::move(key), *image);
  return image;
}

Result<> KernelRun::OnDevice() {
  DiagSink& diags = session_.diags();
  runtime::Device& device = *request_.device;
  const Clock::time_point start = Clock::now();
  auto image = Compile();
  if (session_.look().stopped) {
    result_.stopped = true;
    return Done();
  }
  if (!image.ok()) return DiagSink::Propagate();
  api::ShowPaths(session_.loaded(), &*image);
  if (request_.rewrite) {
    for (backend::KernelImage& launch : image->before) launch.ptx = request_.rewrite(launch.ptx);
    image->ptx = request_.rewrite(image->ptx);
  }
  TRY(auto kernel, runtime::LoadedKernel::Load(device, std::move(*image), diags));
  result_.compiled = true;
  result_.compile_ms = Since(start);
  Allocations memory(&device);
  for (auto& [name, tensor] : tensors_) {
    const std::vector<std::byte> bytes = tensor.ToBytes();
    TRY(call_.launch.tensors[name].data, memory.Make(bytes.size(), diags));
    TRY_VOID(device.CopyIn(call_.launch.tensors[name].data, bytes.data(), bytes.size(), diags));
  }
  for (int i = 0; i < std::max(1, request_.repeat); ++i) {
    runtime::LaunchStats stats;
    if (i > 0) TRY_VOID(Refill(device));
    TRY_VOID(kernel->Launch(call_.launch, 0, &stats, diags));
    if (i == 0 || stats.milliseconds < result_.stats.milliseconds) result_.stats = stats;
  }
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor || p.direction == ir::Direction::kIn) continue;
    const runtime::TensorView& view = call_.launch.tensors[p.name];
    std::vector<std::byte> bytes(static_cast<size_t>(runtime::ElementCount(view)) *
                                 static_cast<size_t>(ir::ByteSize(p.dtype)));
    TRY_VOID(device.CopyOut(bytes.data(), view.data, bytes.size(), diags));
    result_.outputs[p.name] = ir::TensorValue::FromBytes(p.dtype, view.dims, bytes);
  }
  if (!session_.options().timeline.empty()) {
    TRY_VOID(Refill(device));
    TRY(result_.timeline, RecordTimeline(session_, device, signature_.kernel, call_));
  }
  return Done();
}

// Repeated launches start from the same contents.
Result<> KernelRun::Refill(runtime::Device& device) {
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor || p.direction == ir::Direction::kIn) continue;
    const std::vector<std::byte> bytes = tensors_[p.name].ToBytes();
    TRY_VOID(device.CopyIn(call_.launch.tensors[p.name].data, bytes.data(), bytes.size(),
                           session_.diags()));
  }
  return Done();
}

Result<RunResult> RunKernel(Session& session, const RunRequest& request) {
  return KernelRun(session, request).Do();
}

}  // namespace tilec::tools
