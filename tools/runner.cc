// SPDX-License-Identifier: Apache-2.0
#include "tools/runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "api/schedule_names.h"
#include "ir/diagnostics.h"
#include "ir/interpret.h"
#include "runtime/launch.h"
#include "runtime/npy.h"
#include "tools/diagnostics.h"
#include "tools/random_inputs.h"
#include "tools/timeline.h"

namespace tilec::tools {

namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

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

class Run {
 public:
  Run(Session& session, const RunRequest& request) : session_(session), request_(request) {}

  Result<RunResult> Do() {
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

 private:
  Result<> ReadFiles() {
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
      TRY(runtime::NpyArray array,
          runtime::ReadNpy(path, ir::Spelling(p->dtype), session_.diags()));
      views_[name] = {array.dtype, 0, array.dims, {}};
      if (array.dtype == ir::Spelling(p->dtype)) {
        const auto bytes = std::as_bytes(std::span(array.bytes));
        tensors_[name] = ir::TensorValue::FromBytes(p->dtype, array.dims, bytes);
      }
    }
    return Done();
  }

  template <typename T>
  static Result<> Discard(Result<T> r) {
    if (r.ok()) return Done();
    return DiagSink::Propagate();
  }

  Result<> MakeViews() {
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
  Result<> FillTensors() {
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
      tensors_[p.name] =
          RandomTensor(p.dtype, shape, use == uses.end() ? IntegerUse() : use->second, AllShapes(),
                       request_.seed * 1000003 + index);
    }
    return Done();
  }

  Shapes AllShapes() const {
    Shapes shapes;
    for (const TensorRun& t : result_.tensors) shapes[t.name] = t.dims;
    return shapes;
  }

