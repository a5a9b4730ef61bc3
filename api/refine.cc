// SPDX-License-Identifier: Apache-2.0
#include "api/refine.h"

#include <algorithm>
#include <chrono>
#include <compare>
#include <set>

#include "api/diagnostics.h"
#include "api/solution_cache.h"
#include "ir/target.h"

namespace tilec::api {

namespace {

constexpr size_t kMostRounds = 8;  // that ptxas sees
constexpr int64_t kStep = 16;      // registers of a thread, of each tightening
constexpr int64_t kMostWithheld = 192;
constexpr double kSilentSeconds = 1;
constexpr int kMostAnswers = 4;  // of the solver, with as many registers

// What ptxas did to a program, worst first.
struct Verdict {
  int serialized = 0;  // products that no longer overlap: lines of these codes
  int spilled = 0;     // bytes
  auto operator<=>(const Verdict&) const = default;
  bool clean() const { return *this == Verdict{}; }
};

Verdict VerdictOf(const backend::PtxasReport& report) {
  Verdict v;
  v.serialized = static_cast<int>(report.Serialized().size());
  v.spilled = report.spill_store_bytes + report.spill_load_bytes;
  return v;
}

std::string Say(const Verdict& v) {
  if (v.clean()) return "ptxas has nothing to say";
  return v.serialized > 0 ? "ptxas serializes the products"
                          : fmt::format("ptxas spills {} bytes", v.spilled);
}

class Refiner {
 public:
  Refiner(Loaded& loaded, const std::string& kernel, const Call& call,
          const PipelineOptions& options, const RefineBy& by, DiagSink& diags)
      : loaded_(loaded),
        kernel_(kernel),
        call_(call),
        options_(options),
        by_(by),
        diags_(diags),
        memory_(nullptr, diags) {
    if (!options_.solutions) options_.solutions = &memory_;
  }

  Result<Refined> Run() {
    const auto start = std::chrono::steady_clock::now();
    Lowered lowered;
    TRY_VOID(Round("as solved", &lowered, diags_));
    // Of two launches each has loops of its own, and a file is of the loops of one.
    const bool several = !best_.image.before.empty();
    if (lowered.by_schedule && !several) best_.schedule = scheduler::ToText(lowered.schedule);
    TRY_VOID(Solvable());
    best_file_ = loaded_.schedule_file;
    while (!several && !verdict_.clean() && best_.rounds.size() <= kMostRounds &&
           withheld_ < kMostWithheld) {
      Next();
      const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
      if (by_.progress && past.count() > kSilentSeconds)
        by_.progress(best_.rounds.size(), fmt::format("{}; {}", Say(last_), change_), past.count());
      TryNext();
    }
    loaded_.schedule_file = best_file_;  // who asks about the program gets the best one
    if (!verdict_.clean())
      diags_.Report(kRefineGaveUp, Span{}, kernel_, Say(verdict_), best_.rounds.size() - 1);
    if (several)
      diags_.Report(kLaunchesNotPinned, Span{}, kernel_);
    else if (best_.schedule.empty())
      diags_.Report(kNothingToPin, Span{}, kernel_);
    return std::move(best_);
  }

 private:
  // What to solve for next: another answer with as many registers, or fewer registers.
  void Next() {
    if (last_.serialized > 0 && alternative_ + 1 < kMostAnswers)
      ++alternative_;
    else
      withheld_ += kStep, alternative_ = 0;
    change_ = alternative_ > 0 ? fmt::format("answer {} of the solver", alternative_ + 1)
                               : fmt::format("{} registers of a thread withheld", withheld_);
  }

  void TryNext() {
    scheduler::ProgramOptions options;
    options.target = machine_.get();
    options.solve = scheduler::SolveOptions::ForCompilation();
    options.store = options_.solutions;
    options.withheld_registers = withheld_;
    options.alternative = alternative_;
    ir::Function fn = tile_;
    scheduler::ProgramSchedule schedule = scheduler::ScheduleProgram(fn, options);
    const std::string finding = fmt::format("{}: {}", Say(last_), change_);
    for (scheduler::LoopReport& loop : schedule.loops) {
      std::vector<std::string>& assumptions = loop.solution.schedule.assumptions;
      assumptions.insert(assumptions.end(), found_.begin(), found_.end());
      assumptions.push_back(finding);
    }
    const std::string text = scheduler::ToText(schedule);
    another_ = false;
    if (text.empty()) return;  // fewer registers may be fewer row slices
    loaded_.schedule_file = loaded_.sources.Add(kernel_ + ".sched", text);
    DiagSink refused;  // the lowering has registers of its own to count
    if (!Round(change_, nullptr, refused).ok() || !another_) return;
    found_.push_back(finding);
    if (taken_) best_.schedule = text, best_file_ = loaded_.schedule_file;
  }

  // Compiles and assembles with the schedule in `loaded_`, if there is one.
  Result<> Round(const std::string& what, Lowered* lowered, DiagSink& diags) {
    taken_ = false;
    Observation look;
    look.lowered = lowered;
    TRY(backend::KernelImage image,
        CompileCall(loaded_, kernel_, call_, options_, {.look = &look}, diags));
    if (!programs_.insert(image.ptx).second) return Done();
    another_ = true;
    TRY(backend::PtxasReport report, backend::Assemble(image.ptx, image.target, by_.ptxas, diags));
    last_ = VerdictOf(report);
    std::vector<backend::PtxasReport> before;
    for (const backend::KernelImage& launch : image.before) {
      TRY(backend::PtxasReport of, backend::Assemble(launch.ptx, launch.target, by_.ptxas, diags));
      const Verdict v = VerdictOf(of);
      last_.serialized += v.serialized;
      last_.spilled += v.spilled;
      before.push_back(std::move(of));
    }
    best_.rounds.push_back(fmt::format("{}: {}", what, Say(last_)));
    taken_ = best_.rounds.size() == 1 || last_ < verdict_;
    if (!taken_) return Done();
    verdict_ = last_;
    best_.image = std::move(image);
    best_.report = std::move(report);
    best_.before = std::move(before);
    return Done();
  }

  // The tile program whose loops are solved.
  Result<> Solvable() {
    TRY(machine_, MachineOf(options_, diags_));
    TRY(tile_, MakeTileIr(loaded_, kernel_, call_, nullptr, diags_));
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    TRY(tile_, RunSteps(loaded_, std::move(tile_), steps, options_, nullptr, diags_));
    return Done();
  }

  Loaded& loaded_;
  const std::string& kernel_;
  const Call& call_;
  PipelineOptions options_;
  const RefineBy& by_;
  DiagSink& diags_;
  SolutionCache memory_;
  Machine machine_;
  ir::Function tile_;
  Refined best_;
  Verdict verdict_, last_;  // of the best, of the last
  int32_t best_file_ = -1;  // its schedule, where it is one of those that were tried
  int64_t withheld_ = 0;
  int alternative_ = 0;
  bool another_ = false;  // the last change gave another program
  bool taken_ = false;
  std::string change_;
  std::vector<std::string> found_;
  std::set<std::string> programs_;
};

}  // namespace

Result<Refined> Refine(Loaded& loaded, const std::string& kernel, const Call& call,
                       const PipelineOptions& options, const RefineBy& by, DiagSink& diags) {
  return Refiner(loaded, kernel, call, options, by, diags).Run();
}

}  // namespace tilec::api
