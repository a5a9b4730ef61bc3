// tilec bench: how fast a kernel is on the GPU at hand, how that compares with what the machine
// could do and, for products, with cuBLASLt in the same process. What the kernel has to do is
// counted on its tile IR.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "api/schedule_names.h"
#include "ir/count_work.h"
#include "ir/interpret.h"
#include "ir/passes/defer_unlikely.h"
#include "ir/passes/passes.h"
#include "runtime/launch.h"
#include "tools/assignments.h"
#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/cublaslt.h"
#include "tools/diagnostics.h"
#include "tools/kernel_bench.h"
#include "tools/runner.h"
#include "tools/torch_peer.h"

namespace tilec::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostBytes = uint64_t{24} << 30;
constexpr uint64_t kMostSets = 32;
constexpr int64_t kMostChecked = int64_t{1} << 28;  // elements of one tensor
constexpr int64_t kCheckedInstances = 4;
constexpr uint8_t kPoison = 0xFF;  // NaN in every float

}  // namespace

Result<bool> KernelBench::Run() {
  DiagSink& diags = session_.diags();
  TRY_VOID(session_.CheckOptions());
  TRY_VOID(CheckWords());
  TRY(const Assignments given, ParseAssignments(o_.assignments, diags));
  TRY(kernel_, session_.LoadKernel(o_.file));
  TRY_VOID(OpenGpu());
  TRY_VOID(Bind(given));
  TRY_VOID(Compile());
  TRY_VOID(MakeBuffers());
  TRY_VOID(Check());
  TRY_VOID(LoadPeer());
  TRY_VOID(Predict());
  BenchOptions options{sets_.size(), o_.rounds, o_.seconds, 0.5};
  TRY(timings_, MeasureInTurns(*device_, Contestants(), options, diags));
  Print();
  if (!o_.timeline.empty()) {
    api::Call call = call_;
    call.launch = sets_[0];
    TRY(const Timeline timeline, RecordTimeline(session_, *device_, kernel_, call));
    TRY_VOID(WriteTimeline(session_, timeline, kernel_, device_->description()));
  }
  if (!o_.output.empty() || !o_.report.empty()) TRY_VOID(WriteJson());
  return !wrong_;
}

Result<> KernelBench::CheckWords() {
  if (o_.compare.empty() || o_.compare == "cublas" || o_.compare == "torch") return Done();
  return session_.diags()
      .Report(kBadChoice, Span{}, "--compare", o_.compare)
      .Place("command line")
      .Help("use cublas or torch");
}

Result<> KernelBench::OpenGpu() {
  const std::string name = o_.device == "auto" ? "cuda" : o_.device;
  if (name == "interpreter" || name == "emulator")
    return session_.diags()
        .Report(kNoClock, Span{}, name)
        .Place("command line")
        .Help(fmt::format("`tilec run --device={}` says whether a kernel is right", name));
  std::string why;
  TRY(device_, session_.OpenNamed(name, &why));
  return Done();
}

Result<> KernelBench::Bind(const Assignments& given) {
  DiagSink& diags = session_.diags();
  const frontend::Program& program = *session_.loaded().program;
  TRY(signature_, frontend::SignatureOf(program, kernel_, diags));
  if (!given.files.empty())
    return diags.Report(kUsage, Span{}, "`tilec bench` fills tensors itself")
        .Place("command line")
        .Help("give dims, scalars, constants and tunes");
  TRY(const frontend::Values values, api::CheckValues(signature_, given.values, diags));
  TRY(const auto shapes, api::InferShapes(signature_, values, {}, diags));
  api::Tensors views;
  for (const frontend::ParamInfo& p : signature_.params)
    if (p.role == frontend::ParamRole::kTensor)
      views[p.name] = {ir::Spelling(p.dtype), 4096, shapes.at(p.name), {}};
  TRY(call_, api::BindCall(program, signature_, api::ForRuntime(signature_), values, views, diags));
  TRY_VOID(session_.Tune(signature_, &call_, device_.get()));
  TRY(tile_, api::MakeTileIr(session_.loaded(), kernel_, call_, &session_.look(), diags));
  for (const auto& [name, value] : call_.all)
    if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
  std::vector<ir::PassStep> steps;
  for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
  TRY(clean_, api::RunSteps(session_.loaded(), ir::Likely(*tile_), steps, session_.pipeline(),
                            &session_.look(), diags));
  TRY(const api::Machine machine, session_.Machine());
  target_ = *machine;
  work_ = ir::CountWork(*clean_, names_, target_);
  return Done();
}

Result<> KernelBench::Compile() {
  const Clock::time_point start = Clock::now();
  TRY(backend::KernelImage image,
      api::CompileCall(session_.loaded(), kernel_, call_, session_.pipeline(),
                       {.cache = session_.cache(), .look = &session_.look(), .cached = &cached_},
                       session_.diags()));
  api::ShowPaths(session_.loaded(), &image);
  TRY(kernel_on_, runtime::LoadedKernel::Load(*device_, std::move(image), session_.diags()));
  compile_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return Done();
}

