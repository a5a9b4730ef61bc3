// Two judges of one broken program, which share no code: the proof of the warp program
// (ir/warp_check), and the emulator's judge, which runs the PTX that the mutant is compiled to
// under several schedules of execution. They agree if both refuse it (the judge: by a finding, a
// deadlock, a fault, or because a result is wrong), or if neither does. A mutant that the proof
// accepts and the judge catches is a hole in the proof. One that the proof refuses and no execution
// shows is listed by its kind, which has a row below that says why that may be.
//
//   agreement FILE.tile EVERY LEAST MACHINE…     every EVERY-th mutant; at least LEAST must agree
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/machine.h"
#include "api/pipeline.h"
#include "ir/verify.h"
#include "ir/warp_check/check.h"
#include "runtime/emulator/judge/finding.h"
#include "tests/solved/folder.h"
#include "tests/test_calls.h"
#include "tests/warp_check/mutants.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec {
namespace {

using runtime::Landing;
using runtime::Policy;

struct Execution {
  Policy policy;
  Landing landing;
  uint64_t seed;
};
constexpr Execution kExecutions[] = {{Policy::kConsumerFirst, Landing::kPoison, 0},
                                     {Policy::kProducerFirst, Landing::kLate, 0},
                                     {Policy::kRandom, Landing::kLate, 1},
                                     {Policy::kRandom, Landing::kRandom, 2},
                                     {Policy::kPct, Landing::kRandom, 3}};

// Executions more of what the proof refuses and these do not show.
constexpr uint64_t kMoreSeeds = 12;

// What the proof refuses although no execution of these programs shows it, and why that is so.
struct Silent {
  const char *kernel, *kind, *why;
};
constexpr Silent kSilent[] = {
    {"", "more registers", "the emulator has no file of registers that could be too small"},
    {"", "remove fence_mbar_init",
     "a barrier stands behind it, which tells the threads of the CTA"},
    {"", "one arrival less",
     "the lanes of a warp arrive together: a phase is over early once the surplus is a warp's"},
    {"product", "remove cta_sync",
     "in front of staging: more turns than the ring has slots keep the warps together; a short K "
     "does not"},
    {"scores", "arrival before its copies",
     "the first keys' arrival is behind the queries' copies, stands for them, too, and is awaited"},
    {"scores", "remove mbar_wait",
     "of queries: the first keys' arrival stands for their copies, too, and is awaited"},
    {"scores", "copied before mbar_wait",
     "of queries, which have two slots: more keys than their ring has slots keep the load role "
     "within the next tile"},
};

const char* WhySilent(const std::string& kernel, const std::string& kind) {
  for (const Silent& row : kSilent)
    if (kind == row.kind && (*row.kernel == 0 || kernel == row.kernel)) return row.why;
  return nullptr;
}

using Outputs = std::map<std::string, ir::TensorValue>;

class Both {
 public:
  Both(const std::string& file, const std::string& machine, int64_t every)
      : session_(OptionsFor(machine)), every_(every) {
    good_ = session_.CheckOptions().ok() && session_.LoadFile(file).ok();
    if (!good_) return;
    auto read = session_.Machine();
    good_ = read.ok();
    if (good_) machine_ = *read;
  }

  int Run() {
    if (!good_) return 2;
    for (const frontend::TestInfo& test : session_.loaded().program->tests())
      for (const frontend::TestCallInfo& call : test.calls)
        if (!One(call)) {
          session_.Finish();
          fmt::print("WRONG {} for {}\n", CallText(call), machine_->name);
          ++wrong;
        }
    return 0;
  }

  int64_t refused = 0, accepted = 0, silent = 0, uncompiled = 0, same = 0, wrong = 0;
  std::map<std::string, int> kinds;

 private:
  static tools::Options OptionsFor(const std::string& machine) {
    tools::Options options;
    options.target = machine;
    options.target_said = true;
    options.no_cache = true;
    options.solutions = SolvedFolder();
    return options;
  }

  tools::RunRequest RequestOf(const frontend::TestCallInfo& call) {
    tools::RunRequest request;
    request.kernel = call.kernel;
    request.values = call.args;
    request.inputs = call.inputs;
    return request;
  }

  bool One(const frontend::TestCallInfo& call) {
    DiagSink& diags = session_.diags();
    const auto bound = BindDense(*session_.loaded().program, call, diags);
    if (!bound.ok()) return false;
    const api::PipelineOptions options = session_.pipeline();
    auto tile = api::MakeTileIr(session_.loaded(), call.kernel, *bound, nullptr, diags);
    if (!tile.ok()) return false;
    auto warps =
        api::LowerToWarps(session_.loaded(), std::move(*tile), options.For(*bound), nullptr, diags);
    if (!warps.ok()) return false;
    const ir::WarpVerdict whole = ir::ProveWarps(*warps, ir::WarpCheckOptions(*machine_));
    if (whole.proof != ir::WarpProof::kProved) return false;
    const auto expected = tools::RunKernel(session_, RequestOf(call));
    if (!expected.ok()) return false;
    expected_ = expected->outputs;
    key_ = api::ImageKey(session_.loaded(), call.kernel, *bound, options);
    right_.clear();
    const std::string right = Caught(call, *warps, false);
    if (!right.empty()) return fmt::print("the program itself: {}\n", right), false;
    int64_t number = 0;
    for (const ir::Mutant& m : ir::MutantsOf(*warps))
      if (++number % every_ == 0) Compare(call, *warps, m, whole.stats.uses);
    diags.Clear();
    return true;
  }

