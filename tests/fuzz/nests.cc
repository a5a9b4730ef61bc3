// Random nests (nest_program.h), programs whose loads are steered by what they compute
// (steered_program.h), programs with branches in their loops (branch_program.h) and with branches
// that hardly ever run (unlikely_program.h), compiled with roles: emulator against interpreter
// under the judge, in a random order of execution. None may be refused or be wrong, at least
// --roles of them must have rings between roles, --nests a solved nest in their plan, and nothing
// of a schedule is lost in silence: a load that it has in a ring is in a ring of the plan, or a
// diagnostic says that something was lost. Nothing depends on the time it takes: proofs are given
// up by counts.
//
//   nests [--kind=nest|tiles|steered|branches|unlikely] [--programs=N] [--seed=FIRST] [--roles=N]
//   [--nests=N]
//         [--print] [--text] [--why]
//
// `--text` runs nothing: it prints the programs, each with a `test` block that holds its call.
// `--why` prints what was said beside the codes.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "runtime/emulator/judge/finding.h"
#include "tests/fuzz/branch_program.h"
#include "tests/fuzz/lost.h"
#include "tests/fuzz/nest_program.h"
#include "tests/fuzz/steered_program.h"
#include "tests/fuzz/unlikely_program.h"
#include "tests/solved/folder.h"
#include "tools/runner.h"
#include "tools/session.h"

