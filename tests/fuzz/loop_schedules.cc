// Random loop programs, each under several schedules: the solver's, two row slices, two random
// lawful ones, pins in the source, turns that CTAs share, and ops divided among compute roles.
// Every PTX runs on the emulator in a random order of execution, mostly under the judge, and must
// equal the interpreter; none may hang. Programs of random schedules are also read back
// (tests/obeyed), and broken in one place at a time: the verifier rejects every mutant, or it
// stands in the table of the harmless ones.
//
//   loop_schedules [--programs=N | --seconds=N] [--seed=FIRST | --seeds=N,N…]
//                  [--mutants=N | --kind=KIND] [--keep=FOLDER] [--smaller=TRIES] [--only=VARIANT]
//                  [--target=MACHINE] [--print]
//
// --target: another machine than the H200. There the emulator is asked alone: what reads PTX back
// knows one matrix unit, and the table of harmless mutants one machine.
//
// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "api/machine.h"
#include "ir/passes/passes.h"
#include "ir/text.h"
#include "ir/warp_check/check.h"
#include "runtime/emulator/judge/finding.h"
#include "support/file.h"
#include "tests/fuzz/loop_program.h"
#include "tests/fuzz/random_schedule.h"
#include "tests/fuzz/reduce.h"
#include "tests/fuzz/tile_expr.h"
#include "tests/obeyed/wanted.h"
#include "tests/solved/folder.h"
#include "tests/test_calls.h"
#include "tests/unit/h200.h"
#include "tests/warp_check/mutants.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec::fuzz {
namespace {

struct Settings {
  uint64_t programs = 50, seed = 1;
  std::vector<uint64_t> seeds;  // these alone
  int mutants = 40;
  int smaller = 60;    // tries at making what fails smaller
  double seconds = 0;  // 0: all programs
  std::string keep;
  std::string only;    // one variant
  std::string kind;    // of mutants: all of this one
  std::string target;  // "": the H200
  bool print = false;
};

// One way to schedule a program.
struct Variant {
  const char* name;
  const char* schedule;  // "": random, from a file
  int slices;
  bool pins;
  int dice;
  bool crossing = false;  // tiles pass between compute roles
};
constexpr Variant kVariants[] = {
    {"solve", "solve", 0, false, 0},
    {"two slices", "solve:slices=2", 0, false, 0},
    {"random", "", 1, false, 1},
    {"random of two slices", "", 2, false, 2},
    {"another random", "", 1, false, 3},
    {"pinned", "solve", 0, true, 0},
    {"split", "solve:split=4", 0, false, 0},
    {"random roles", "", 1, false, 4, true},
};
constexpr const char* kFile = "random.sched";

// What may be said to a program or to its schedule.
const std::map<std::string, const char*> kRefusals = {
    {"S345", "the lowering has no form for this schedule"},
    {"R589", "registers, or the proof"},
    {"S322", "pins that contradict the machine or each other"},
};

using Counts = std::map<std::string, uint64_t>;

class Runner {
 public:
  Runner(const Settings& settings, uint64_t seed, Counts& counts)
      : settings_(settings), seed_(seed), counts_(counts) {}