Result<> KernelBench::MakeBuffers() {
  DiagSink& diags = session_.diags();
  uint64_t bytes = 0, seed = o_.seed * 1000003;
  std::map<std::string, std::vector<std::byte>> contents;
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    const std::vector<int64_t>& dims = call_.launch.tensors[p.name].dims;
    ir::TensorValue value = ir::TensorValue::Random(p.dtype, dims, ++seed);
    contents[p.name] = value.ToBytes();
    bytes += contents[p.name].size();
    may_check_ &= value.elements() <= kMostChecked;
    inputs_.tensors[p.name] = std::move(value);
  }
  const uint64_t fit = std::max<uint64_t>(1, kMostBytes / std::max<uint64_t>(1, bytes));
  const uint64_t wanted = std::max<uint64_t>(
      3, 1 + 2 * static_cast<uint64_t>(target_.limits.l2_bytes) / std::max<uint64_t>(1, bytes));
  for (uint64_t i = 0; i < std::min({wanted, fit, kMostSets}); ++i) {
    runtime::LaunchArgs args = call_.launch;
    for (const auto& [name, data] : contents) {
      TRY(args.tensors[name].data, device_->Alloc(data.size(), diags));
      allocated_.push_back(args.tensors[name].data);
      TRY_VOID(device_->CopyIn(args.tensors[name].data, data.data(), data.size(), diags));
    }
    TRY(auto ready, kernel_on_->Prepare(args, diags));
    sets_.push_back(std::move(args));
    ready_.push_back(std::move(ready));
  }
  return Done();
}

// One launch on poisoned outputs, held against the interpreter on a sample of the grid.
Result<> KernelBench::Check() {
  DiagSink& diags = session_.diags();
  std::map<std::string, uint64_t> sizes;
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    sizes[p.name] = static_cast<uint64_t>(inputs_.tensors[p.name].elements()) *
                    static_cast<uint64_t>(ir::ByteSize(p.dtype));
    if (p.direction != ir::Direction::kOut) continue;
    TRY_VOID(device_->Fill(sets_[0].tensors[p.name].data, kPoison, sizes[p.name], diags));
    inputs_.tensors.erase(p.name);
  }
  TRY_VOID(kernel_on_->Launch(*ready_[0], 0, nullptr, diags));
  TRY_VOID(device_->Synchronize(0, diags));
  if (!may_check_) return Done();
  for (const auto& [name, value] : call_.launch.scalars) {
    std::visit([&, &name = name](auto v) { inputs_.scalars[name] = static_cast<double>(v); },
               value);
    if (const auto* i = std::get_if<int64_t>(&value)) inputs_.dims[name] = *i;
  }
  for (const auto& [name, value] : call_.all)
    if (signature_.dim(name)) inputs_.dims[name] = std::get<int64_t>(value);
  ir::InterpretOptions options;
  options.max_instances = kCheckedInstances;
  options.parts = api::SplitOf(session_.pipeline().For(call_).schedule).value_or(call_.split);
  TRY(report_, ir::Interpret(*tile_, inputs_, options, diags));
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor || !Written(p)) continue;
    std::vector<std::byte> bytes(sizes[p.name]);
    TRY_VOID(device_->CopyOut(bytes.data(), sets_[0].tensors[p.name].data, bytes.size(), diags));
    TensorRun t;
    t.name = p.name;
    t.dims = call_.launch.tensors[p.name].dims;
    t.result = ir::Compare(inputs_.tensors[p.name], bytes);
    wrong_ |= !t.result.ok();
    checks_.push_back(std::move(t));
  }
  inputs_.tensors.clear();
  return Done();
}

Result<> KernelBench::LoadPeer() {
  if (o_.compare.empty()) return Done();
  product_ = FindProduct(*tile_);
  if (!product_)
    return session_.diags()
        .Report(kNoPeer, Span{}, kernel_)
        .Place("command line")
        .Help("leave --compare out, or see bench/yardstick");
  if (o_.compare == "torch") {
    TorchRequest request;
    request.sets = sets_.size();
    if (const size_t colon = o_.device.find(':'); colon != std::string::npos)
      request.device = std::atoi(o_.device.c_str() + colon + 1);
    TRY(torch_, StartTorch(*product_, sets_[0], request, session_.diags()));
    return Done();
  }
  TRY(cublas_, LoadCublasLt(*device_, session_.diags()));
  return Done();
}

std::vector<Contestant> KernelBench::Contestants() {
  std::vector<Contestant> out;
  out.push_back({"tilec", [this](size_t set, DiagSink& diags) {
                   return kernel_on_->Launch(*ready_[set], 0, nullptr, diags);
                 }});
  if (cublas_)
    out.push_back({"cublaslt", [this](size_t set, DiagSink& diags) {
                     return cublas_->Launch(*product_, sets_[set], diags);
                   }});
  if (torch_)
    out.push_back({"torch", nullptr,
                   [this](int count, DiagSink& diags) { return torch_->Time(count, diags); }});
  return out;
}

int CmdBench(const Options& options) {
  if (options.search) return CmdTune(options);
  Session session(options);
  bool right = false;
  {
    KernelBench bench(session);
    const auto result = bench.Run();
    right = result.ok() && *result;
  }
  const int code = session.Finish();
  if (code != kOk) return code;
  return right ? kOk : kMismatch;
}

}  // namespace tilec::tools
