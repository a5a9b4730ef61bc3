// Random builds of the library's kernels: a call of a `test` block with other sizes, tiles of its
// tune sets, and a schedule drawn by lot. Of each:
//
//   * the plan against the PTX: order, stages, roles, waits and rings are those of the schedule,
//   and
//     what is missing of it was said;
//   * the emulator against the interpreter, one in four under the judge, in a random order;
//   * ptxas, where one is given: refuses nothing, and what it spills is said as `tilec build` says
//     it: bytes, the role that is fullest, what to change. Spills are listed. Where the model chose
//     a tune there are none. It awaits products one by one (C739) only where registers are short.
//
//   random_builds --root=CHECKOUT [--builds=N | --seconds=S] [--seed=FIRST] [--ptxas=PATH]
//                 [--file=PART] [--work=N] [--print] [--forms] [--target=NAME]
//
// A build follows from its seed and --work (the product of its dims, at most); with --forms it is
// of any form that --schedule names (parts, neighbours, packs, CTAs that stay). What is refused is
// tallied by the code of the diagnostic.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/machine.h"
#include "api/spills.h"
#include "backend/ptxas.h"
#include "runtime/emulator/judge/finding.h"
#include "tests/fuzz/lost.h"
#include "tests/fuzz/tile_expr.h"
#include "tests/obeyed/wanted.h"
#include "tests/solved/folder.h"
#include "tests/test_calls.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec::fuzz {
namespace {

namespace fs = std::filesystem;

struct Settings {
  std::string root = ".", ptxas, file;
  uint64_t builds = 40, seed = 1;
  double seconds = 0;
  double work = 3e7;  // product of all dims, at most: what the interpreter does in a second
  bool print = false;
  bool forms = false;
  std::string target;  // empty: the H200
};

struct Counts {
  uint64_t builds = 0, ran = 0, by_schedule = 0, loops = 0, judged = 0, bad = 0, spilled = 0,
           spilled_of_model = 0, too_long = 0, serialized = 0;
  std::map<std::string, int> refused, said;
};

std::vector<std::string> KernelFiles(const Settings& settings) {
  std::vector<std::string> files;
  for (const char* folder : {"stdlib", "stdlib/models"})
    for (const auto& entry : fs::directory_iterator(fs::path(settings.root) / folder))
      if (entry.path().extension() == ".tile" &&
          entry.path().string().find(settings.file) != std::string::npos)
        files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string Schedule(Rng& rng) {
  switch (rng.Below(12)) {
    case 0: return "sequential";
    case 1: return "solve:slices=2";
    case 2: return "solve:clusters";
    case 3: return "solve:split=2";
    case 4: return "solve:once";
    default: return "solve";
  }
}

// Any form of the grid.
std::string Form(Rng& rng) {
  const int many = 2 + rng.Below(4);
  const char* fours = rng.Chance(50) ? "=4" : "";
  const char* along = rng.Chance(50) ? ":along=2" : "";
  switch (rng.Below(14)) {
    case 0: return "solve:once";
    case 1: return "solve:persistent";
    case 2:
    case 3: return fmt::format("solve:clusters{}{}", fours, along);
    case 4: return "solve:along=2";
    case 5:
    case 6: return fmt::format("solve:split={}", rng.Chance(20) ? 8 * many : many);
    case 7:
    case 8: return fmt::format("solve:split={}:apart", many);
    case 9: return fmt::format("solve:clusters{}{}:split={}:apart", fours, along, many);
    case 10: return fmt::format("solve:pack={}", 2 << rng.Below(3));
    case 11: return fmt::format("solve:pack={}:split={}", 2 << rng.Below(3), many);
    case 12: return fmt::format("solve:slices={}", 1 + rng.Below(3));
    default: return fmt::format("sequential:split={}", many);
  }
}

class Build {
 public:
  Build(const Settings& settings, const std::vector<std::string>& files, uint64_t seed,
        Counts* counts)
      : settings_(settings), rng_(seed * 31 + 7), seed_(seed), counts_(*counts) {
    options_.no_cache = true;
    options_.solutions = SolvedFolder();
    options_.schedule = settings.forms ? Form(rng_) : Schedule(rng_);
    if (!settings.target.empty()) {
      options_.target = settings.target;
      options_.target_said = true;
    }
    if (rng_.Chance(15)) options_.tune = "model";
    file_ = files[static_cast<size_t>(rng_.Below(static_cast<int>(files.size())))];
  }

  bool Run() {
    ++counts_.builds;
    tools::Session session(options_);
    if (!session.LoadFile(file_).ok()) return Bad(session, "does not load");
    if (!Draw(session)) return true;
    if (settings_.print) fmt::print("seed {}: {}\n", seed_, What());
    const bool good = Check(session);
    session.diags().Clear();
    return good;
  }

 private:
  std::string What() const {
    std::string values;
    for (const auto& [name, value] : values_)
      values += fmt::format(" {}={}", name, frontend::ToText(value));
    return fmt::format("{}:{}{} --schedule={} --tune={}", file_, kernel_, values, options_.schedule,
                       options_.tune);
  }
  bool Bad(tools::Session& session, const std::string& why) {
    ++counts_.bad;
    fmt::print("seed {}: {}\n  {}\n{}", seed_, What(), why,
               RenderAll(session.diags(), session.loaded().sources));
    session.diags().Clear();
    return false;
  }

  static int64_t AsInteger(const frontend::ConstValue& v) {
    const int64_t* i = std::get_if<int64_t>(&v);
    return i ? *i : 1;
  }

  // A call of the file's tests, with other sizes where they are lawful, and other tiles.
  bool Draw(tools::Session& session) {
    std::vector<const frontend::TestCallInfo*> calls;
    for (const frontend::TestInfo& test : session.loaded().program->tests())
      for (const frontend::TestCallInfo& call : test.calls) calls.push_back(&call);
    if (calls.empty()) return false;
    const frontend::TestCallInfo& call =
        *calls[static_cast<size_t>(rng_.Below(static_cast<int>(calls.size())))];
    kernel_ = call.kernel;
    values_ = call.args;
    const auto signature =
        frontend::SignatureOf(*session.loaded().program, kernel_, session.diags());
    if (!signature.ok()) return false;
    api::Given sized = values_;
    double work = 1;
    for (const frontend::DimInfo& dim : signature->dims) {
      const auto given = sized.find(dim.name);
      if (given == sized.end()) continue;
      if (rng_.Chance(40)) {
        constexpr int64_t kSizes[] = {1,   7,   16,  33,  48,  64,  96, 100,
                                      127, 128, 130, 192, 200, 256, 300};
        given->second = kSizes[rng_.Below(15)];
      }
      work *= static_cast<double>(std::max<int64_t>(1, AsInteger(given->second)));
    }
    if (work <= settings_.work && Lawful(session, sized)) values_ = sized;
    for (const frontend::TuneInfo& tune : signature->tunes)
      if (!tune.candidates.empty() && rng_.Chance(60))
        values_[tune.name] = tune.candidates[static_cast<size_t>(
            rng_.Below(static_cast<int>(tune.candidates.size())))];
    // With tiles that are given, the model may have none left that do not spill.
    bool given = false;
    for (const frontend::TuneInfo& tune : signature->tunes) {
      given = given || values_.count(tune.name) > 0;
      if (options_.tune == "model") open_.push_back(tune.name);
    }
    if (given) open_.clear();
    return true;
  }
  bool Lawful(tools::Session& session, const api::Given& values) {
    frontend::TestCallInfo call;
    call.kernel = kernel_;
    call.args = values;
    DiagSink said;
    const bool lawful = BindDense(*session.loaded().program, call, said).ok();
    said.Clear();
    return lawful;
  }

  bool Check(tools::Session& session) {
    api::Lowered lowered;
    std::string plan, ptx;
    session.look().lowered = &lowered;
    session.look().pressure = &pressure_;
    session.look().plan = &plan;
    tools::RunRequest request;
    request.kernel = kernel_;
    request.values = values_;
    request.seed = seed_;
    request.check = true;
    request.rewrite = [&](const std::string& text) { return ptx = text; };
    const auto report = std::make_shared<runtime::judge::Report>();
    runtime::EmulatorOptions emulator;
    emulator.threads = 1;
    emulator.instruction_limit = 100'000'000;
    const bool judged = rng_.Chance(25);
    if (judged) emulator.check = runtime::EmulatorOptions::Check::kOn;
    emulator.report = report;
    emulator.seed = seed_;
    emulator.policy = runtime::Policy::kRandom;
    if (!settings_.target.empty()) {
      const auto machine = session.Machine();
      if (!machine.ok()) return Bad(session, "no such machine");
      emulator.machine = api::LimitsOf(**machine);
    }
    const auto device = runtime::OpenEmulator(emulator);
    request.device = device.get();
    const auto result = tools::RunKernel(session, request);
    std::set<std::string> codes;
    std::string error;
    for (const Diagnostic& d : session.diags().all()) {
      if (d.def->severity == Severity::kError && error.empty()) error = d.def->code;
      if (d.def->severity != Severity::kError) codes.insert(d.def->code);
      if (d.def->code == std::string("R587"))
        fmt::print("seed {}: {}: R587: {}\n", seed_, What(), d.message);
    }
    for (const std::string& code : codes) ++counts_.said[code];
    if (ptx.empty()) {
      if (error.empty()) return Bad(session, "neither PTX nor a reason");
      if (counts_.refused[error]++ == 0)
        fmt::print("seed {}: {}\n  refused: {}", seed_, What(),
                   RenderAll(session.diags(), session.loaded().sources));
      return true;
    }
    ++counts_.ran;
    bool good = Assembles(session, ptx);
    // What reads PTX back knows that of the H200.
    const bool read_back = settings_.target.empty();
    if (read_back && lowered.by_schedule) good = Obeyed(session, lowered, plan, ptx, codes) && good;
    if (read_back && !options_.schedule.starts_with("sequential")) {
      const bool products = ptx.find("wgmma.mma") != ptx.npos;
      if (lowered.by_schedule || (products && HasLoop(ptx)))
        if (const std::string lost = LostInSilence(lowered, plan, codes); !lost.empty())
          good = Bad(session, "lost in silence: " + lost);
    }
    if (!result.ok()) {
      if (error == "R521") {  // sizes were drawn without what a `where` behind tunes says
        ++counts_.refused[error];
        return good;
      }
      if (error != "E645") return Bad(session, "does not run: " + error);
      ++counts_.too_long;
      return good;
    }
    // Where all that it looks at spills, the defaults stand.
    const bool chosen = std::any_of(open_.begin(), open_.end(), [&](const std::string& tune) {
      return result->values.count(tune) > 0;
    });
    if (chosen && model_spills_) {
      ++counts_.spilled_of_model;
      good = Bad(session, "the model chose what spills");
    }
    for (const tools::TensorRun& t : result->tensors)
      if (t.compared && !t.result.ok())
        good = Bad(session, t.name + ": " + tools::DescribeCheck(t));
    counts_.judged += judged;
    if (!report->findings().empty())
      good = Bad(session, runtime::judge::ToText(report->findings()));
    return good;
  }

  // Is something repeated? Else there is nothing to schedule, and nothing of it is lost.
  static bool HasLoop(const std::string& ptx) {
    std::string why;
    const auto code = obeyed::Code::Read(ptx, &why);
    return !code || std::any_of(code->loops().begin(), code->loops().end(),
                                [](const obeyed::Loop& loop) { return !loop.spin; });
  }

  // Was it said that a ring got fewer slots than the schedule gave it, and does the plan say so?
  static bool Said(const std::string& plan, const std::string& fault,
                   const std::set<std::string>& codes) {
    int slots = 0, wanted = 0;
    const size_t at = fault.rfind(" has ");
    if (!fault.starts_with("the ring of ") || at == fault.npos ||
        std::sscanf(fault.c_str() + at, " has %d slots, the schedule %d", &slots, &wanted) != 2)
      return false;
    return (slots > wanted || codes.count("R607") > 0) &&
           plan.find(fmt::format(".slots from={} to={} why=", wanted, slots)) != plan.npos;
  }

  bool Obeyed(tools::Session& session, const api::Lowered& lowered, const std::string& plan,
              const std::string& ptx, const std::set<std::string>& codes) {
    ++counts_.by_schedule;
    std::string why;
    const auto code = obeyed::Code::Read(ptx, &why);
    if (!code) return Bad(session, "the PTX cannot be read back: " + why);
    for (const scheduler::LoopReport& loop : lowered.schedule.loops) {
      if (!loop.applied) continue;
      // In which order one role runs what two were to run is not the schedule's to say.
      if (codes.count("R607") && std::count(loop.notes.begin(), loop.notes.end(),
                                            "one role runs what its compute roles share"))
        continue;
      ++counts_.loops;
      const obeyed::WantedLoop wanted =
          obeyed::WantedOf(lowered.schedule, loop, session.loaded().sources);
      obeyed::Verdict verdict = obeyed::Compare(*code, wanted);
      std::erase_if(verdict.faults, [&](const std::string& f) { return Said(plan, f, codes); });
      if (!verdict.faults.empty() && settings_.print)
        fmt::print("{}\n", scheduler::ToText(lowered.schedule));
      if (!verdict.faults.empty())
        return Bad(session, fmt::format("not obeyed: {}", fmt::join(verdict.faults, "; ")));
    }
    return true;
  }

  bool Assembles(tools::Session& session, const std::string& ptx) {
    if (settings_.ptxas.empty()) return true;
    const size_t at = ptx.find(".target ");
    const std::string target = ptx.substr(at + 8, ptx.find_first_of(" ,\n", at + 8) - at - 8);
    DiagSink said;
    const auto made = backend::Assemble(ptx, target, settings_.ptxas, said);
    if (!made.ok()) {
      const std::string why = RenderAll(said, session.loaded().sources);
      said.Clear();
      return Bad(session, "refused by ptxas: " + why);
    }
    const int bytes = made->spill_store_bytes + made->spill_load_bytes;
    if (settings_.print)
      for (const Diagnostic& d : session.diags().all())
        if (d.def->code == std::string("R622")) fmt::print("  {}: {}\n", d.def->code, d.message);
    if (settings_.print)
      fmt::print("  kept {} held {} of {} in `{}`: {} registers, {} bytes spilled\n",
                 pressure_.kept, pressure_.held, pressure_.most, pressure_.role, made->registers,
                 bytes);
    api::SaySpills(session.loaded(), kernel_, pressure_, *made, session.diags());
    for (const std::string& line : made->Serialized()) {
      ++counts_.serialized;
      fmt::print("seed {}: {}: {}\n", seed_, What(), line);
      const bool registers =
          bytes > 0 && (line.find("C7511") != line.npos || line.find("C7512") != line.npos);
      if (!registers) return Bad(session, "ptxas serializes its products");
      if (!Said(session, "C739")) return Bad(session, "serialized in silence");
    }
    if (bytes == 0) return true;
    ++counts_.spilled;
    fmt::print("seed {}: spills {} + {} bytes: {}\n", seed_, made->spill_store_bytes,
               made->spill_load_bytes, What());
    if (!SpillSaid(session, bytes)) return Bad(session, "spills in silence");
    model_spills_ = true;  // if it chose
    return true;
  }

  static bool Said(tools::Session& session, const std::string& code) {
    for (const Diagnostic& d : session.diags().all())
      if (d.def->code == code) return true;
    return false;
  }

  // A warning with the bytes, the cause (registers kept, registers there are) and what to change.
  bool SpillSaid(tools::Session& session, int bytes) const {
    for (const Diagnostic& d : session.diags().all())
      if (d.def->code == std::string("C734") && !d.helps.empty() && pressure_.kept > 0 &&
          d.message.find(fmt::format("spills {} bytes of `{}`", bytes, kernel_)) !=
              std::string::npos &&
          d.message.find(fmt::format("keeps {} registers", pressure_.kept)) != std::string::npos)
        return true;
    return false;
  }

  const Settings& settings_;
  Rng rng_;
  const uint64_t seed_;
  Counts& counts_;
  tools::Options options_;
  std::string file_, kernel_;
  api::Given values_;
  ir::RolePressure pressure_;
  std::vector<std::string> open_;  // tunes that are left to the model
  bool model_spills_ = false;
};

int Main(const Settings& settings) {
  const std::vector<std::string> files = KernelFiles(settings);
  if (files.empty()) return 2;
  Counts counts;
  const auto start = std::chrono::steady_clock::now();
  uint64_t seed = settings.seed;
  for (;; ++seed) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (settings.seconds > 0 ? spent.count() > settings.seconds
                             : seed >= settings.seed + settings.builds)
      break;
    Build(settings, files, seed, &counts).Run();
    std::fflush(stdout);
  }
  fmt::print(
      "random_builds: seeds {} to {}: {} builds, {} ran ({} cut short), {} by a schedule with {} "
      "loops read back, {} judged, {} spill ({} of the model's), "
      "{} serialized, {} bad\n",
      settings.seed, seed - 1, counts.builds, counts.ran, counts.too_long, counts.by_schedule,
      counts.loops, counts.judged, counts.spilled, counts.spilled_of_model, counts.serialized,
      counts.bad);
  for (const auto& [code, n] : counts.refused) fmt::print("  {:6} refused by {}\n", n, code);
  for (const auto& [code, n] : counts.said) fmt::print("  {:6} said {}\n", n, code);
  return counts.bad > 0 || counts.ran == 0 ? 1 : 0;
}

}  // namespace
}  // namespace tilec::fuzz

int main(int argc, char** argv) {
  tilec::fuzz::Settings settings;
  CLI::App app("random builds of library kernels");
  app.add_option("--root", settings.root);
  app.add_option("--builds", settings.builds);
  app.add_option("--seconds", settings.seconds);
  app.add_option("--seed", settings.seed);
  app.add_option("--ptxas", settings.ptxas);
  app.add_option("--file", settings.file);
  app.add_option("--work", settings.work);
  app.add_flag("--print", settings.print);
  app.add_flag("--forms", settings.forms);
  app.add_option("--target", settings.target);
  CLI11_PARSE(app, argc, argv);
  return tilec::fuzz::Main(settings);
}
