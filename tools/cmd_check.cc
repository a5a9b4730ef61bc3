// tilec check: one kernel, many schedules of execution, all checks of the judge; one verdict.
//
// Every execution must end, must give the same bytes as the first one (unless the kernel's atomics
// make the order count) and must agree with the interpreter or the expected arrays. What the judge
// finds in any of them is folded into one list. Exit status: 0 nothing wrong, 1 something is.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include "shim/settings.h"
#include "support/file.h"
#include "tools/annotate.h"
#include "tools/check_program.h"
#include "tools/commands.h"
#include "tools/diagnostics.h"
#include "tools/kernel_check.h"
#include "tools/runner.h"
#include "tools/subject.h"
#include "tools/suppressions.h"

namespace tilec::tools {

namespace {

using shim::Plans;

bool EndsIn(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

Result<int> KernelCheck::Program() {
  TRY_VOID(CheckFormat());
  if (o_.tests || !o_.file.empty() || !o_.launch.empty() || !o_.minimise.empty() ||
      !o_.replay.empty())
    return session_.diags()
        .Report(kUsage, Span{}, "in front of `--` there are options of the check alone")
        .Place("command line")
        .Help("not for programs: a file, --launch, --tests, --minimise, --replay");
  return CheckProgram(session_);
}

Result<bool> KernelCheck::Do() {
  TRY_VOID(session_.CheckOptions());
  TRY_VOID(CheckFormat());
  if (o_.file.empty())
    return session_.diags()
        .Report(kUsage, Span{}, "file is required, or a program behind `--`")
        .Place("command line")
        .Help("tilec check gemm.tile M=64, or tilec check -- ./app arguments");
  TRY_VOID(ReadSuppressions());
  TRY(base_, session_.Emulator());
  if (o_.tests) return Tests();
  TRY_VOID(MakeSubject());
  return Judge();
}

Result<> KernelCheck::CheckFormat() const {
  if (o_.format == "text" || o_.format == "json" || o_.format == "sarif" || o_.format == "github")
    return Done();
  return session_.diags()
      .Report(kBadChoice, Span{}, "--format", o_.format)
      .Place("command line")
      .Help("use text, json, sarif or github");
}

// Every call of the file's `test` blocks: as `tilec test` runs it, then as here.
Result<bool> KernelCheck::Tests() {
  TRY_VOID(session_.LoadFile(o_.file));
  bool good = true;
  Images images;
  const auto device = runtime::OpenEmulator(base_);
  const std::vector<frontend::TestInfo> tests = session_.loaded().program->tests();
  for (const frontend::TestInfo& test : tests) {
    for (const frontend::TestCallInfo& call : test.calls) {
      KernelCheck one(session_);
      one.base_ = base_;
      one.suppressions_ = suppressions_;
      TRY_VOID(one.Test(test, call, *device, &images));
      one.words_ = test.name;
      for (const auto& [name, value] : call.args)
        one.given_.push_back(fmt::format("{}={}", name, frontend::ToText(value)));
      if (call.seed) one.given_.push_back(fmt::format("--seed={}", *call.seed));
      TRY(const bool ok, one.Judge());
      good = good && ok;
    }
  }
  return good;
}

// Makes the subject, and says what `tilec test` would have said of the call.
Result<> KernelCheck::Test(const frontend::TestInfo& test, const frontend::TestCallInfo& call,
                           runtime::Device& device, Images* images) {
  RunResult result;
  auto made = TestSubject(session_, call, device, images, &result);
  if (!made.ok() && Faults() > 0) {  // the judge will say why
    session_.diags().Clear();
    test_says_.push_back("the run stopped");
    Assignments given;
    given.values = call.args;
    TRY(subject_, KernelSubject(session_, call.kernel, given, images));
    return Done();
  }
  if (!made.ok()) return DiagSink::Propagate();
  subject_ = *std::move(made);
  for (const TensorRun& t : result.tensors) {
    if (t.compared && !t.result.ok())
      test_says_.push_back(fmt::format("{}: {}", t.name, DescribeCheck(t)));
    if (t.expected && !t.expected->ok())
      test_says_.push_back(
          fmt::format("{} beside `{}`: {}", t.name, call.expect, DescribeCheck(t, *t.expected)));
  }
  if (const Decided decided = result.decided(); !decided.enough && !test.undecided_allowed)
    test_says_.push_back(decided.Text() + ": of every tensor half must be decided");
  return Done();
}

Result<bool> KernelCheck::Judge() {
  single_ = o_.policy != "run-to-block" || o_.async != "early" || o_.policy_seed != 0 ||
            o_.spurious || !o_.replay.empty();
  std::vector<Plan> plans = Plans(o_.seeds);
  if (single_) plans = {{base_.policy, base_.landing, base_.seed, base_.spurious_try_wait}};
  // What could be cheaper does not depend on the order much: the first execution tells.
  report_->SetLint(o_.lint);
  for (const Plan& plan : plans) {
    TRY_VOID(Execute(plan));
    report_->SetLint(false);
    for (const judge::Finding& f : report_->findings()) first_seen_.emplace(Key(f), plan);
  }
  plans_ = plans.size();
  if (!o_.minimise.empty()) TRY_VOID(Shorten());
  findings_ = report_->findings();
  suppressed_ = Suppress(suppressions_, &findings_);
  if (!o_.html.empty()) TRY_VOID(WritePage());
  const bool good = wrong_.empty() && test_says_.empty() && Count(judge::Severity::kError) == 0 &&
                    (!o_.strict || Count(judge::Severity::kPortability) == 0);
  Print(good);
  return good;
}

void KernelCheck::Print(bool good) const {
  if (o_.format == "json") return PrintJson(good);
  if (o_.format == "sarif") return fmt::print("{}", ToSarif(findings_));
  if (o_.format == "github") {
    fmt::print("{}", ToGithub(findings_));
    for (const std::string& what : test_says_)
      fmt::print("::error title=wrong output::without the judge: {}\n", what);
    for (const auto& [plan, what] : wrong_)
      fmt::print("::error title=wrong output::with {}: {}\n", plan.Words(), what);
    return;
  }
  PrintText(good);
}

Result<> KernelCheck::ReadSuppressions() {
  if (o_.suppress.empty()) return Done();
  std::string text, why;
  if (!ReadFile(o_.suppress, &text, &why))
    return session_.diags().Report(kFileUnreadable, Span{}, o_.suppress, why).Place("command line");
  TRY(suppressions_, ParseSuppressions(o_.suppress, text, session_.diags()));
  return Done();
}

Result<> KernelCheck::MakeSubject() {
  DiagSink& diags = session_.diags();
  if (EndsIn(o_.file, ".ptx")) {
    if (o_.launch.empty())
      return diags.Report(kUsage, Span{}, "PTX text is launched by `--launch=FILE`")
          .Place("command line")
          .Help("docs/checking.md says what is in the file");
    std::string ptx, why;
    if (!ReadFile(o_.file, &ptx, &why))
      return diags.Report(kFileUnreadable, Span{}, o_.file, why).Place("command line");
    TRY(const LaunchFile launch, ReadLaunchFile(o_.launch, diags));
    // Without --target the text says what it is for, and that machine's limits hold.
    if (const api::Machine machine = api::MachineOfText(ptx); machine && !o_.target_said)
      base_.machine = api::LimitsOf(*machine);
    TRY(subject_, PtxSubject(session_, o_.file, ptx, launch));
    return Done();
  }
  if (!o_.launch.empty())
    return diags.Report(kUsage, Span{}, "`--launch` is for PTX text; kernels take NAME=VALUE")
        .Place("command line");
  TRY(const Assignments given, ParseAssignments(o_.assignments, diags));
  TRY(const std::string kernel, session_.LoadKernel(o_.file));
  TRY(subject_, KernelSubject(session_, kernel, given));
  given_ = o_.assignments;
  return Done();
}

runtime::EmulatorOptions KernelCheck::Options(const Plan& plan) const {
  runtime::EmulatorOptions options = base_;
  options.policy = plan.policy;
  options.landing = plan.landing;
  options.seed = plan.seed;
  options.spurious_try_wait = plan.spurious;
  options.check = runtime::EmulatorOptions::Check::kOn;
  options.report = report_;
  options.check_numbers = o_.numbers;
  options.check_banks = o_.banks;
  return options;
}

std::string KernelCheck::Replay(const Plan& plan) const {
  std::string out = "tilec check " + o_.file;
  if (!o_.launch.empty()) out += " --launch=" + o_.launch;
  if (o_.tests) out += ":" + subject_->name();
  for (const std::string& a : given_) out += " " + a;
  for (const auto& [flag, value, usual] :
       {std::tuple{"--schedule", o_.schedule, tools::Options().schedule},
        std::tuple{"--arith", o_.arith, std::string("fast")},
        std::tuple{"--replay", o_.replay, std::string()}})
    if (value != usual) out += fmt::format(" {}={}", flag, value);
  return out + " " + plan.Words();
}

Result<> KernelCheck::Execute(const Plan& plan) {
  DiagSink& diags = session_.diags();
  report_->SetReplay(Replay(plan));
  const size_t errors = report_->Count(judge::Severity::kError);
  runtime::EmulatorOptions options = Options(plan);
  if (!printed_)  // once is enough: what the kernel prints
    options.print = [](std::string_view text) { fmt::print(stderr, "{}", text); };
  printed_ = true;
  const auto device = runtime::OpenEmulator(options);
  auto outcome = subject_->Run(*device);
  if (!outcome.ok()) {
    // A fault of the run is one of the findings; anything else is about the input.
    if (Faults() == 0) return DiagSink::Propagate();
    diags.Clear();
    ++faulted_;
    if (errors == report_->Count(judge::Severity::kError) && report_->findings().empty())
      wrong_.push_back({plan, "the run stopped"});
    failed_ = failed_ ? failed_ : std::optional<Plan>(plan);
    return Done();
  }
  instructions_ += outcome->stats.warp_instructions;
  Compare(plan, std::move(*outcome));
  if (errors != report_->Count(judge::Severity::kError) && !failed_) failed_ = plan;
  return Done();
}

// Errors the emulator reported while running (E62x and E64x on).
size_t KernelCheck::Faults() const {
  return static_cast<size_t>(std::count_if(
      session_.diags().all().begin(), session_.diags().all().end(), [](const Diagnostic& d) {
        return d.def->severity == Severity::kError && d.def->code[0] == 'E' &&
               (d.def->code[2] >= '4' || std::string_view(d.def->code) == "E624");
      }));
}

void KernelCheck::Compare(const Plan& plan, Subject::Outcome outcome) {
  for (const auto& [name, want] : subject_->expected()) {
    TensorRun t;
    t.name = name;
    t.dims = want.value.dims;
    t.result = ir::Compare(want.value, outcome.outputs[name], {.tolerance = want.tolerance});
    if (!t.result.ok()) wrong_.push_back({plan, fmt::format("{}: {}", name, DescribeCheck(t))});
    auto& worst = worst_[name];
    if (worst.name.empty() || t.result.failed > worst.result.failed ||
        (t.result.failed == worst.result.failed && t.result.max_ratio > worst.result.max_ratio))
      worst = t;
  }
  if (first_.outputs.empty()) {
    first_ = std::move(outcome);
    return;
  }
  if (outcome.stats.order_sensitive) return;
  for (const auto& [name, value] : outcome.outputs) {
    if (value.ToBytes() == first_.outputs[name].ToBytes()) continue;
    wrong_.push_back({plan, fmt::format("{} differs from the first execution's", name)});
    if (!failed_) failed_ = plan;
  }
}

// The decisions of the first bad execution, as few as still show it.
Result<> KernelCheck::Shorten() {
  if (!failed_) return Done();
  runtime::EmulatorOptions options = Options(*failed_);
  options.report = std::make_shared<judge::Report>();
  options.record = std::make_shared<runtime::Execution>();
  Rerun(options);
  const runtime::Execution execution = std::move(*options.record);
  std::map<std::string, int> wanted;
  for (const judge::Finding& f : options.report->findings())
    if (f.severity == judge::Severity::kError) ++wanted[Key(f)];
  options.record = nullptr;
  auto fails = [&](uint64_t cluster, const std::vector<runtime::Decision>& list) {
    runtime::Execution candidate = execution;
    candidate.clusters = {{cluster, list}};
    return StillFails(options, candidate, wanted);
  };
  for (const auto& [cluster, list] : execution.clusters) {
    if (!fails(cluster, list)) continue;
    runtime::Execution least = execution;
    least.clusters = {
        {cluster,
         runtime::Minimise(
             list, [&](const std::vector<runtime::Decision>& l) { return fails(cluster, l); },
             200)}};
    std::string why;
    if (!WriteOutput(o_.minimise, runtime::Print(least), &why))
      return session_.diags()
          .Report(kFileUnwritable, Span{}, o_.minimise, why)
          .Place("command line");
    shortened_ = fmt::format("{} of {} decisions of cluster {} are enough: {}",
                             least.clusters.at(cluster).size(), list.size(), cluster, o_.minimise);
    return Done();
  }
  return Done();
}

// Once more, quietly. Empty if the run stopped.
std::optional<Subject::Outcome> KernelCheck::Rerun(const runtime::EmulatorOptions& options) {
  const auto device = runtime::OpenEmulator(options);
  auto outcome = subject_->Run(*device);
  session_.diags().Clear();
  if (!outcome.ok()) return std::nullopt;
  return std::move(*outcome);
}

bool KernelCheck::StillFails(runtime::EmulatorOptions options, const runtime::Execution& candidate,
                             const std::map<std::string, int>& wanted) {
  options.report = std::make_shared<judge::Report>();
  options.replay = std::make_shared<const runtime::Execution>(candidate);
  const auto outcome = Rerun(options);
  for (const judge::Finding& f : options.report->findings())
    if (wanted.count(Key(f)) != 0) return true;
  if (!wanted.empty()) return false;
  if (!outcome) return true;
  for (const auto& [name, value] : outcome->outputs)
    if (value.ToBytes() != first_.outputs[name].ToBytes()) return true;
  return false;
}

int CmdCheck(const Options& options) {
  Session session(options);
  if (!options.program_words.empty()) {
    const auto status = KernelCheck(session).Program();
    const int code = session.Finish();
    return code != kOk ? code : status.ok() ? *status : kBadInput;
  }
  const auto good = KernelCheck(session).Do();
  const int code = session.Finish();
  if (code != kOk || !good.ok()) return code == kOk ? kBadInput : code;
  return *good ? kOk : kMismatch;
}

}  // namespace tilec::tools
