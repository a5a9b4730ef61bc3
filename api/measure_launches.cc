// SPDX-License-Identifier: Apache-2.0
#include "api/measure_launches.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "ir/interpret.h"

namespace tilec::api {

namespace {

constexpr int64_t kBlock = 1 << 18;                // random elements that repeat in a tensor
constexpr uint64_t kMostMore = uint64_t{2} << 30;  // bytes of the sets behind the first
constexpr uint64_t kMostSets = 8;
constexpr uint64_t kLine = 256;        // that addresses are remembered to
constexpr int kInGraph = 16;           // launches, or as many as there are sets
constexpr double kShort = 0.1;         // ms: launches that go as graphs
constexpr int kMostLaunches = 100000;  // of one turn

// What it holds decides what a kernel does.
bool Steers(ir::DType dtype) { return ir::IsInteger(dtype) || dtype == ir::DType::kBool; }

}  // namespace

void SideBySide(size_t count, size_t most, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  const auto all = [&] {
    for (size_t i; (i = next++) < count;) work(i);
  };
  const size_t threads =
      std::min<size_t>({count, most, std::max(1u, std::thread::hardware_concurrency())});
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(all);
  all();
  for (std::thread& t : others) t.join();
}

Storage StorageOf(const runtime::TensorView& view) {
  const std::vector<int64_t> strides = runtime::EffectiveStrides(view);
  int64_t low = 0, high = 1;
  for (size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i] == 0) return {};
    const int64_t reach = (view.dims[i] - 1) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto size = static_cast<uint64_t>(runtime::DTypeBytes(view.dtype));
  return {static_cast<uint64_t>(-low) * size, static_cast<uint64_t>(high - low) * size};
}

MeasureLaunches::MeasureLaunches(runtime::Device& device, const frontend::Signature& signature,
                                 const Call& call, int64_t l2_bytes, const MeasureBy& by)
    : device_(device),
      signature_(signature),
      call_(call),
      l2_bytes_(l2_bytes),
      by_(by),
      watch_(device.NewStopwatch()) {}

MeasureLaunches::~MeasureLaunches() {
  DiagSink quiet;
  (void)device_.Synchronize(by_.stream, quiet).ok();
  programs_.clear();
  for (runtime::DeviceAddress at : allocated_) device_.Free(at);
}

std::vector<bool> MeasureLaunches::Load(std::vector<backend::KernelImage> images, DiagSink& diags) {
  std::vector<std::unique_ptr<runtime::LoadedKernel>> loaded(images.size());
  std::vector<DiagSink> said(images.size());
  SideBySide(images.size(), by_.threads, [&](size_t i) {
    auto kernel = runtime::LoadedKernel::Load(device_, std::move(images[i]), said[i]);
    if (kernel.ok()) loaded[i] = *std::move(kernel);
  });
  std::vector<bool> taken;
  for (size_t i = 0; i < loaded.size(); ++i) {
    taken.push_back(loaded[i] != nullptr);
    if (!loaded[i]) said[i].MoveTo(diags);
    if (!loaded[i]) continue;
    Program program;
    program.kernel = std::move(loaded[i]);
    programs_.push_back(std::move(program));
  }
  return taken;
}

bool MeasureLaunches::MakeTensors(DiagSink& diags) {
  uint64_t bytes = 0;
  for (const auto& [name, view] : call_.launch.tensors) bytes += StorageOf(view).bytes;
  bytes = std::max<uint64_t>(1, bytes);
  const uint64_t wanted = 1 + 2 * static_cast<uint64_t>(std::max<int64_t>(0, l2_bytes_)) / bytes;
  const uint64_t sets = std::min({std::max<uint64_t>(2, wanted), 1 + kMostMore / bytes, kMostSets});
  if (!MakeSet(diags)) return false;
  DiagSink quiet;
  while (sets_.size() < sets && MakeSet(quiet)) {
  }
  return true;
}

bool MeasureLaunches::MakeSet(DiagSink& diags) {
  runtime::LaunchArgs args = call_.launch;
  for (const frontend::ParamInfo& p : signature_.params) {
    if (p.role != frontend::ParamRole::kTensor) continue;
    runtime::TensorView& view = args.tensors.at(p.name);
    const Storage storage = StorageOf(view);
    const auto memory = device_.Alloc(storage.bytes + kLine, diags);
    if (!memory.ok()) return false;
    allocated_.push_back(*memory);
    // As far from a line's begin as the caller's.
    const uint64_t begin = *memory + (view.data - storage.before) % kLine;
    if (!Fill(p, storage, begin, diags)) return false;
    view.data = begin + storage.before;
  }
  sets_.push_back(std::move(args));
  return true;
}

