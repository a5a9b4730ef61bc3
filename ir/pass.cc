// Runs passes. On a failing CHECK inside a pass, or IR the verifier rejects after it, the IR as it
// was before the pass is written to <crash_dir>/<hash>/ with the command that replays the pass on
// it. The hash is that of the IR and the pass, so one bug makes one bundle.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/pass.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "ir/diagnostics.h"
#include "ir/passes/passes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/check.h"
#include "support/file.h"

namespace tilec::ir {
namespace {

constexpr Result<> (*kFunctions[])(Function&, PassContext&) = {
#define PASS(Name, ...) Name,
#include "ir/passes/passes.def"
#undef PASS
};

constexpr bool PassTableIsSound() {
  for (size_t i = 0; i < std::size(kPassInfos); ++i) {
    if (!kPassInfos[i].name || !kPassInfos[i].summary) return false;
    for (size_t j = 0; j < i; ++j)
      if (std::string_view(kPassInfos[i].name) == kPassInfos[j].name) return false;
  }
  return true;
}
static_assert(PassTableIsSound(), "passes.def: a row lacks its summary, or repeats a name");

uint64_t Hash(std::string_view text) {  // FNV-1a
  uint64_t h = 0xCBF29CE484222325u;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return h;
}

// What a crash inside one pass leaves behind.
struct Bundle {
  const PassOptions* options = nullptr;
  std::span<const PassStep> steps;
  const char* pass = "";
  std::string before;  // IR text

  // The directory, or "" if nothing could be written.
  std::string Write(const std::string& what) const {
    if (options->crash_dir.empty()) return "";
    namespace fs = std::filesystem;
    const fs::path dir = fs::path(options->crash_dir) / fmt::format("{:016x}", Hash(before + pass));
    std::error_code error;
    fs::create_directories(dir, error);
    if (error) return "";
    std::string names;
    for (const PassStep& s : steps)
      names += fmt::format("{}{}", names.empty() ? "" : ",", s.info.name);
    const std::string replay =
        fmt::format("tilec opt {} --passes={}", (dir / "before.ir").string(), pass);
    const std::string report =
        fmt::format("what:     {}\npass:     {}\npipeline: {}\nversion:  {}\nreplay:   {}\n", what,
                    pass, names, options->version, replay);
    std::string why;
    const bool ok = WriteFileAtomically((dir / "before.ir").string(), before, &why) &&
                    WriteFileAtomically((dir / "report.txt").string(), report, &why);
    return ok ? dir.string() : "";
  }
};

void WriteOnCrash(void* state, const std::string& what) {
  const std::string dir = static_cast<Bundle*>(state)->Write(what);
  if (!dir.empty()) std::fprintf(stderr, "tilec: crash bundle: %s\n", dir.c_str());
}

bool Wanted(const PassOptions& options, const char* name) {
  for (const std::string& w : options.print_after)
    if (w == "all" || w == name) return true;
  return false;
}

Result<> CheckName(const std::string& name, std::span<const PassStep> steps, DiagSink& diags) {
  if (name.empty() || PassFromName(name)) return Done();
  for (const PassStep& s : steps)
    if (name == s.info.name) return Done();
  std::string known;
  for (const PassInfo& p : AllPasses())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", p.name);
  return diags.Report(kUnknownPass, Span{}, name).Place("command line").Help("passes are " + known);
}

}  // namespace

std::span<const PassInfo> AllPasses() { return kPassInfos; }

std::optional<PassId> PassFromName(std::string_view name) {
  for (size_t i = 0; i < std::size(kPassInfos); ++i)
    if (name == kPassInfos[i].name) return static_cast<PassId>(i);
  return std::nullopt;
}

std::string FactNames(FactSet facts) {
  constexpr std::pair<FactSet, const char*> kNames[] = {
      {kTileLevel, "tile level"}, {kWarpLevel, "warp level"}, {kScheduled, "scheduled"}};
  std::string out;
  for (const auto& [fact, name] : kNames)
    if (facts & fact) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  return out;
}

FactSet FactsOf(const Function& fn) { return fn.level == Level::kTile ? kTileLevel : kWarpLevel; }

Result<std::vector<PassId>> PipelineFromNames(std::span<const std::string> names, FactSet facts,
                                              DiagSink& diags) {
  std::vector<PassId> pipeline;
  for (const std::string& name : names) {
    TRY_VOID(CheckName(name, {}, diags));
    const std::optional<PassId> id = PassFromName(name);
    if (!id) return diags.Report(kUnknownPass, Span{}, name).Place("command line");
    const PassInfo& p = Info(*id);
    if ((facts & p.needs) != p.needs)
      return diags.Report(kPassNeeds, Span{}, name, FactNames(p.needs & ~facts))
          .Place("command line");
    facts = (facts & ~p.drops) | p.gives;
    pipeline.push_back(*id);
  }
  return pipeline;
}

PassStep StepOf(PassId id) { return {Info(id), kFunctions[static_cast<size_t>(id)]}; }

Result<PassOutcome> RunPasses(Function& fn, std::span<const PassId> pipeline, const Target& target,
                              const PassOptions& options, DiagSink& diags) {
  std::vector<PassStep> steps;
  for (PassId id : pipeline) steps.push_back(StepOf(id));
  return RunSteps(fn, steps, target, options, diags);
}

Result<PassOutcome> RunSteps(Function& fn, std::span<const PassStep> steps, const Target& target,
                             const PassOptions& options, DiagSink& diags) {
  for (const std::string& name : options.print_after)
    if (name != "all") TRY_VOID(CheckName(name, steps, diags));
  TRY_VOID(CheckName(options.stop_after, steps, diags));
  TRY_VOID(Verify(fn, diags));
  PassOutcome outcome;
  for (const PassStep& step : steps) {
    const PassInfo& info = step.info;
    Bundle bundle{&options, steps, info.name, options.crash_dir.empty() ? "" : Print(fn)};
    const ScopedCrashHook hook(WriteOnCrash, &bundle);
    PassContext cx{diags, target};
    const auto start = std::chrono::steady_clock::now();
    TRY_VOID(step.run(fn, cx));
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
    outcome.times.push_back({info.name, ms.count(), cx.changes});
    if (Wanted(options, info.name))
      outcome.printed += cx.changes == 0 && !outcome.printed.empty()
                             ? fmt::format("// after {}: unchanged\n", info.name)
                             : fmt::format("// after {}: {} changes\n{}", info.name, cx.changes,
                                           Print(fn, {options.sources}));
    if (!Verify(fn, diags).ok()) {
      DiagBuilder report = diags.Report(kPassBroke, Span{}, info.name);
      report.Place(fmt::format("@{}", fn.name));
      const std::string dir = bundle.Write("the verifier rejects the IR after the pass");
      if (!dir.empty()) report.Note("crash bundle: " + dir);
      return report;
    }
    if (options.stop_after == info.name) {
      outcome.stopped = true;
      break;
    }
  }
  return outcome;
}

std::string TimesTable(std::span<const PassTime> times) {
  std::string out;
  double total = 0;
  for (const PassTime& t : times) {
    out += fmt::format("{:>9.3f} ms {:>6}  {}\n", t.milliseconds, t.changes, t.name);
    total += t.milliseconds;
  }
  return fmt::format("     time changes  pass\n{}{:>9.3f} ms         total\n", out, total);
}

}  // namespace tilec::ir
