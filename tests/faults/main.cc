// Does the suite catch a compiler that is broken? Every row of faults.def is switched on, the
// samples that meet its place are compiled, and it is asked who notices:
//
//   plan       the compiler itself, before the proof: a law of the plan, an op that is refused
//   proof      the proof of warp programs
//   obeyed     the PTX read back against the schedule
//   emulator   a program that stops: a deadlock, an address, a copy that is not allowed
//   values     the emulator against the interpreter
//   judge      the emulator's checks
//
// A program that the proof refuses is run all the same, to see what the others would have said.
//
//   emitter_faults [--part=N/OF] [--only=NAME]
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "runtime/emulator/judge/finding.h"
#include "tests/faults/weave.h"
#include "tests/obeyed/wanted.h"
#include "tests/test_calls.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec::faults {

namespace {

std::set<std::string>& Switches() {
  static std::set<std::string> on;
  return on;
}

}  // namespace

bool IsOn(const char* fault) { return Switches().count(fault) > 0; }

namespace {

struct Sample {
  char letter;
  const char* kernel;
  const char* schedule;
  api::Given values;
};

std::vector<Sample> Samples() {
  const auto n = [](int64_t v) { return frontend::Values::mapped_type(v); };
  return {
      {'a', "product", "solve", {{"M", n(100)}, {"N", n(250)}, {"K", n(768)}}},
      {'b', "weighted", "solve", {{"M", n(64)}, {"L", n(660)}}},
      {'c', "rows", "solve", {{"R", n(3)}, {"C", n(2000)}}},
      {'d', "ragged", "solve", {{"M", n(40)}, {"N", n(131)}, {"upto", n(101)}}},
      {'e',
       "handed",
       "solve",
       {{"H", n(3)},
        {"M", n(64)},
        {"N", n(64)},
        {"K", n(256)},
        {"most", frontend::Values::mapped_type(100000.0)}}},
      {'f', "product", "sequential", {{"M", n(64)}, {"N", n(128)}, {"K", n(384)}}},
      {'g', "strides", "solve", {{"M", n(50)}, {"N", n(64)}, {"K", n(70)}}},
      {'h', "product", "solve:split=2", {{"M", n(64)}, {"N", n(128)}, {"K", n(768)}}},
      {'i', "in_place", "solve", {{"M", n(64)}}},
      {'j', "epilogue", "solve", {{"M", n(128)}, {"N", n(256)}, {"K", n(128)}}},
      {'o', "product", "solve", {{"M", n(64)}, {"N", n(131)}, {"K", n(256)}}},
      {'q', "counted_rows", "solve", {{"M", n(64)}, {"N", n(64)}, {"K", n(320)}}},
      {'w', "twice", "solve", {{"M", n(64)}, {"N", n(64)}, {"K", n(320)}}},
      {'l', "again", "solve", {{"R", n(3)}}},
      {'k', "computed", "solve", {{"M", n(64)}, {"N", n(64)}, {"K", n(320)}}},
      {'u', "combined", "solve", {{"M", n(128)}, {"K", n(320)}}},
      {'n', "wide", "solve", {{"M", n(128)}, {"N", n(64)}, {"K", n(384)}}},
      {'r', "counted", "solve", {{"M", n(40)}}},
      {'t', "weighted", "solve:slices=2", {{"BM", n(128)}, {"M", n(128)}, {"L", n(300)}}},
  };
}

using Caught = std::map<std::string, int>;  // who, how often

class Bench {
 public:
  explicit Bench(Sample sample) : sample_(std::move(sample)) {
    options_.no_cache = true;
    options_.schedule = sample_.schedule;
    session_ = std::make_unique<tools::Session>(options_);
  }
  Result<> Load() {
    TRY_VOID(session_->LoadFile(TILEC_SOURCE_DIR "/tests/faults/samples.tile"));
    return Done();
  }
  std::string Said() { return RenderAll(session_->diags(), session_->loaded().sources); }
  const Sample& sample() const { return sample_; }

  // The PTX of the compiler as it is with the switches that are on.
  std::optional<std::string> Compile(Caught* caught) {
    DiagSink diags;
    frontend::TestCallInfo call;
    call.kernel = sample_.kernel;
    call.args = sample_.values;
    const api::Loaded& loaded = session_->loaded();
    Result<api::Call> bound = BindDense(*loaded.program, call, diags);
    if (!bound.ok()) return std::nullopt;
    api::Observation look;
    std::vector<compile::Decision> decisions;
    api::Lowered lowered;
    look.decisions = &decisions;
    look.lowered = &lowered;
    const api::PipelineOptions options = session_->pipeline();
    const auto image =
        api::CompileCall(loaded, sample_.kernel, *bound, options, {.look = &look}, diags);
    std::map<compile::Stage, int> refused;
    for (const compile::Decision& d : decisions)
      if (d.refusal && d.outcome == compile::Decision::Outcome::kRefused)
        ++refused[d.refusal->stage];
    if (!caught) {
      if (healthy_refusals_.empty()) healthy_refusals_ = refused;
    } else {
      if (refused[compile::Stage::kProve] > healthy_refusals_[compile::Stage::kProve])
        ++(*caught)["proof"];
      if (refused[compile::Stage::kLower] > healthy_refusals_[compile::Stage::kLower])
        ++(*caught)["plan"];
    }
    if (!image.ok()) {
      if (caught && !(*caught)["proof"]) ++(*caught)["plan"];
      return std::nullopt;
    }
    lowered_ = std::move(lowered);
    return image->ptx;
  }