bool MeasureLaunches::Fill(const frontend::ParamInfo& param, const Storage& storage,
                           runtime::DeviceAddress at, DiagSink& diags) {
  if (storage.bytes == 0) return true;
  std::vector<std::byte> block;
  if (Steers(param.dtype)) {
    if (by_.contents) block = by_.contents(param, call_.launch.tensors.at(param.name));
    if (block.size() != storage.bytes) return device_.Fill(at, 0, storage.bytes, diags).ok();
  } else {
    const auto elements = static_cast<int64_t>(storage.bytes) / ir::ByteSize(param.dtype);
    block = ir::TensorValue::Random(param.dtype, {std::min(kBlock, elements)}, 1).ToBytes();
  }
  for (uint64_t done = 0; done < storage.bytes; done += block.size())
    if (!device_
             .CopyIn(at + done, block.data(),
                     std::min<uint64_t>(block.size(), storage.bytes - done), diags)
             .ok())
      return false;
  return true;
}

void MeasureLaunches::BeginRound(int round) {
  if (round == 0) return;
  DiagSink quiet;
  for (const runtime::LaunchArgs& args : sets_)
    for (const frontend::ParamInfo& p : signature_.params) {
      if (p.role != frontend::ParamRole::kTensor || p.direction != ir::Direction::kInOut) continue;
      const runtime::TensorView& view = args.tensors.at(p.name);
      const Storage storage = StorageOf(view);
      (void)Fill(p, storage, view.data - storage.before, quiet);
    }
}

bool MeasureLaunches::Ready(Program& program, DiagSink& diags) {
  for (const runtime::LaunchArgs& args : sets_) {
    auto ready = program.kernel->Prepare(args, diags);
    if (!ready.ok()) return false;
    program.ready.push_back(*std::move(ready));
  }
  if (program.ready.front()->launches() > 0) return true;
  why_ = "its grid is empty";
  return false;
}

void MeasureLaunches::MakeGraph(Program& program) {
  auto graph = device_.NewGraph();
  if (graph == nullptr) return;
  DiagSink quiet;
  const int launches =
      std::max(kInGraph / static_cast<int>(sets_.size()), 1) * static_cast<int>(sets_.size());
  for (int i = 0; i < launches; ++i) {
    const auto& ready = program.ready[static_cast<size_t>(i) % sets_.size()];
    const auto apart = program.kernel->Apart(ready, quiet);
    if (!apart.ok() || !program.kernel->AddTo(*graph, **apart, quiet).ok()) return;
    if ((*apart)->launches() == 0) return;
  }
  program.graph = std::move(graph);
}

Timed MeasureLaunches::Fail(Program& program, const DiagSink& diags) {
  program.failed = true;
  if (why_.empty() && !diags.all().empty()) why_ = diags.all().front().message;
  return {};
}

double MeasureLaunches::Run(Program& program, int launches) {
  DiagSink diags;
  const int sets = static_cast<int>(sets_.size());
  bool ok = watch_->Start(by_.stream, diags).ok();
  int made = 0;
  if (program.graph) {
    const int each = std::max(kInGraph / sets, 1) * sets;
    for (; ok && made < launches; made += each) ok = program.graph->Run(by_.stream, diags).ok();
  } else {
    for (; ok && made < launches; ++made)
      ok =
          program.kernel
              ->Launch(*program.ready[static_cast<size_t>(made % sets)], by_.stream, nullptr, diags)
              .ok();
  }
  const auto ms = watch_->Stop(by_.stream, diags);
  if (!ok || !ms.ok()) {
    Fail(program, diags);
    return 0;
  }
  program.estimate_ms = *ms / std::max(1, made);
  return *ms;
}

Timed MeasureLaunches::Time(size_t number, double ms) {
  Program& program = programs_[number];
  Timed out;
  if (program.failed || (by_.stop != nullptr && *by_.stop)) return out;
  if (!program.warm) {
    program.warm = true;
    DiagSink diags;
    if (!Ready(program, diags)) return Fail(program, diags);
    for (const int launches : {static_cast<int>(sets_.size()), 3})
      out.spent += Run(program, launches);
    if (program.failed) return {};
    if (program.estimate_ms < kShort) {
      MakeGraph(program);
      if (program.graph) out.spent += Run(program, 1);
    }
  }
  const double launches = ms / std::max(program.estimate_ms, 1e-4);
  const double spent =
      Run(program, static_cast<int>(std::clamp(std::round(launches), 1.0, double{kMostLaunches})));
  out.spent += spent;
  out.ms = program.failed ? 0 : std::max(program.estimate_ms, 1e-9);
  return out;
}

}  // namespace tilec::api
