// Passes as data, pipelines proved in order at compile time, and the runner.
//
// A pass is `Result<> Name(Function&, PassContext&)` in its own file plus a row of
// ir/passes/passes.def. The runner, not the pass, verifies, times, prints, stops, and on failure
// writes a crash bundle that one command replays.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/function.h"
#include "ir/target.h"
#include "support/diag.h"

namespace tilec::ir {

// What may hold of a function between passes.
using FactSet = uint32_t;
inline constexpr FactSet kNoFacts = 0;
inline constexpr FactSet kTileLevel = 1 << 0;  // a verified tile function
inline constexpr FactSet kWarpLevel = 1 << 1;  // a verified warp function
inline constexpr FactSet kScheduled = 1 << 2;  // ops have stages and roles
std::string FactNames(FactSet facts);

struct PassContext {
  DiagSink& diags;
  const Target& target;
  int changes = 0;  // a pass counts what it changed
};

using PassFunction = std::function<Result<>(Function&, PassContext&)>;

struct PassInfo {
  const char* name = nullptr;
  const char* summary = nullptr;
  FactSet needs = kNoFacts;
  FactSet gives = kNoFacts;
  FactSet drops = kNoFacts;
};

enum class PassId : uint8_t {
#define PASS(Name, ...) k##Name,
#include "ir/passes/passes.def"
#undef PASS
};

inline constexpr PassInfo kPassInfos[] = {
#define PASS(Name, ...) PassInfo{__VA_ARGS__},
#include "ir/passes/passes.def"
#undef PASS
};
constexpr const PassInfo& Info(PassId id) { return kPassInfos[static_cast<size_t>(id)]; }
std::span<const PassInfo> AllPasses();
std::optional<PassId> PassFromName(std::string_view name);

// The facts after a pipeline, or nothing if some pass lacks what it needs.
constexpr std::optional<FactSet> FactsAfter(std::span<const PassId> pipeline, FactSet facts) {
  for (PassId id : pipeline) {
    const PassInfo& p = Info(id);
    if ((facts & p.needs) != p.needs) return std::nullopt;
    facts = (facts & ~p.drops) | p.gives;
  }
  return facts;
}

// Before any lowering: what a front end may leave undone.
inline constexpr PassId kCleanUp[] = {PassId::kDecodeScales,
                                      PassId::kCanonicalize,
                                      PassId::kFoldTranspose,
                                      PassId::kCse,
                                      PassId::kExactCasts,
                                      PassId::kRangeGathers,
                                      PassId::kFoldRows,
                                      PassId::kSumParts,
                                      PassId::kHoistInvariant,
                                      PassId::kKeepRows,
                                      PassId::kOwnParts,
                                      PassId::kWalkBack,
                                      PassId::kDeferReductions,
                                      PassId::kFewTurns,
                                      PassId::kCanonicalize,
                                      PassId::kCse,
                                      PassId::kDce,
                                      PassId::kSwapOperands,
                                      PassId::kFoldTranspose,
                                      PassId::kRowVectors,
                                      PassId::kWholeStores,
                                      PassId::kGuardReductions,
                                      PassId::kDce};
static_assert(FactsAfter(kCleanUp, kTileLevel), "clean-up lacks a fact some pass needs");

struct PassOptions {
  std::vector<std::string> print_after;  // pass names; "all"
  std::string stop_after;
  const SourceMap* sources = nullptr;  // given: printed ops carry their .tile place
  std::string crash_dir;               // where bundles go, e.g. "crash"; empty: none is written
  std::string version;                 // of the compiler, for bundles
};

struct PassTime {
  std::string name;
  double milliseconds = 0;  // without verifying
  int changes = 0;
};

struct PassOutcome {
  std::string printed;  // what print_after asked for
  std::vector<PassTime> times;
  bool stopped = false;
};

// A row and its function; passes need not stand in the table to be run.
struct PassStep {
  PassInfo info;
  PassFunction run;
};
PassStep StepOf(PassId id);

// Verifies `fn` before the first step and after each.
Result<PassOutcome> RunSteps(Function& fn, std::span<const PassStep> steps, const Target& target,
                             const PassOptions& options, DiagSink& diags);
Result<PassOutcome> RunPasses(Function& fn, std::span<const PassId> pipeline, const Target& target,
                              const PassOptions& options, DiagSink& diags);
// By name, as `tilec opt` gives them; needs are checked at run time.
Result<std::vector<PassId>> PipelineFromNames(std::span<const std::string> names, FactSet facts,
                                              DiagSink& diags);
FactSet FactsOf(const Function& fn);
// The table of --time-passes.
std::string TimesTable(std::span<const PassTime> times);

}  // namespace tilec::ir
