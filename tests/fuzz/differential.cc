// Random tile programs, compiled and run on the emulator, against the interpreter:
//
//   tile_differential [--programs=N] [--seconds=S] [--seed=FIRST] [--schedule=NAME|mixed]
//                     [--arith=fast|exact] [--judge=PERCENT] [--keep=FOLDER] [--print]
//
// Every program must compile (or be refused for one of the reasons below), end, and store what the
// interpreter says within its bounds: bit for bit where the bound is 0. One in a few also runs
// under the judge and random scheduling, which must find nothing. A failure is printed with its
// seed, made smaller, and kept as a .tile file that `tilec test` can run.
//
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "runtime/emulator/judge/finding.h"
#include "support/file.h"
#include "tests/fuzz/reduce.h"
#include "tests/fuzz/tile_program.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec::fuzz {
namespace {

using Values = frontend::Values;

// What the compiler may say to a program: it is too big for what lowers or proves it, or needs what
// there is no instruction for.
const std::set<std::string> kRefusals = {"I302", "I304", "I306", "I321", "E401", "E402"};

struct Settings {
  uint64_t programs = 300, seed = 1;
  double seconds = 0;
  std::string schedule = "sequential", arith = "fast", keep;
  int judge_percent = 20;
  bool print = false;
  GenOptions generator;
};

// "" if all is well, "refused CODE", or what is wrong.
struct Verdict {
  std::string kind, detail;
  bool bad() const { return !kind.empty() && kind.compare(0, 7, "refused") != 0; }
};

class Runner {
 public:
  Runner(const Settings& settings, uint64_t seed) : settings_(settings), seed_(seed) {}

  Verdict Run(const std::string& text, const Values& given) {
    tools::Options options;
    options.no_cache = true;
    options.schedule = settings_.schedule;
    if (options.schedule == "mixed") options.schedule = seed_ % 8 == 0 ? "solve" : "sequential";
    tools::Session session(options);
    DiagSink& diags = session.diags();
    struct Quiet {  // nothing is printed by the session itself
      DiagSink& diags;
      ~Quiet() { diags.Clear(); }
    } quiet{diags};
    auto program = frontend::Program::LoadText(session.loaded().sources, "random.tile", text,
                                               session.library().Resolver(), diags);
    if (!program.ok()) return Invalid(session);
    session.loaded().program.emplace(std::move(*program));
    const auto signature = frontend::SignatureOf(*session.loaded().program, "program", diags);
    if (!signature.ok()) return Invalid(session);
    tools::RunRequest request;
    request.kernel = "program";
    for (const auto& [name, value] : given)
      if (signature->Has(name)) request.values[name] = value;
    request.seed = seed_;
    request.check = true;
    const auto report = std::make_shared<runtime::judge::Report>();
    const auto device = runtime::OpenEmulator(Emulator(report));
    request.device = device.get();
    const auto result = tools::RunKernel(session, request);
    if (!result.ok()) return Refused(session);
    if (!report->findings().empty()) return {"judged", runtime::judge::ToText(report->findings())};
    return Compare(*result);
  }

 private:
  runtime::EmulatorOptions Emulator(std::shared_ptr<runtime::judge::Report> report) const {
    runtime::EmulatorOptions o;
    if (settings_.arith == "exact") o.arithmetic = runtime::EmulatorOptions::Arithmetic::kExact;
    o.threads = 1;
    o.instruction_limit = 50'000'000;
    if (seed_ % 100 >= static_cast<uint64_t>(settings_.judge_percent)) return o;
    o.check = runtime::EmulatorOptions::Check::kOn;
    o.report = std::move(report);
    o.seed = seed_;
    o.policy = runtime::Policy::kRandom;
    o.landing = seed_ % 2 == 0 ? runtime::Landing::kRandom : runtime::Landing::kPoison;
    return o;
  }

  static Verdict Invalid(tools::Session& session) {
    return {"invalid", RenderAll(session.diags(), session.loaded().sources)};
  }

  static Verdict Refused(tools::Session& session) {
    for (const Diagnostic& d : session.diags().all()) {
      if (d.def->severity != Severity::kError) continue;
      const std::string code = d.def->code;
      if (kRefusals.count(code) != 0) return {"refused " + code, ""};
      return {code[0] == 'F' ? "invalid" : "failed " + code,
              RenderAll(session.diags(), session.loaded().sources)};
    }
    return {"failed without a diagnostic", ""};
  }

