// What the judge costs: emulated launches on one thread, unchecked and checked, with both
// arithmetics, as processor time of the launch, the best of several.
//
//   judge_bench            the table of docs/emulator.md
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "runtime/emulator/judge/finding.h"
#include "tools/subject.h"

namespace tilec::tools {
namespace {

struct Work {
  const char* name;
  const char* file;
  std::vector<std::string> assignments;
  int repeat;
};

// Of this thread, which runs the launch when it is the only one: other work on the machine counts
// less than with a clock on the wall.
double ProcessorMs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// A device that knows how long its launches took.
class Timed : public runtime::Device {
 public:
  explicit Timed(const runtime::EmulatorOptions& options)
      : inner_(runtime::OpenEmulator(options)) {}
  double milliseconds = 0;

  std::string kind() const override { return inner_->kind(); }
  std::string description() const override { return inner_->description(); }
  std::string isa() const override { return inner_->isa(); }
  Result<runtime::DeviceAddress> Alloc(uint64_t bytes, DiagSink& diags) override {
    return inner_->Alloc(bytes, diags);
  }
  void Free(runtime::DeviceAddress address) override { inner_->Free(address); }
  Result<> CopyIn(runtime::DeviceAddress to, const void* from, uint64_t bytes,
                  DiagSink& diags) override {
    return inner_->CopyIn(to, from, bytes, diags);
  }
  Result<> CopyOut(void* to, runtime::DeviceAddress from, uint64_t bytes,
                   DiagSink& diags) override {
    return inner_->CopyOut(to, from, bytes, diags);
  }
  Result<> Fill(runtime::DeviceAddress to, uint8_t byte, uint64_t bytes, DiagSink& diags) override {
    return inner_->Fill(to, byte, bytes, diags);
  }
  Result<std::unique_ptr<runtime::Module>> Load(const std::string& ptx,
                                                const runtime::LoadOptions& options,
                                                DiagSink& diags) override {
    return inner_->Load(ptx, options, diags);
  }
  Result<runtime::TensorMap> EncodeTensorMap(const runtime::TensorMapDesc& desc,
                                             DiagSink& diags) override {
    return inner_->EncodeTensorMap(desc, diags);
  }
  Result<runtime::StreamId> NewStream(DiagSink& diags) override { return inner_->NewStream(diags); }
  Result<> Launch(const runtime::Module& module, const std::string& entry,
                  const runtime::LaunchConfig& config, const std::vector<runtime::KernelArg>& args,
                  runtime::StreamId stream, runtime::LaunchStats* stats, DiagSink& diags) override {
    const double start = ProcessorMs();
    auto result = inner_->Launch(module, entry, config, args, stream, stats, diags);
    milliseconds = ProcessorMs() - start;
    return result;
  }
  Result<> Synchronize(runtime::StreamId stream, DiagSink& diags) override {
    return inner_->Synchronize(stream, diags);
  }

 private:
  std::unique_ptr<runtime::Device> inner_;
};

// The best of several runs; negative if one fails.
double Best(Subject& subject, const runtime::EmulatorOptions& options, int repeat) {
  double best = -1;
  for (int k = 0; k < repeat; ++k) {
    Timed device(options);
    if (!subject.Run(device).ok()) return -1;
    const double ms = device.milliseconds;
    best = best < 0 ? ms : std::min(best, ms);
  }
  return best;
}

Result<> Run(const Work& work, const std::string& schedule) {
  Options o;
  o.schedule = schedule;
  o.file = work.file;
  o.no_cache = true;
  Session session(o);
  TRY(const Assignments given, ParseAssignments(work.assignments, session.diags()));
  TRY(const std::string kernel, session.LoadKernel(o.file));
  TRY(auto subject, KernelSubject(session, kernel, given));
  runtime::EmulatorOptions options;
  options.threads = 1;
  double times[4];
  for (int k = 0; k < 4; ++k) {
    using Options = runtime::EmulatorOptions;
    options.arithmetic = k < 2 ? Options::Arithmetic::kFast : Options::Arithmetic::kExact;
    options.check = k % 2 == 0 ? Options::Check::kOff : Options::Check::kOn;
    options.report = std::make_shared<runtime::judge::Report>();
    times[k] = Best(*subject, options, work.repeat);
    if (!options.report->findings().empty())
      fmt::print("{}", runtime::judge::ToText(options.report->findings()));
  }
  fmt::print("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", work.name, schedule, times[0],
             times[1], times[2], times[3]);
  std::fflush(stdout);
  return Done();
}

int Main() {
  const Work works[] = {
      {"gemm 512³", "stdlib/matmul.tile:gemm", {"M=512", "N=512", "K=512"}, 9},
      {"attention B1 H2 S512 D128",
       "stdlib/attention.tile:attention",
       {"B=1", "H=2", "G=2", "S=512", "L=512", "D=128", "scale=0.088", "causal=false"},
       9},
      {"gemm 2048³", "stdlib/matmul.tile:gemm", {"M=2048", "N=2048", "K=2048"}, 2},
  };
  fmt::print("| ms of one core | schedule | fast | checked | exact | checked |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const Work& w : works)
    for (const char* schedule : {"sequential", "solve"})
      if (!Run(w, schedule).ok()) return 1;
  return 0;
}

}  // namespace
}  // namespace tilec::tools

int main() { return tilec::tools::Main(); }