  // "", or what is wrong.
  std::string Run(const Variant& variant, const std::string& text, const frontend::Values& values) {
    tools::Options options;
    options.no_cache = true;
    options.solutions = SolvedFolder();
    options.target = settings_.target.empty() ? "h200" : settings_.target;
    options.target_said = !settings_.target.empty();
    options.schedule = variant.schedule[0] != 0 ? variant.schedule : kFile;
    tools::Session session(options);
    struct Quiet {
      DiagSink& diags;
      ~Quiet() { diags.Clear(); }
    } quiet{session.diags()};
    auto program = frontend::Program::LoadText(session.loaded().sources, "random.tile", text,
                                               session.library().Resolver(), session.diags());
    if (!program.ok()) return Said(session, "invalid");
    session.loaded().program.emplace(std::move(*program));
    if (variant.schedule[0] == 0) {
      const Result<std::string> schedule = Random(session, variant, values);
      if (!schedule.ok()) return Said(session, "no tile IR");
      if (schedule->empty()) return Count(variant, "without such a schedule");
      if (settings_.print) std::printf("%s", schedule->c_str());
      session.loaded().schedule_file = session.loaded().sources.Add(kFile, *schedule);
    }
    tools::RunRequest request;
    request.kernel = "program";
    request.values = values;
    request.seed = seed_;
    request.check = true;
    const auto report = std::make_shared<runtime::judge::Report>();
    runtime::EmulatorOptions how = Emulator(variant, report);
    const Result<api::Machine> machine = session.Machine();
    if (!machine.ok()) return Said(session, "no such machine");
    if (!settings_.target.empty()) how.machine = api::LimitsOf(**machine);
    const auto device = runtime::OpenEmulator(how);
    request.device = device.get();
    const auto result = tools::RunKernel(session, request);
    if (!result.ok()) {
      for (const Diagnostic& d : session.diags().all())
        if (d.def->severity == Severity::kError && kRefusals.count(d.def->code) != 0)
          return Count(variant, std::string("refused ") + d.def->code);
      return Said(session, "failed");
    }
    // Rows of a tile that are padding are read, too, whoever wrote there last: a hint.
    if (report->Count(runtime::judge::Severity::kHint) != report->findings().size())
      return "judged\n" + runtime::judge::ToText(report->findings());
    for (const tools::TensorRun& t : result->tensors)
      if (t.compared && !t.result.ok())
        return fmt::format("wrong\n{}: {}\n", t.name, tools::DescribeCheck(t));
    bool fallen_back = false;
    for (const Diagnostic& d : session.diags().all())
      fallen_back = fallen_back || std::string(d.def->code) == "R587";
    Count(variant, fallen_back ? "agree, by a simpler rule" : "agree");
    const bool read_back = variant.schedule[0] == 0 && settings_.target.empty();
    return read_back ? Inside(session, values) : "";
  }

 private:
  std::string Count(const Variant& variant, const std::string& what) {
    ++counts_[fmt::format("{}: {}", variant.name, what)];
    return "";
  }
  static std::string Said(tools::Session& session, const char* what) {
    return fmt::format("{}\n{}", what, RenderAll(session.diags(), session.loaded().sources));
  }

  Result<ir::Function> TileIr(tools::Session& session, const frontend::Values& values) {
    TRY(const api::Call bound,
        BindDense(*session.loaded().program, {"program", values}, session.diags()));
    return api::MakeTileIr(session.loaded(), "program", bound, nullptr, session.diags());
  }

  Result<std::string> Random(tools::Session& session, const Variant& variant,
                             const frontend::Values& values) {
    TRY(ir::Function fn, TileIr(session, values));
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    TRY(fn, api::RunSteps(session.loaded(), std::move(fn), steps, session.pipeline(), nullptr,
                          session.diags()));
    TRY(const api::Machine target, session.Machine());
    return RandomSchedules(fn, variant.slices, *target,
                           seed_ * 8 + static_cast<uint64_t>(variant.dice), variant.crossing);
  }

  runtime::EmulatorOptions Emulator(const Variant& variant,
                                    std::shared_ptr<runtime::judge::Report> report) const {
    runtime::EmulatorOptions o;
    o.threads = 1;
    o.instruction_limit = 400'000'000;
    o.seed = seed_ * 8 + static_cast<uint64_t>(variant.dice);
    o.policy = runtime::Policy::kRandom;
    o.landing = seed_ % 2 == 0 ? runtime::Landing::kRandom : runtime::Landing::kPoison;
    if ((seed_ + static_cast<uint64_t>(variant.dice)) % 3 == 0) return o;  // faster without
    o.check = runtime::EmulatorOptions::Check::kOn;
    o.report = std::move(report);
    return o;
  }