  static Verdict Compare(const tools::RunResult& result) {
    for (const tools::TensorRun& t : result.tensors)
      if (t.compared && !t.result.ok())
        return {"wrong", fmt::format("{}: {}\n", t.name, tools::DescribeCheck(t))};
    return {};
  }

  const Settings& settings_;
  uint64_t seed_;
};

Values ValuesOf(const TileProgram& program) {
  Values out;
  for (const auto& [name, value] : program.values) out[name] = value;
  return out;
}

uint64_t current_seed = 0;  // for the handler of crashes

void OnCrash(int signal) {
  char text[64];
  const int n = std::snprintf(text, sizeof text, "\ncrashed (signal %d) at seed %llu\n", signal,
                              static_cast<unsigned long long>(current_seed));
  if (write(1, text, static_cast<size_t>(n)) < 0) std::_Exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void ReportFailure(const Settings& settings, const TileProgram& program, const Verdict& verdict) {
  const Values values = ValuesOf(program);
  std::printf("seed %llu: %s\n%s", static_cast<unsigned long long>(program.seed),
              verdict.kind.c_str(), verdict.detail.c_str());
  Runner runner(settings, program.seed);
  const std::string less = Reduce(program.text, [&](const std::string& text) {
    return runner.Run(text, values).kind == verdict.kind;
  });
  std::printf("---- made smaller\n%s----\n", less.c_str());
  std::fflush(stdout);
  if (settings.keep.empty()) return;
  std::filesystem::create_directories(settings.keep);
  std::string why;
  const std::string base = fmt::format("{}/seed_{}", settings.keep, program.seed);
  if (!WriteFileAtomically(base + ".tile", program.text, &why) ||
      !WriteFileAtomically(base + ".less.tile", less, &why))
    std::printf("%s\n", why.c_str());
}

int Main(const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto since = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::map<std::string, uint64_t> counts;
  uint64_t done = 0, bad = 0;
  for (uint64_t seed = settings.seed;; ++seed) {
    if (settings.seconds > 0 ? since() >= settings.seconds : done >= settings.programs) break;
    current_seed = seed;
    const TileProgram program = Generate(seed, settings.generator);
    if (settings.print) std::printf("%s", program.text.c_str()), std::fflush(stdout);
    const Verdict verdict = Runner(settings, seed).Run(program.text, ValuesOf(program));
    ++done;
    ++counts[verdict.kind.empty() ? "agree" : verdict.kind];
    if (verdict.kind.rfind("refused", 0) == 0)
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), verdict.kind.c_str());
    if (verdict.bad()) {
      ++bad;
      if (bad <= 20) ReportFailure(settings, program, verdict);
    }
    if (done % 5000 == 0) {
      std::printf("%llu programs, %llu bad, %.0f s\n", static_cast<unsigned long long>(done),
                  static_cast<unsigned long long>(bad), since());
      std::fflush(stdout);
    }
  }
  std::printf("tile_differential: seeds %llu to %llu, schedule %s, %s arithmetic, %.0f s\n",
              static_cast<unsigned long long>(settings.seed),
              static_cast<unsigned long long>(settings.seed + done - 1), settings.schedule.c_str(),
              settings.arith.c_str(), since());
  for (const auto& [kind, n] : counts)
    std::printf("  %8llu %s\n", static_cast<unsigned long long>(n), kind.c_str());
  // A generator whose programs are refused tests nothing.
  if (counts["agree"] * 10 < done * 9) return std::printf("too few programs ran\n"), 1;
  return bad > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tilec::fuzz

int main(int argc, char** argv) {
  tilec::fuzz::Settings settings;
  CLI::App app("random tile programs: emulator against interpreter");
  app.add_option("--programs", settings.programs);
  app.add_option("--seconds", settings.seconds);
  app.add_option("--seed", settings.seed);
  app.add_option("--schedule", settings.schedule);
  app.add_option("--arith", settings.arith);
  app.add_option("--keep", settings.keep);
  app.add_option("--judge", settings.judge_percent);
  app.add_flag("--print", settings.print);
  CLI11_PARSE(app, argc, argv);
  for (int s : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(s, tilec::fuzz::OnCrash);
  return tilec::fuzz::Main(settings);
}
