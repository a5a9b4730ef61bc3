// What the proof of warp programs costs, over the calls of the `test` blocks of .tile files ×
// points of the spaces of their tunes × schedules. Every program is lowered without a proof, so
// that none is replaced by another because its proof is long; then it is proved, once, and a line
// says what that took. A proof that is given up is a failure, and so is one that is larger than the
// limits: they are counts of states and of executed ops, not milliseconds, so that a busy machine
// changes nothing. A program that is refuted is printed: the compiler would take another one.
//
//   proof_cost [--points=N] [--seed=N] [--schedules=A,B] [--ops=N] [--walked=N] [--states=N]
//   [--quiet]
//              [--print] FILE…
//
// `--walked`: ops of all walks, those included that were no proof before one was.
// `--points`: how many points of each space beside its defaults. The seed is printed.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "ir/text.h"
#include "ir/warp_check/check.h"
#include "support/diag.h"
#include "tests/test_calls.h"
#include "tests/unit/h200.h"

namespace tilec {
namespace {

struct Settings {
  int points = 1;
  uint64_t seed = 1;
  int64_t ops = 400'000, walked = INT64_MAX, states = 3000;
  bool quiet = false, print = false;
  std::vector<std::string> schedules = {"sequential",     "solve",          "solve:once",
                                        "solve:clusters", "solve:slices=2", "solve:split=2"};
  std::vector<std::string> files;
};

std::string PointText(const frontend::Values& point) {
  std::string out;
  for (const auto& [name, value] : point)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, frontend::ToText(value));
  return out;
}

class Costs {
 public:
  explicit Costs(const Settings& settings) : settings_(settings), rng_(settings.seed) {}

  // Every schedule at the defaults, and at points that are drawn anew for each kernel.
  Result<bool> Visit(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                     const std::string& schedule, DiagSink& diags) {
    TRY(const frontend::Signature signature,
        frontend::SignatureOf(*loaded.program, call.kernel, diags));
    bool good = One(loaded, call, schedule, {});
    for (int i = 0; i < settings_.points; ++i) {
      frontend::Values point;
      for (const frontend::TuneInfo& tune : signature.tunes)
        if (!tune.candidates.empty() && !call.args.count(tune.name))
          point[tune.name] = tune.candidates[rng_() % tune.candidates.size()];
      if (!point.empty()) good = One(loaded, call, schedule, point) && good;
    }
    return good;
  }

  int Summary() const {
    fmt::print(
        "{} programs proved, {} refuted, {} given up, {} over the limits; {} do not compile\n",
        proved_, refuted_, given_up_, over_, refused_);
    fmt::print("most: {:.1f} ms, {} ops, {} states; seed {}\n", ms_, ops_, states_, settings_.seed);
    return given_up_ || over_ || !proved_ ? 1 : 0;
  }

 private:
  bool One(const api::Loaded& loaded, const frontend::TestCallInfo& call,
           const std::string& schedule, const frontend::Values& point) {
    DiagSink diags;
    Result<ir::Function> fn = Lower(loaded, call, schedule, point, diags);
    if (!fn.ok()) {  // a point may ask for more than the machine has
      ++refused_;
      return true;
    }
    if (!seen_.insert(ir::Print(*fn)).second) return true;
    const auto start = std::chrono::steady_clock::now();
    const ir::WarpVerdict verdict = ir::ProveWarps(*fn, ir::WarpCheckOptions(ir::H200()));
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    const std::string name = fmt::format("{} {} {}", CallText(call), schedule, PointText(point));
    const ir::WarpCheckStats& stats = verdict.stats;
    const bool over = stats.ops > settings_.ops || stats.states > settings_.states ||
                      stats.walked > settings_.walked;
    const char* what = "";
    switch (verdict.proof) {
      case ir::WarpProof::kProved: ++proved_; break;
      case ir::WarpProof::kRefuted: ++refuted_, what = "REFUTED "; break;
      case ir::WarpProof::kGivenUp: ++given_up_, what = "GIVEN UP "; break;
    }
    over_ += over;
    ms_ = std::max(ms_, ms.count());
    ops_ = std::max(ops_, stats.ops);
    states_ = std::max(states_, stats.states);
    if (over || *what || !settings_.quiet)
      fmt::print("{:8.2f} ms {:6} states {:8} ops of {:8} {}{}{}\n", ms.count(), stats.states,
                 stats.ops, stats.walked, what, over ? "OVER THE LIMITS " : "", name);
    if (verdict.finding) fmt::print("    {}\n", verdict.finding->message);
    if (settings_.print) fmt::print("{}", ir::Print(*fn));
    return !over && verdict.proof != ir::WarpProof::kGivenUp;
  }

  Result<ir::Function> Lower(const api::Loaded& loaded, const frontend::TestCallInfo& call,
                             const std::string& schedule, const frontend::Values& point,
                             DiagSink& diags) {
    frontend::TestCallInfo with = call;
    for (const auto& [name, value] : point) with.args[name] = value;
    TRY(const api::Call bound, BindDense(*loaded.program, with, diags));
    api::PipelineOptions options;
    options.schedule = schedule;
    options.first_schedules = true;  // the proof is of the program, not of the schedule
    options.prove = false;
    TRY(ir::Function fn, api::MakeTileIr(loaded, with.kernel, bound, nullptr, diags));
    return api::LowerToWarps(loaded, std::move(fn), options, nullptr, diags);
  }

  const Settings& settings_;
  std::mt19937_64 rng_;
  std::set<std::string> seen_;
  int proved_ = 0, refused_ = 0, refuted_ = 0, given_up_ = 0, over_ = 0;
  double ms_ = 0;
  int64_t ops_ = 0, states_ = 0;
};

bool Option(const std::string& arg, const std::string& name, std::string* value) {
  const std::string start = "--" + name + "=";
  if (arg.rfind(start, 0) != 0) return false;
  *value = arg.substr(start.size());
  return true;
}

int Main(int argc, char** argv) {
  Settings s;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    std::string value;
    if (Option(arg, "points", &value))
      s.points = std::stoi(value);
    else if (Option(arg, "seed", &value))
      s.seed = std::stoull(value);
    else if (Option(arg, "ops", &value))
      s.ops = std::stoll(value);
    else if (Option(arg, "walked", &value))
      s.walked = std::stoll(value);
    else if (Option(arg, "states", &value))
      s.states = std::stoll(value);
    else if (arg == "--quiet")
      s.quiet = true;
    else if (arg == "--print")
      s.print = true;
    else if (Option(arg, "schedules", &value)) {
      s.schedules.clear();
      for (size_t at = 0; at <= value.size();) {
        const size_t comma = std::min(value.find(',', at), value.size());
        s.schedules.push_back(value.substr(at, comma - at));
        at = comma + 1;
      }
    } else
      s.files.push_back(arg);
  }
  Costs costs(s);
  for (const std::string& file : s.files)
    VisitCalls(file, s.schedules,
               [&](const api::Loaded& loaded, const frontend::TestCallInfo& call,
                   const std::string& schedule,
                   DiagSink& diags) { return costs.Visit(loaded, call, schedule, diags); });
  return costs.Summary();
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