  // The schedule is obeyed by the PTX, and mutants of the warp program are rejected.
  std::string Inside(tools::Session& session, const frontend::Values& values) {
    DiagSink& diags = session.diags();
    api::Observation look;
    api::Lowered lowered;
    look.lowered = &lowered;
    Result<ir::Function> fn = TileIr(session, values);
    if (fn.ok())
      fn = api::LowerToWarps(session.loaded(), std::move(*fn), session.pipeline(), &look, diags);
    if (!fn.ok()) return Said(session, "not lowered again");
    Result<backend::KernelImage> image =
        api::MakeImage(session.loaded(), *fn, session.pipeline(), nullptr, diags);
    if (!image.ok()) return Said(session, "no image");
    std::string why;
    const auto code = obeyed::Code::Read(image->ptx, &why);
    if (!code) return "unreadable PTX: " + why;
    if (!lowered.by_schedule) ++counts_["read back: not, lowered by a simpler rule"];
    for (const scheduler::LoopReport& loop : lowered.schedule.loops) {
      if (!loop.applied || !lowered.by_schedule) continue;
      obeyed::WantedLoop wanted =
          obeyed::WantedOf(lowered.schedule, loop, session.loaded().sources);
      wanted.strict = false;
      const obeyed::Verdict verdict = obeyed::Compare(*code, wanted);
      ++counts_["read back: loops"];
      counts_["read back: products"] += static_cast<uint64_t>(verdict.products);
      counts_["read back: masses"] += static_cast<uint64_t>(verdict.masses);
      counts_["read back: tiles between roles"] += static_cast<uint64_t>(verdict.passes);
      // Rings get what room there is, not what the schedule has: known (docs/lowering/schedule.md).
      std::string text;
      for (const std::string& fault : verdict.faults)
        if (fault.rfind("the ring of", 0) != 0)
          text += fault + "\n";
        else
          ++counts_["read back: rings that are too shallow"];
      if (!text.empty()) {
        for (const std::string& note : loop.notes) text += "note: " + note + "\n";
        return "not obeyed\n" + text;
      }
    }
    return Mutants(*fn);
  }

  std::string Mutants(const ir::Function& fn) {
    DiagSink diags;
    const Result<ir::WarpCheckStats> stats =
        ir::CheckWarps(fn, ir::WarpCheckOptions(ir::H200()), diags);
    if (!stats.ok()) return "not accepted again";
    std::vector<ir::Mutant> mutants = ir::MutantsOf(fn);
    if (!settings_.kind.empty())
      std::erase_if(mutants, [&](const ir::Mutant& m) { return m.kind != settings_.kind; });
    Rng rng(seed_);
    if (settings_.print) std::printf("%s", ir::Print(fn).c_str());
    const size_t judged =
        settings_.kind.empty() ? static_cast<size_t>(settings_.mutants) : mutants.size();
    std::set<size_t> drawn;  // a short program has fewer than are asked for: once each
    for (size_t i = 0; i < judged && !mutants.empty(); ++i) {
      const size_t at = settings_.kind.empty()
                            ? static_cast<size_t>(rng.Below(static_cast<int>(mutants.size())))
                            : i;
      if (!drawn.insert(at).second) continue;
      const ir::MutantVerdict verdict = ir::Judge(fn, stats->uses, mutants[at], ir::H200());
      switch (verdict.kind) {
        case ir::MutantVerdict::Kind::kRejected: ++counts_["mutants: rejected"]; break;
        case ir::MutantVerdict::Kind::kHarmless: ++counts_["mutants: no mistake"]; break;
        case ir::MutantVerdict::Kind::kSurvives: return "a mutant survives\n" + verdict.text + "\n";
      }
    }
    return "";
  }