  // What is wrong with the program that was compiled last, by those who look at it.
  void Judge(const std::string& ptx, Caught* caught) {
    if (lowered_.by_schedule) {
      std::string why;
      const auto code = obeyed::Code::Read(ptx, &why);
      bool bad = !code;
      for (const scheduler::LoopReport& loop : lowered_.schedule.loops)
        if (loop.applied && code) {
          const obeyed::WantedLoop wanted =
              obeyed::WantedOf(lowered_.schedule, loop, session_->loaded().sources);
          bad = bad || !obeyed::Compare(*code, wanted).faults.empty();
        }
      if (bad) ++(*caught)["obeyed"];
    }
    for (const runtime::Policy policy : {runtime::Policy::kRunToBlock, runtime::Policy::kRandom}) {
      const auto report = std::make_shared<runtime::judge::Report>();
      runtime::EmulatorOptions emulator;
      emulator.threads = 1;
      emulator.instruction_limit = 20'000'000;
      emulator.check = runtime::EmulatorOptions::Check::kOn;
      emulator.report = report;
      emulator.policy = policy;
      emulator.seed = 3;
      const auto device = runtime::OpenEmulator(emulator);
      tools::RunRequest request;
      request.kernel = sample_.kernel;
      request.values = sample_.values;
      request.check = true;
      request.device = device.get();
      const auto result = tools::RunKernel(*session_, request);
      if (!result.ok()) ++(*caught)["emulator"];
      said_ = Said();
      session_->diags().Clear();
      if (result.ok())
        for (const tools::TensorRun& t : result->tensors)
          if (t.compared && !t.result.ok()) {
            ++(*caught)["values"];
            break;
          }
      if (!report->findings().empty()) ++(*caught)["judge"];
    }
  }
  std::string said_;

 private:
  Sample sample_;
  tools::Options options_;
  std::unique_ptr<tools::Session> session_;
  std::map<compile::Stage, int> healthy_refusals_;
  api::Lowered lowered_;
};

std::string ReadSource(const std::string& file) {
  std::ifstream in(TILEC_SOURCE_DIR "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

int Main(int part, int of, const std::string& only) {
  int failed = 0;
  std::set<std::string> files;
  for (const Fault& fault : Table())
    if (files.insert(fault.file).second) {
      std::vector<std::string> lost;
      Weave(fault.file, ReadSource(fault.file), &lost);
      for (const std::string& name : lost) {
        fmt::print("{}: the row fits nothing in {} any more: it must follow the code\n", name,
                   fault.file);
        ++failed;
      }
    }
  std::map<char, std::unique_ptr<Bench>> benches;
  std::map<char, std::string> healthy;
  const auto bench = [&](char letter) -> Bench* {
    if (benches.count(letter)) return benches[letter].get();
    for (Sample& sample : Samples())
      if (sample.letter == letter) {
        auto made = std::make_unique<Bench>(sample);
        Caught none;
        std::optional<std::string> ptx;
        if (made->Load().ok()) ptx = made->Compile(nullptr);
        if (ptx) made->Judge(*ptx, &none);
        if (!ptx || !none.empty()) {
          fmt::print("sample {}: the compiler as it is fails\n{}{}", letter, made->Said(),
                     made->said_);
          for (const auto& [who, n] : none) fmt::print("  {}\n", who);
          ++failed;
        }
        healthy[letter] = ptx.value_or("");
        return (benches[letter] = std::move(made)).get();
      }
    return nullptr;
  };
  const std::vector<std::string> who = {"plan", "proof", "obeyed", "emulator", "values", "judge"};
  fmt::print("{:18} {:10} {:>7}", "fault", "stage", "changed");
  for (const std::string& name : who) fmt::print(" {:>8}", name);
  fmt::print("\n");
  int number = 0, faults = 0;
  for (const Fault& fault : Table()) {
    if (fault.stage.empty()) continue;
    if (!only.empty() ? fault.name != only : number++ % of != part - 1) continue;
    ++faults;
    Caught caught;
    int changed = 0;
    for (char letter : fault.samples) {
      Bench* b = bench(letter);
      if (!b) continue;
      Switches() = {fault.name};
      const std::optional<std::string> proved = b->Compile(&caught);
      Switches() = {fault.name, "unproved"};
      const std::optional<std::string> ptx = b->Compile(nullptr);
      const bool moved = !proved || *proved != healthy[letter] || !ptx || *ptx != healthy[letter];
      changed += moved;
      if (moved && ptx) b->Judge(*ptx, &caught);
      Switches().clear();
    }
    fmt::print("{:18} {:10} {:>7}", fault.name, fault.stage, changed);
    int sum = 0;
    for (const std::string& name : who) {
      fmt::print(" {:>8}", caught[name] ? std::to_string(caught[name]) : "-");
      sum += caught[name];
    }
    fmt::print("  {}\n", sum ? "" : changed ? "NOT CAUGHT: " + fault.what : "MEETS NO SAMPLE");
    failed += sum == 0;
  }
  fmt::print("{} faults\n", faults);
  return failed || faults == 0 ? 1 : 0;
}

}  // namespace
}  // namespace tilec::faults

int main(int argc, char** argv) {
  std::string part = "1/1", only;
  CLI::App app("a broken compiler, and who notices");
  app.add_option("--part", part);
  app.add_option("--only", only);
  CLI11_PARSE(app, argc, argv);
  const size_t slash = part.find('/');
  if (slash == std::string::npos) return 2;
  return tilec::faults::Main(std::stoi(part.substr(0, slash)), std::stoi(part.substr(slash + 1)),
                             only);
}