  // What the kernel does with its tensors of integers; looked at quietly.
  Result<std::map<std::string, IntegerUse>> Uses() {
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
  Result<> CheckSizes() {
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
  Result<double> CheckSize(const frontend::ParamInfo& p, const std::vector<int64_t>& shape,
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

  Result<ir::Function*> TileIr() {
    if (!tile_ir_) {
      TRY(tile_ir_, api::MakeTileIr(session_.loaded(), signature_.kernel, call_, &session_.look(),
                                    session_.diags()));
    }
    return &*tile_ir_;
  }

  Result<backend::KernelImage> Compile() {
    const bool keep = request_.images && !session_.look().looks();
    const api::PipelineOptions options = session_.pipeline();
    std::string key;
    if (keep) {
      key = api::ImageKey(session_.loaded(), signature_.kernel, call_, options);
      if (const auto at = request_.images->find(key); at != request_.images->end())
        return at->second;
    }
    auto image =
        api::CompileCall(session_.loaded(), signature_.kernel, call_, options, session_.cache(),
                         &session_.look(), &result_.cached, session_.diags());
    if (keep && image.ok()) request_.images->emplace(std::move(key), *image);
    return image;
  }

  Result<> OnDevice() {
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
    if (request_.rewrite) image->ptx = request_.rewrite(image->ptx);
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
  Result<> Refill(runtime::Device& device) {
    for (const frontend::ParamInfo& p : signature_.params) {
      if (p.role != frontend::ParamRole::kTensor || p.direction == ir::Direction::kIn) continue;
      const std::vector<std::byte> bytes = tensors_[p.name].ToBytes();
      TRY_VOID(device.CopyIn(call_.launch.tensors[p.name].data, bytes.data(), bytes.size(),
                             session_.diags()));
    }
    return Done();
  }

  // May CTAs share what a tile adds up?
  int64_t Parts() const {
    return api::SplitOf(session_.pipeline().For(call_).schedule).value_or(call_.split);
  }

  Result<> Interpreted() {
    const Clock::time_point start = Clock::now();
    TRY(ir::Function * fn, TileIr());
    ir::InterpretInputs inputs;
    std::map<std::string, ir::TensorValue> before;
    if (!request_.expect.empty()) before = tensors_;
    inputs.tensors = std::move(tensors_);
    for (const auto& [name, value] : call_.launch.scalars)
      std::visit([&, &name = name](auto v) { inputs.scalars[name] = static_cast<double>(v); },
                 value);
    for (const auto& [name, value] : call_.all)
      if (signature_.dim(name)) inputs.dims[name] = std::get<int64_t>(value);
    for (const auto& [name, value] : call_.launch.scalars)
      if (const auto* i = std::get_if<int64_t>(&value)) inputs.dims[name] = *i;
    ir::InterpretOptions options;
    if (session_.options().diagnostics == "text")
      options.progress = [this](const ir::InterpretProgress& p) {
        fmt::print(stderr, "  interpreting {}: instance {} of {}, {:.0f} s so far\n",
                   signature_.kernel, p.instances, p.of, p.seconds);
      };
    options.parts = Parts();
    TRY_VOID(ir::Interpret(*fn, inputs, options, session_.diags()));
    if (!request_.expect.empty()) TRY_VOID(Expected(std::move(before), inputs.tensors));
    for (TensorRun& t : result_.tensors) {
      if (!t.written) continue;
      if (!request_.device) {
        result_.outputs[t.name] = std::move(inputs.tensors[t.name]);
        continue;
      }
      t.result = ir::Compare(inputs.tensors[t.name], result_.outputs[t.name],
                             {.tolerance = request_.tolerance});
      t.compared = true;
      if (request_.keep_reference) result_.reference[t.name] = std::move(inputs.tensors[t.name]);
    }
    if (request_.device)
      result_.check_ms = Since(start);
    else
      result_.stats.milliseconds = Since(start);
    return Done();
  }

  // The kernel that was named, on what ours began with; `ours` is what the interpreter made of it.
  Result<> Expected(std::map<std::string, ir::TensorValue> start,
                    const std::map<std::string, ir::TensorValue>& ours) {
    DiagSink& diags = session_.diags();
    TRY(const frontend::Signature reference,
        frontend::SignatureOf(*session_.loaded().program, request_.expect, diags));
    RunRequest request;
    request.kernel = request_.expect;
    for (const auto& [name, value] : request_.values)
      if (reference.Has(name)) request.values[name] = value;
    for (const frontend::ParamInfo& p : reference.params) {
      if (p.role != frontend::ParamRole::kTensor) continue;
      const auto at = start.find(p.name);
      if (at == start.end() || at->second.dtype != p.dtype)
        return diags.Report(kExpectTensor, p.at, request_.expect, p.name, ir::Spelling(p.dtype),
                            signature_.kernel);
      request.tensors[p.name] = std::move(at->second);
    }
    TRY(const RunResult wanted, RunKernel(session_, request));
    int compared = 0;
    for (TensorRun& t : result_.tensors) {
      const auto at = wanted.outputs.find(t.name);
      if (!t.written || at == wanted.outputs.end()) continue;
      const ir::TensorValue& mine = ours.at(t.name);
      const ir::TensorValue want = Allowed(at->second, mine, request_.tolerance);
      t.expected = ir::Compare(want, request_.device ? result_.outputs[t.name] : mine);
      ++compared;
    }
    if (compared == 0)
      return diags.Report(kExpectNothing, reference.at, request_.expect, signature_.kernel);
    return Done();
  }

  // `want` with the bound that another program's result has to keep.
  static ir::TensorValue Allowed(ir::TensorValue want, const ir::TensorValue& mine,
                                 double tolerance) {
    double sum = 0;
    for (double v : want.v) sum += std::isfinite(v) ? v * v : 0;
    const double rms = want.v.empty() ? 0 : std::sqrt(sum / static_cast<double>(want.v.size()));
    if (ir::IsFloat(want.dtype)) {
      want.e.resize(want.v.size());
      for (size_t i = 0; i < want.v.size(); ++i)
        want.e[i] = tolerance >= 0 ? static_cast<float>(tolerance * (std::fabs(want.v[i]) + rms))
                                   : want.e[i] + (mine.e.empty() ? 0.0f : mine.e[i]);
    }
    if (!mine.undecided.empty()) {
      want.undecided.resize(mine.undecided.size());
      for (size_t i = 0; i < mine.undecided.size(); ++i) want.undecided[i] |= mine.undecided[i];
    }
    return want;
  }

  Session& session_;
  const RunRequest& request_;
  frontend::Signature signature_;
  frontend::Values values_;
  api::Tensors views_;
  std::map<std::string, ir::TensorValue> tensors_;
  api::Call call_;
  std::optional<ir::Function> tile_ir_;
  RunResult result_;
};

std::string Index(int64_t linear, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    at[i] = dims[i] ? linear % dims[i] : 0;
    linear /= std::max<int64_t>(1, dims[i]);
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

}  // namespace

Result<RunResult> RunKernel(Session& session, const RunRequest& request) {
  return Run(session, request).Do();
}

void Decided::Add(int64_t decided_ones, int64_t sampled_ones, int64_t undecided_ones) {
  decided += decided_ones;
  sampled += sampled_ones;
  undecided += undecided_ones;
  enough = enough && decided_ones >= undecided_ones;
}

void Decided::Add(const Decided& other) {
  decided += other.decided;
  sampled += other.sampled;
  undecided += other.undecided;
  enough = enough && other.enough;
}

std::string Decided::Text() const {
  return fmt::format("{} elements decided{}, {} undecided", decided,
                     sampled > 0 ? fmt::format(" ({} by sampling)", sampled) : "", undecided);
}

Decided RunResult::decided() const {
  Decided out;
  bool compared = false;
  for (const TensorRun& t : tensors) {
    compared |= t.compared;
    if (t.compared) out.Add(t.result.checked, t.result.sampled, t.result.undecided);
  }
  if (compared) return out;
  for (const auto& [name, value] : outputs) {
    const auto count = [](const std::vector<uint8_t>& flags) {
      return static_cast<int64_t>(flags.size()) - std::count(flags.begin(), flags.end(), 0);
    };
    const int64_t undecided = count(value.undecided);
    out.Add(value.elements() - undecided, count(value.sampled), undecided);
  }
  return out;
}

std::string DescribeCheck(const TensorRun& t) { return DescribeCheck(t, t.result); }

std::string DescribeCheck(const TensorRun& t, const ir::CompareResult& r) {
  std::string out = fmt::format("max error {:.2g}, {:.2f} of the bound, {} elements", r.max_error,
                                r.max_ratio, r.checked);
  if (r.sampled > 0) out += fmt::format(" ({} by sampling)", r.sampled);
  if (r.undecided > 0) out += fmt::format(", {} undecided", r.undecided);
  if (!r.ok())
    out += fmt::format("; {} WRONG, first {}{}: {:.9g} instead of {:.9g} within {:.3g}", r.failed,
                       t.name, Index(r.first_failed, t.dims), r.actual, r.expected, r.bound);
  return out;
}

}  // namespace tilec::tools
