// tilec bench: how fast a kernel is on the GPU at hand, how that compares with what the machine
// could do and, for products, with cuBLASLt in the same process. What the kernel has to do is
// counted on its tile IR.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "api/schedule_names.h"
#include "explain/problem.h"
#include "ir/count_work.h"
#include "ir/interpret.h"
#include "ir/passes/passes.h"
#include "runtime/launch.h"
#include "tools/assignments.h"
#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/cublaslt.h"
#include "tools/diagnostics.h"
#include "tools/report.h"
#include "tools/runner.h"
#include "tools/torch_peer.h"

namespace tilec::tools {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{24} << 30;
constexpr uint64_t kMostSets = 32;
constexpr int64_t kMostChecked = int64_t{1} << 28;  // elements of one tensor
constexpr int64_t kCheckedInstances = 4;
constexpr uint8_t kPoison = 0xFF;  // NaN in every float

struct Roof {
  double ms = 0;
  std::string what;  // "the tensor unit", "memory"
};

class Bench {
 public:
  explicit Bench(Session& session) : session_(session), o_(session.options()) {}
  ~Bench() {
    for (runtime::DeviceAddress a : allocated_) device_->Free(a);
  }

  Result<bool> Run() {
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

 private:
  Result<> CheckWords() {
    if (o_.compare.empty() || o_.compare == "cublas" || o_.compare == "torch") return Done();
    return session_.diags()
        .Report(kBadChoice, Span{}, "--compare", o_.compare)
        .Place("command line")
        .Help("use cublas or torch");
  }

  Result<> OpenGpu() {
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

  Result<> Bind(const Assignments& given) {
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
    TRY(call_,
        api::BindCall(program, signature_, api::ForRuntime(signature_), values, views, diags));
    TRY_VOID(session_.Tune(signature_, &call_, device_.get()));
    TRY(tile_, api::MakeTileIr(session_.loaded(), kernel_, call_, &session_.look(), diags));
    for (const auto& [name, value] : call_.all)
      if (const auto* i = std::get_if<int64_t>(&value)) names_[name] = *i;
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    TRY(clean_, api::RunSteps(session_.loaded(), *tile_, steps, session_.pipeline(),
                              &session_.look(), diags));
    TRY(const api::Machine machine, session_.Machine());
    target_ = *machine;
    work_ = ir::CountWork(*clean_, names_, target_);
    return Done();
  }

  Result<> Compile() {
    const Clock::time_point start = Clock::now();
    TRY(backend::KernelImage image,
        api::CompileCall(session_.loaded(), kernel_, call_, session_.pipeline(), session_.cache(),
                         &session_.look(), &cached_, session_.diags()));
    api::ShowPaths(session_.loaded(), &image);
    TRY(kernel_on_, runtime::LoadedKernel::Load(*device_, std::move(image), session_.diags()));
    compile_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    return Done();
  }

  static bool Written(const frontend::ParamInfo& p) { return p.direction != ir::Direction::kIn; }

  Result<> MakeBuffers() {
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
  Result<> Check() {
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

  Result<> LoadPeer() {
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

  std::vector<Contestant> Contestants() {
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

  // What binds, by the machine file: products on the tensor unit, or memory.
  Roof RoofOf() const {
    const double hz = static_cast<double>(target_.limits.clock_mhz) * 1e6;
    const double sms = static_cast<double>(target_.limits.sms);
    double cycles = 0;
    for (const auto& [row, flops] : work_.products)
      if (const ir::OpCost* cost = target_.CostOf(row)) {
        double most = 0;
        for (const ir::TargetUse& use : cost->uses)
          if (!target_.units[static_cast<size_t>(use.unit)].fluid)
            most = std::max(most, use.cycles.per.flops);
        cycles += most * flops;
      }
    Roof roof;
    if (hz > 0 && sms > 0) roof = {1e3 * cycles / (hz * sms), "the tensor unit"};
    if (const double gbs = static_cast<double>(target_.limits.memory_gbs); gbs > 0)
      if (const double ms = work_.least_bytes / gbs * 1e-6; ms > roof.ms) roof = {ms, "memory"};
    return roof;
  }

  // The loop with most to do, as the scheduler sees it.
  Result<> Predict() {
    int64_t most = 0;
    for (const auto& [loop, trips] : work_.trips)
      if (trips > most) most = trips, loop_ = clean_->ops[loop].at;
    trips_ = most;
    DiagSink quiet;  // a loop that cannot be scheduled has no prediction
    std::vector<explain::Reason> notes;
    const auto problems = explain::ProblemsOf(*clean_, target_, &notes, quiet);
    if (!problems.ok()) return Done();
    for (const explain::LoopProblem& problem : *problems) {
      if (problem.at.file != loop_.file || problem.at.begin != loop_.begin) continue;
      const auto solved = explain::SolveBest(problem, {}, nullptr, &notes, quiet);
      if (solved.ok()) predicted_ii_ = solved->solution.schedule.ii;
    }
    return Done();
  }

  double CyclesPerTrip(const Timing& t) const {
    const double mhz = t.sm_mhz.value_or(static_cast<double>(target_.limits.clock_mhz));
    return Median(t.sustained) * mhz * 1e3 * static_cast<double>(target_.limits.sms) /
           static_cast<double>(std::max<int64_t>(1, trips_));
  }

  void Print() {
    const Roof roof = RoofOf();
    fmt::print("{} on {}\n", kernel_, device_->description());
    for (const auto& [name, t] : call_.launch.tensors)
      fmt::print("  {}: {}[{}]\n", name, t.dtype, fmt::join(t.dims, ", "));
    fmt::print("  {} in {}, {} sets of buffers in turn\n", cached_ ? "cached" : "compiled",
               Duration(compile_ms_), sets_.size());
    fmt::print(
        "  {}{:.4g} GFLOP in products, {:.4g} G other operations, {:.4g} MB at least, "
        "{:.4g} MB through tiles\n",
        work_.exact ? "" : "at least ", work_.flops() * 1e-9, work_.arithmetic * 1e-9,
        work_.least_bytes * 1e-6, (work_.loaded_bytes + work_.stored_bytes) * 1e-6);
    fmt::print("  roofline {:.1f} us: {} ({})\n", 1e3 * roof.ms, roof.what, target_.title);
    if (checks_.empty()) fmt::print("  not checked: a tensor has more than 2^28 elements\n");
    for (const TensorRun& t : checks_)
      fmt::print("  {}: {} ({} of {} instances)\n", t.name, DescribeCheck(t), report_.interpreted,
                 report_.instances);
    for (const Timing& t : timings_) PrintTiming(t, roof);
    for (size_t i = 1; i < timings_.size(); ++i)
      fmt::print("  {} / tilec: {:.3f} sustained, {:.3f} rested\n", timings_[i].name,
                 Median(timings_[i].sustained) / Median(timings_[0].sustained),
                 Median(timings_[i].rested) / Median(timings_[0].rested));
    if (trips_ > 0 && predicted_ii_ > 0)
      fmt::print(
          "  II {} predicted, {:.0f} cycles per iteration measured ({} iterations, prologue "
          "and epilogue included)\n",
          predicted_ii_, CyclesPerTrip(timings_[0]), trips_);
    if (wrong_) fmt::print("WRONG: differs from the interpreter\n");
  }

  void PrintTiming(const Timing& t, const Roof& roof) {
    const auto line = [&](const char* regime, const std::vector<double>& rounds) {
      const double ms = Median(rounds);
      const auto [low, high] = std::minmax_element(rounds.begin(), rounds.end());
      std::string clocks;
      if (std::string(regime) == "sustained" && t.sm_mhz)
        clocks = fmt::format(", {:.0f} MHz, {:.0f} W", *t.sm_mhz, t.watts.value_or(0));
      fmt::print(
          "  {:9} {:8} {:10.2f} us  {:7.1f} TF/s  {:7.0f} GB/s  {:.2f} of the roofline  "
          "±{:.1f} %{}\n",
          regime, t.name, 1e3 * ms, work_.flops() / ms * 1e-9, work_.least_bytes / ms * 1e-6,
          roof.ms / ms, 50 * (*high - *low) / ms, clocks);
    };
    line("sustained", t.sustained);
    line("rested", t.rested);
  }

  Result<> WriteJson() {
    const Roof roof = RoofOf();
    std::string lines;
    for (const Timing& t : timings_)
      for (const auto& [regime, rounds] :
           {std::pair{"sustained", &t.sustained}, std::pair{"rested", &t.rested}}) {
        const double ms = Median(*rounds);
        Json j = {{"kernel", kernel_}, {"who", t.name}, {"regime", regime}, {"ms", ms}};
        j["rounds_ms"] = *rounds;
        for (const auto& [name, value] : call_.all) j["values"][name] = frontend::ToText(value);
        j["flops"] = work_.flops();
        j["least_bytes"] = work_.least_bytes;
        j["tflops"] = work_.flops() / ms * 1e-9;
        j["gbs"] = work_.least_bytes / ms * 1e-6;
        j["roofline_ms"] = roof.ms;
        j["roofline_share"] = roof.ms / ms;
        j["bound"] = roof.what;
        if (t.sm_mhz) j["sm_mhz"] = *t.sm_mhz;
        if (t.watts) j["watts"] = *t.watts;
        if (t.name == "tilec") {
          j["compile_ms"] = compile_ms_;
          if (predicted_ii_ > 0) j["predicted_ii"] = predicted_ii_;
          if (trips_ > 0) j["cycles_per_iteration"] = CyclesPerTrip(t);
          if (!checks_.empty()) j["right"] = !wrong_;
        }
        j["machine"] = target_.name;
        j["device"] = device_->description();
        j["compiler"] = api::CompilerVersion();
        TRY_VOID(AddToReport(session_, "bench", j));
        lines += j.dump() + "\n";
      }
    std::string why;
    if (o_.output.empty() || WriteOutput(o_.output, lines, &why)) return Done();
    return session_.diags().Report(kFileUnwritable, Span{}, o_.output, why).Place("command line");
  }

  Session& session_;
  const Options& o_;
  std::string kernel_;
  std::unique_ptr<runtime::Device> device_;
  frontend::Signature signature_;
  api::Call call_;
  std::optional<ir::Function> tile_, clean_;
  Bindings names_;
  ir::WorkCount work_;
  ir::Target target_;
  bool cached_ = false, may_check_ = true, wrong_ = false;
  double compile_ms_ = 0;
  std::unique_ptr<runtime::LoadedKernel> kernel_on_;
  std::vector<runtime::DeviceAddress> allocated_;
  std::vector<runtime::LaunchArgs> sets_;
  std::vector<std::shared_ptr<const runtime::LoadedKernel::Ready>> ready_;
  ir::InterpretInputs inputs_;
  ir::InterpretReport report_;
  std::vector<TensorRun> checks_;
  std::optional<Product> product_;
  std::unique_ptr<CublasLt> cublas_;
  std::unique_ptr<TorchPeer> torch_;
  Span loop_;
  int64_t trips_ = 0, predicted_ii_ = 0;
  std::vector<Timing> timings_;
};

}  // namespace

int CmdBench(const Options& options) {
  if (options.search) return CmdTune(options);
  Session session(options);
  bool right = false;
  {
    Bench bench(session);
    const auto result = bench.Run();
    right = result.ok() && *result;
  }
  const int code = session.Finish();
  if (code != kOk) return code;
  return right ? kOk : kMismatch;
}

}  // namespace tilec::tools