namespace tilec::fuzz {
namespace {

struct Settings {
  std::string kind = "nest";
  uint64_t programs = 24, seed = 1;
  int roles = 20, nests = 0;
  bool print = false, text = false, why = false;
};

struct Outcome {
  std::string wrong;                  // empty: it ran, agrees, and nothing was found
  std::set<std::string> said;         // codes of notes and warnings
  std::string notes;                  // and what they say
  bool roles = false, rings = false;  // of the program; of its schedule
  bool around = false, nest = false;  // rings around other loops; a nest that decided of them
};

std::string Codes(const std::set<std::string>& codes) {
  std::string out;
  for (const std::string& code : codes) out += " " + code;
  return out;
}

// The file that holds the program and its call.
std::string FileOf(const TileProgram& program) {
  std::string call;
  for (const auto& [name, value] : program.values) {
    call += fmt::format("{}{} = ", call.empty() ? "" : ", ", name);
    if (const bool* b = std::get_if<bool>(&value))
      call += *b ? "true" : "false";
    else if (const int64_t* n = std::get_if<int64_t>(&value))
      call += fmt::format("{}", *n);
    else
      call += fmt::format("{:#}", std::get<double>(value));
  }
  return fmt::format("{}test \"seed {}\" {{ {}({}) }}\n", program.text, program.seed,
                     program.kernel, call);
}

Outcome Run(const TileProgram& nest) {
  Outcome out;
  tools::Options options;
  options.no_cache = true;
  options.solutions = SolvedFolder();
  options.schedule = "solve";
  tools::Session session(options);
  DiagSink& diags = session.diags();
  const auto said = [&](const char* what) {
    out.wrong = fmt::format("{}\n{}", what, RenderAll(diags, session.loaded().sources));
    diags.Clear();
    return out;
  };
  auto program = frontend::Program::LoadText(session.loaded().sources, "nest.tile", nest.text,
                                             session.library().Resolver(), diags);
  if (!program.ok()) return said("invalid");
  session.loaded().program.emplace(std::move(*program));
  tools::RunRequest request;
  request.kernel = nest.kernel;
  for (const auto& [name, value] : nest.values) request.values[name] = value;
  request.seed = nest.seed;
  request.check = true;
  bool products = false;  // rows in one role keep the order of their source
  request.rewrite = [&](const std::string& ptx) {
    // One role has a barrier for its copies; a ring between roles has a full and an empty one.
    const size_t first = ptx.find("mbarrier.init");
    products = products || ptx.find("wgmma.mma") != ptx.npos;
    out.roles = first != std::string::npos && ptx.find("mbarrier.init", first + 1) != ptx.npos;
    return ptx;
  };
  api::Lowered lowered;
  std::string plan;
  session.look().lowered = &lowered;
  session.look().plan = &plan;
  const auto report = std::make_shared<runtime::judge::Report>();
  runtime::EmulatorOptions emulator;
  emulator.threads = 1;
  emulator.instruction_limit = 100'000'000;
  emulator.check = runtime::EmulatorOptions::Check::kOn;
  emulator.report = report;
  emulator.seed = nest.seed;
  emulator.policy = runtime::Policy::kRandom;
  const auto device = runtime::OpenEmulator(emulator);
  request.device = device.get();
  const auto result = tools::RunKernel(session, request);
  if (!result.ok()) return said("refused");
  for (const Diagnostic& d : diags.all())
    if (d.def->code[0] != 'F' && out.said.insert(d.def->code).second)
      out.notes += fmt::format("  {}: {}\n", d.def->code, d.message);
  diags.Clear();
  out.rings = RingsOf(lowered) > 0;
  out.around = plan.find(" around=yes") != plan.npos;
  out.nest = plan.find("\nnest ") != plan.npos;
  if (lowered.by_schedule || products)
    if (const std::string lost = LostInSilence(lowered, plan, out.said); !lost.empty())
      out.wrong = "lost in silence: " + lost + "\n";
  if (!report->findings().empty()) out.wrong += runtime::judge::ToText(report->findings());
  for (const tools::TensorRun& t : result->tensors)
    if (t.compared && !t.result.ok()) out.wrong += t.name + ": " + tools::DescribeCheck(t) + "\n";
  return out;
}

int Main(const Settings& settings) {
  int bad = 0, roles = 0, without = 0;  // one role, and rings in the schedule: said, or bad
  int around = 0, nests = 0;
  std::map<std::string, int> codes;
  for (uint64_t seed = settings.seed; seed < settings.seed + settings.programs; ++seed) {
    const TileProgram nest = settings.kind == "branches"   ? GenerateBranches(seed)
                             : settings.kind == "steered"  ? GenerateSteered(seed)
                             : settings.kind == "tiles"    ? GenerateNestOfTiles(seed)
                             : settings.kind == "unlikely" ? GenerateUnlikely(seed)
                                                           : GenerateNest(seed);
    if (settings.print || settings.text) fmt::print("{}", FileOf(nest));
    if (settings.text) continue;
    const Outcome outcome = Run(nest);
    roles += outcome.roles ? 1 : 0;
    without += !outcome.roles && outcome.rings;
    around += outcome.around;
    nests += outcome.nest;
    for (const std::string& code : outcome.said) ++codes[code];
    if (!outcome.wrong.empty()) {
      ++bad;
      fmt::print("seed {}: {}\n{}", seed, outcome.wrong, nest.text);
    } else {
      const char* const has = outcome.roles   ? "roles"
                              : outcome.rings ? "one role in place of its rings"
                                              : "one role";
      fmt::print("seed {}: {}{}{}\n", seed, has, outcome.nest ? ", a solved nest" : "",
                 Codes(outcome.said));
      if (settings.why) fmt::print("{}", outcome.notes);
    }
  }
  if (settings.text) return 0;
  fmt::print(
      "nests: seeds {} to {}, {} with roles, {} with one in place of rings, {} with rings around "
      "loops, {} by a solved nest, {} bad\n",
      settings.seed, settings.seed + settings.programs - 1, roles, without, around, nests, bad);
  for (const auto& [code, n] : codes) fmt::print("  {:8} {}\n", n, code);
  return bad > 0 || roles < settings.roles || nests < settings.nests ? 1 : 0;
}

}  // namespace
}  // namespace tilec::fuzz

int main(int argc, char** argv) {
  tilec::fuzz::Settings settings;
  CLI::App app("random nests: emulator against interpreter");
  app.add_option("--kind", settings.kind)
      ->check(CLI::IsMember({"nests", "branches", "steered", "tiles", "unlikely"}));
  app.add_option("--programs", settings.programs);
  app.add_option("--seed", settings.seed);
  app.add_option("--roles", settings.roles);
  app.add_option("--nests", settings.nests);
  app.add_flag("--print", settings.print);
  app.add_flag("--text", settings.text);
  app.add_flag("--why", settings.why);
  CLI11_PARSE(app, argc, argv);
  return tilec::fuzz::Main(settings);
}