  void Compare(const frontend::TestCallInfo& call, const ir::Function& warps, const ir::Mutant& m,
               const ir::Uses& uses) {
    const ir::MutantVerdict verdict = ir::Judge(warps, uses, m, *machine_);
    ir::Function mutant = warps;
    m.apply(mutant);
    const bool rejected = verdict.kind == ir::MutantVerdict::Kind::kRejected;
    const std::string seen = Caught(call, mutant, rejected);
    if (seen == kSame) return void(++same);
    if (seen == kNoImage) return void(++uncompiled);
    if (rejected && !seen.empty()) {
      ++refused;
      ++kinds[m.kind];
    } else if (!rejected && seen.empty()) {
      ++accepted;
    } else if (rejected && WhySilent(call.kernel, m.kind)) {
      ++silent;
    } else {
      ++wrong;
      fmt::print("DISAGREE {} for {}, {} of op {}: {} by the proof ({}), the judge: {}\n",
                 CallText(call), machine_->name, m.kind, m.op.index,
                 rejected ? "refused" : "accepted", verdict.text,
                 seen.empty() ? "nothing" : seen.substr(0, 300));
    }
  }

  // What an execution shows of the program; "": nothing, under any.
  std::string Caught(const frontend::TestCallInfo& call, const ir::Function& warps, bool hard) {
    DiagSink quiet;
    const auto image =
        api::MakeImage(session_.loaded(), warps, session_.pipeline(), nullptr, quiet);
    if (!image.ok()) return kNoImage;
    if (image->ptx == right_) return kSame;
    if (right_.empty()) right_ = image->ptx;
    tools::Images images;
    images.emplace(key_, *image);
    std::vector<Execution> executions(std::begin(kExecutions), std::end(kExecutions));
    for (uint64_t seed = 0; hard && seed < kMoreSeeds; ++seed)
      executions.push_back({Policy::kRandom, Landing::kLate, 10 + seed});
    for (const Execution& how : executions) {
      runtime::EmulatorOptions options;
      options.machine = api::LimitsOf(*machine_);
      options.policy = how.policy;
      options.landing = how.landing;
      options.seed = how.seed;
      options.instruction_limit = 20'000'000;
      options.check = runtime::EmulatorOptions::Check::kOn;
      options.report = std::make_shared<runtime::judge::Report>();
      const auto device = runtime::OpenEmulator(options);
      tools::RunRequest request = RequestOf(call);
      request.device = device.get();
      request.images = &images;
      const auto outcome = tools::RunKernel(session_, request);
      session_.diags().Clear();
      for (const runtime::judge::Finding& finding : options.report->findings())
        if (finding.severity != runtime::judge::Severity::kHint)
          return std::string("finding ") + runtime::judge::ToText(finding);
      if (!outcome.ok()) return "the run stopped";
      for (const auto& [name, want] : expected_)
        if (const auto at = outcome->outputs.find(name);
            at == outcome->outputs.end() || !ir::Compare(want, at->second, {}).ok())
          return "wrong results";
    }
    return "";
  }

  static constexpr const char *kNoImage = "no image", *kSame = "the same text";
  tools::Session session_;
  const int64_t every_;
  api::Machine machine_;
  Outputs expected_;
  std::string right_;  // the text of the program that is no mutant
  std::string key_;
  bool good_ = false;
};

int Main(int argc, char** argv) {
  if (argc < 5) return 2;
  int64_t refused = 0, accepted = 0, silent = 0, uncompiled = 0, same = 0, wrong = 0;
  std::map<std::string, int> kinds;
  for (int i = 4; i < argc; ++i) {
    Both both(argv[1], argv[i], std::max(1, std::atoi(argv[2])));
    if (both.Run() != 0) return 2;
    refused += both.refused, accepted += both.accepted, silent += both.silent;
    uncompiled += both.uncompiled, same += both.same, wrong += both.wrong;
    for (const auto& [kind, n] : both.kinds) kinds[kind] += n;
  }
  fmt::print(
      "{} mutants: both refuse {}, neither {}; refused by the proof alone, with a reason, {}; "
      "no program {}; the same PTX {}; disagree {}\n",
      refused + accepted + silent + uncompiled + same + wrong, refused, accepted, silent,
      uncompiled, same, wrong);
  for (const auto& [kind, n] : kinds) fmt::print("  {:5} {}\n", n, kind);
  return wrong == 0 && refused + accepted >= std::atoi(argv[3]) ? 0 : 1;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