  const Settings& settings_;
  uint64_t seed_;
  Counts& counts_;
};

frontend::Values ValuesOf(const TileProgram& program) {
  frontend::Values out;
  for (const auto& [name, value] : program.values) out[name] = value;
  return out;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

void ReportFailure(const Settings& settings, const Variant& variant, const TileProgram& program,
                   const std::string& wrong) {
  const frontend::Values values = ValuesOf(program);
  std::string call;
  for (const auto& [name, value] : values)
    call += fmt::format(" {}={}", name, frontend::ToText(value));
  std::printf("seed %llu, %s,%s: %s\n", static_cast<unsigned long long>(program.seed), variant.name,
              call.c_str(), wrong.c_str());
  std::fflush(stdout);
  Counts ignored;
  Settings quiet = settings;
  quiet.print = false;
  const std::string less = Reduce(
      program.text,
      [&](const std::string& text) {
        return FirstLine(Runner(quiet, program.seed, ignored).Run(variant, text, values)) ==
               FirstLine(wrong);
      },
      settings.smaller);
  std::printf("---- made smaller\n%s----\n", less.c_str());
  std::fflush(stdout);
  if (settings.keep.empty()) return;
  std::filesystem::create_directories(settings.keep);
  std::string why;
  const std::string path = fmt::format("{}/loop_{}.tile", settings.keep, program.seed);
  if (!WriteFileAtomically(path, program.text, &why)) std::printf("%s\n", why.c_str());
}

int Main(const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Counts counts;
  uint64_t bad = 0, programs = 0;
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const auto goes_on = [&] {
    if (!settings.seeds.empty()) return programs < settings.seeds.size();
    return settings.seconds > 0 ? seconds() < settings.seconds : programs < settings.programs;
  };
  for (; goes_on(); ++programs)
    for (const Variant& variant : kVariants) {
      const uint64_t seed =
          settings.seeds.empty() ? settings.seed + programs : settings.seeds[programs];
      if ((variant.slices == 2 || variant.crossing) && seed % 2 == 0) continue;
      if (!settings.only.empty() && settings.only != variant.name) continue;
      const TileProgram program = GenerateLoop(seed, variant.pins);
      if (settings.print) std::printf("// %s\n%s", variant.name, program.text.c_str());
      const std::string wrong =
          Runner(settings, seed, counts).Run(variant, program.text, ValuesOf(program));
      if (wrong.empty()) continue;
      ++counts["WRONG: " + FirstLine(wrong)];
      if (++bad <= 10) ReportFailure(settings, variant, program, wrong);
    }
  std::printf("loop_schedules: %llu programs from seed %llu, %.0f s\n",
              static_cast<unsigned long long>(programs),
              static_cast<unsigned long long>(settings.seed), seconds());
  for (const auto& [what, n] : counts)
    std::printf("  %8llu %s\n", static_cast<unsigned long long>(n), what.c_str());
  // Schedules that are refused test nothing. A few programs say nothing about the share.
  constexpr uint64_t kEnough = 20;
  uint64_t random = 0;
  for (const auto& [what, n] : counts)
    if (what.find("random") != std::string::npos && what.find("agree") != std::string::npos)
      random += n;
  const bool expects_random = settings.only.empty() || settings.only == "random";
  // Random orders often lose cycles where the lowering has to move a product: those are refused,
  // too.
  const uint64_t least = settings.only.empty() ? programs : programs * 2 / 5;
  if (expects_random && programs >= kEnough && random < least)
    return std::printf("%llu random schedules ran, fewer than %llu\n",
                       static_cast<unsigned long long>(random),
                       static_cast<unsigned long long>(least)),
           1;
  return bad > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tilec::fuzz

int main(int argc, char** argv) {
  tilec::fuzz::Settings settings;
  CLI::App app("random loop programs under many schedules");
  app.add_option("--programs", settings.programs);
  app.add_option("--seconds", settings.seconds);
  app.add_option("--seed", settings.seed);
  app.add_option("--seeds", settings.seeds)->delimiter(',');
  app.add_option("--smaller", settings.smaller);
  app.add_option("--mutants", settings.mutants);
  app.add_option("--keep", settings.keep);
  app.add_option("--only", settings.only);
  app.add_option("--kind", settings.kind);
  app.add_option("--target", settings.target);
  app.add_flag("--print", settings.print);
  CLI11_PARSE(app, argc, argv);
  return tilec::fuzz::Main(settings);
}
