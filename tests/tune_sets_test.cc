// Every point of the `tune` sets of a library file that the model may pick, assembled by ptxas:
// none spills, none has its products serialised. `tilec` picks among them where nobody can be
// asked, too (a program that compiles at run time has no ptxas), so what is picked must be right by
// the plan.
//
//   tune_sets_test [--most=N] [--seed=N] [--quiet] [--target=MACHINE] [--spill=KERNEL:BYTES,…]
//                  FILE.tile
//
// --most: points of a kernel at one choice of its dims and constants, the default first, then drawn
// by the seed. The default must not spill either. --spill: kernels that are known to, and how much.
//
// Where there is no ptxas the test says so and is skipped (exit code 77).
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "api/pipeline.h"
#include "api/stdlib.h"
#include "backend/ptxas.h"
#include "ir/lower/filled.h"
#include "ir/lower/pressure.h"
#include "ir/passes/defer_unlikely.h"
#include "support/diag.h"
#include "tests/fuzz/tile_expr.h"
#include "tests/test_calls.h"

namespace tilec {
namespace {

constexpr int kSkipped = 77;

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Settings {
  std::string target, file, ptxas;
  int most = 24;
  uint64_t seed = 1;
  bool quiet = false;
  std::map<std::string, int64_t> spills;
};

class TuneSets {
 public:
  explicit TuneSets(const Settings& settings) : settings_(settings) {}

  // How many points are wrong; -1: the file does not load.
  int Run() {
    DiagSink diags;
    auto program = api::LoadProgram(loaded_.sources, settings_.file, api::StandardLibrary(), diags);
    if (!program.ok()) {
      fmt::print("{}", RenderAll(diags, loaded_.sources));
      return -1;
    }
    loaded_.program = std::move(*program);
    for (const frontend::TestInfo& test : loaded_.program->tests())
      for (const frontend::TestCallInfo& call : test.calls) Kernel(call);
    fmt::print("{} points, {} not taken by the plan, {} refused, {} wrong\n", points_, left_,
               refused_, wrong_);
    return wrong_;
  }

 private:
  void Kernel(frontend::TestCallInfo call) {
    DiagSink quiet;
    const auto signature = frontend::SignatureOf(*loaded_.program, call.kernel, quiet);
    if (!signature.ok()) return;
    for (const frontend::TuneInfo& tune : signature->tunes) call.args.erase(tune.name);
    // Its program may depend on which dims are 1 and the like; one size of each set of constants.
    std::string key = call.kernel;
    for (const auto& [name, value] : call.args)
      if (IsStatic(*signature, name)) key += fmt::format(" {}={}", name, frontend::ToText(value));
    if (!seen_.insert(key).second) return;
    std::vector<frontend::Values> points = {{}};
    for (const frontend::TuneInfo& tune : signature->tunes) {
      if (tune.candidates.empty()) continue;
      std::vector<frontend::Values> next;
      for (const frontend::Values& point : points)
        for (const frontend::ConstValue& value : tune.candidates) {
          next.push_back(point);
          next.back()[tune.name] = value;
        }
      points = std::move(next);
    }
    fuzz::Rng rng(settings_.seed);
    for (size_t i = points.size(); i > 1; --i)
      std::swap(points[i - 1], points[static_cast<size_t>(rng.Below(static_cast<int>(i)))]);
    points.insert(points.begin(), frontend::Values());
    int done = 0;
    for (const frontend::Values& point : points) {
      if (done >= settings_.most) break;
      done += Point(key, call, point);
    }
  }
  static bool IsStatic(const frontend::Signature& signature, const std::string& name) {
    for (const frontend::DimInfo& dim : signature.dims)
      if (dim.name == name) return dim.is_static;
    for (const frontend::ParamInfo& p : signature.params)
      if (p.name == name) return p.role == frontend::ParamRole::kConst;
    return false;
  }

  // Was it a program?
  bool Point(const std::string& key, frontend::TestCallInfo call, const frontend::Values& point) {
    DiagSink diags;
    std::string text = key + " |";
    for (const auto& [name, value] : point) {
      call.args[name] = value;
      text += fmt::format(" {}={}", name, frontend::ToText(value));
    }
    const auto bound = BindDense(*loaded_.program, call, diags);
    if (!bound.ok()) return false;  // its facts do not hold
    api::PipelineOptions options;
    options.schedule = "solve";
    options.solutions = solved_.store();
    if (!settings_.target.empty()) options.target = settings_.target;
    const auto machine = api::MachineOf(options, diags);
    auto tile = api::MakeTileIr(loaded_, call.kernel, *bound, nullptr, diags);
    if (!machine.ok() || !tile.ok()) return false;
    ++points_;
    const auto warps =
        api::LowerToWarps(loaded_, ir::Likely(*std::move(tile)), options, nullptr, diags);
    if (!warps.ok()) return Refused(text);
    if (!point.empty() && ir::FillingOf(*warps, **machine, false).lacks > 0) return ++left_, true;
    const auto image = api::MakeImage(loaded_, *warps, options, nullptr, diags);
    if (!image.ok()) return Refused(text);
    const auto report = backend::Assemble(image->ptx, image->target, settings_.ptxas, diags);
    if (!report.ok()) return ++wrong_, fmt::print("WRONG  {}  refused by ptxas\n", text), true;
    const int64_t most = std::max(report->spill_store_bytes, report->spill_load_bytes);
    const auto known = settings_.spills.find(call.kernel);
    // (A wait more, C7517, is no product awaited by itself: `sass` holds loops to their claims.)
    const bool good = report->Serialized().empty() &&
                      (most == 0 || (known != settings_.spills.end() && most <= known->second));
    if (!good) ++wrong_;
    if (good && settings_.quiet) return true;
    const ir::RolePressure fullest = ir::FullestRole(*warps, **machine);
    std::string notes;
    for (const Diagnostic& d : diags.all()) notes += fmt::format(" {}", d.def->code);
    fmt::print("{}  {}  {} + {} spilled, keeps {} of {}{}{}\n", good ? "ok   " : "WRONG", text,
               report->spill_store_bytes, report->spill_load_bytes, fullest.kept, fullest.most,
               report->Serialized().empty() ? "" : " SERIALISED", notes);
    return true;
  }
  bool Refused(const std::string& text) {
    ++refused_;
    if (!settings_.quiet) fmt::print("none   {}\n", text);
    return true;
  }

  Solved solved_;
  const Settings& settings_;
  api::Loaded loaded_;
  std::set<std::string> seen_;
  int points_ = 0, left_ = 0, refused_ = 0, wrong_ = 0;
};

int Main(int argc, char** argv) {
  Settings settings;
  settings.ptxas = backend::FindPtxas({"", FromEnvironment("CUDA_HOME"), FromEnvironment("PATH")});
  if (settings.ptxas.empty()) {
    fmt::print("SKIP: no ptxas on this machine\n");
    return kSkipped;
  }
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "--most") {
      settings.most = std::atoi(value.c_str());
    } else if (name == "--seed") {
      settings.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--quiet") {
      settings.quiet = true;
    } else if (name == "--target") {
      settings.target = value;
    } else if (name == "--spill") {
      std::stringstream known{value};
      for (std::string one; std::getline(known, one, ',');) {
        const size_t colon = one.find(':');
        if (colon == std::string::npos) return 2;
        settings.spills[one.substr(0, colon)] = std::atoll(one.c_str() + colon + 1);
      }
    } else if (settings.file.empty()) {
      settings.file = word;
    } else {
      return 2;
    }
  }
  return settings.file.empty() ? 2 : TuneSets(settings).Run() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) { return tilec::Main(argc, argv); }
