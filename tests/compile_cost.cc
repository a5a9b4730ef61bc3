// What a cold compilation costs, solve and proof included, ptxas not: processor time of every call
// of the `test` blocks of .tile files, at the defaults of its tunes and at points of their spaces.
// Processor time, so that a busy machine changes little.
//
//   compile_cost [--points=N] [--most=MS] [--quiet] [--hashes] [--stages] [--solved=FILE]
//                [--target=MACHINE] [--only=TEXT] FILE…
//
// `--points`: how many points of each space beside the defaults, drawn with one seed. `--most`: a
// compilation that takes longer is a failure. `--hashes`: a hash of the PTX on every line, so that
// two compilers can be compared where nothing is kept. `--stages`: how many programs were emitted,
// and the stages that took a tenth of the time or more. `--solved`: what the solver found, anew in
// every compilation, and what each question cost, so that the answers of two solvers can be
// compared; the hash is the one of tests/replay/solutions.txt. `--only`: the calls that have TEXT
// in their line, for a look at one of them (`perf record`).
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "runtime/kernel_cache.h"
#include "support/diag.h"
#include "support/file.h"
#include "support/heap.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

double ProcessorMs() {
  struct rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& t) {
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
  };
  return ms(used.ru_utime) + ms(used.ru_stime);
}

// Solutions of one compilation, which finds its own again as every compilation does; kept as text
// for all that follow, which do not find them.
class Solutions : public scheduler::SolutionStore {
 public:
  struct Solved {
    std::string label, question, answer;
    double ms = 0;
  };
  void Forget() { now_.clear(); }
  std::optional<std::string> Get(const std::string& key) override {
    const auto at = now_.find(key);
    start_ = ProcessorMs();
    return at == now_.end() ? std::nullopt : std::optional(at->second);
  }
  void Put(const std::string& key, const std::string& label, const std::string& answer) override {
    now_[key] = answer;
    all_[key] = {label, key, answer, ProcessorMs() - start_};
  }
  std::string Text() const {
    std::string out;
    for (const auto& [key, one] : all_)
      out += fmt::format("== {} {:.1f} ms {}\n{}\n--- question\n{}\n",
                         runtime::CacheKey().Add("solution", key).Hex(), one.ms, one.label,
                         one.answer, key);
    return out;
  }

 private:
  std::map<std::string, std::string> now_;
  std::map<std::string, Solved> all_;
  double start_ = 0;
};

struct Settings {
  int points = 0;
  double most = 1e9;
  bool quiet = false, hashes = false, stages = false;
  std::string target, solved, only;
  std::vector<std::string> files;
};

class Costs {
 public:
  explicit Costs(const Settings& settings) : settings_(settings) {}

  Result<bool> Visit(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                     const std::string& schedule, DiagSink& diags) {
    if (CallText(call).find(settings_.only) == std::string::npos) return true;
    TRY(const frontend::Signature signature,
        frontend::SignatureOf(*loaded.program, call.kernel, diags));
    TRY(const api::Call bound, BindDense(*loaded.program, call, diags));
    bool good = One(loaded, call, schedule);
    for (int i = 0; i < settings_.points; ++i) {
      frontend::TestCallInfo with = call;
      for (const frontend::TuneInfo& tune : signature.tunes)
        if (!tune.candidates.empty() && !call.args.count(tune.name))
          with.args[tune.name] = tune.candidates[rng_() % tune.candidates.size()];
      if (with.args != call.args) good = One(loaded, with, schedule) && good;
    }
    return good;
  }

  int Summary() {
    if (times_.empty()) return 1;
    std::sort(times_.begin(), times_.end());
    fmt::print(
        "{} programs, {} refused; processor time: median {:.0f} ms, worst {:.0f} ms, {} over "
        "the limit\n",
        times_.size(), refused_, times_[times_.size() / 2], times_.back(), over_);
    std::string why;
    if (!settings_.solved.empty() &&
        !WriteFileAtomically(settings_.solved, solutions_.Text(), &why))
      return fmt::print(stderr, "{}: {}\n", settings_.solved, why), 1;
    return over_ == 0 ? 0 : 1;
  }

 private:
  std::string Hash(const std::string& ptx) const {
    return settings_.hashes ? fmt::format("{:016x}  ", std::hash<std::string>()(ptx)) : "";
  }

  bool One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
           const std::string& schedule) {
    DiagSink diags;
    const auto bound = BindDense(*loaded.program, call, diags);
    if (!bound.ok()) return true;  // a point may contradict the sizes
    api::PipelineOptions options;
    options.schedule = schedule;
    if (!settings_.target.empty()) options.target = settings_.target;
    solutions_.Forget();
    if (!settings_.solved.empty()) options.solutions = &solutions_;
    std::vector<compile::Decision> decisions;
    api::Observation look;
    look.decisions = &decisions;
    const double start = ProcessorMs();
    const auto image = api::CompileCall(loaded, call.kernel, *bound, options,
                                        {.look = settings_.stages ? &look : nullptr}, diags);
    const double ms = ProcessorMs() - start;
    if (!image.ok()) return ++refused_, true;
    if (!seen_.insert(image->ptx).second) return true;
    times_.push_back(ms);
    const bool over = ms > settings_.most;
    over_ += over;
    if (over || !settings_.quiet)
      fmt::print("{:8.1f} ms  {}{}{}\n", ms, Hash(image->ptx), CallText(call),
                 settings_.stages ? Stages(ms, decisions, look) : "");
    return !over;
  }

  static std::string Stages(double ms, const std::vector<compile::Decision>& decisions,
                            const api::Observation& look) {
    int emissions = 0;
    for (const compile::Decision& d : decisions) emissions += d.emissions;
    std::string out = fmt::format("  {} emitted", emissions);
    std::map<std::string, double> sums;  // of the clock, where the rest is of the processor
    for (const api::StageTime& t : look.times) sums[t.stage] += t.milliseconds;
    for (const auto& [stage, sum] : sums)
      if (sum >= ms / 10) out += fmt::format(", {} {:.0f}", stage, sum);
    return out;
  }

  const Settings& settings_;
  Solutions solutions_;
  std::mt19937_64 rng_{1};
  std::set<std::string> seen_;
  std::vector<double> times_;
  int refused_ = 0, over_ = 0;
};

int Main(int argc, char** argv) {
  KeepFreedMemory();  // as `tilec` does
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&](const std::string& name) -> const char* {
      const std::string start = "--" + name + "=";
      return arg.rfind(start, 0) == 0 ? arg.c_str() + start.size() : nullptr;
    };
    if (const char* text = value("points"))
      s.points = std::atoi(text);
    else if (const char* text = value("most"))
      s.most = std::atof(text);
    else if (const char* text = value("only"))
      s.only = text;
    else if (const char* text = value("target"))
      s.target = text;
    else if (const char* text = value("solved"))
      s.solved = text;
    else if (arg == "--quiet")
      s.quiet = true;
    else if (arg == "--hashes")
      s.hashes = true;
    else if (arg == "--stages")
      s.stages = true;
    else if (arg[0] == '-')
      return 2;
    else
      s.files.push_back(arg);
  }
  Costs costs(s);
  for (const std::string& file : s.files)
    VisitCalls(file, {"solve"},
               [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule,
                   DiagSink& diags) { return costs.Visit(loaded, call, schedule, diags); });
  return costs.Summary();
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
