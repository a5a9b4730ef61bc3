// The whole compiler, from a loaded program to a kernel image, one verb per stage:
//
//   LoadProgram (api/stdlib.h) → BindCall (api/call.h) → MakeTileIr → LowerToWarps → MakeImage
//
// CompileCall is all of them behind the cache. Options change what is made and are part of the
// cache key; an Observation only looks, and looking bypasses the cache.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/machine.h"
#include "backend/kernel_image.h"
#include "compile/strategy.h"
#include "frontend/frontend.h"
#include "ir/function.h"
#include "ir/lower/pressure.h"
#include "ir/pass.h"
#include "ir/stamps.h"
#include "runtime/kernel_cache.h"
#include "scheduler/program.h"
#include "scheduler/solution_store.h"
#include "support/diag.h"

namespace tilec::api {

// `sequential`, `solve`, `solve:slices=N` (cut the rows into N slices, a compute role each),
// `solve:persistent` (the same as `solve`, and a note where CTAs do not stay), `solve:once` (they
// never do), `solve:clusters` (they share copies), `solve:split=N` (N share the iterations of a
// tile's loop; 1: none do), `solve:pack=N` (rows of N instances are one tile; `:split=N` may stand
// behind it), or the name of a .sched file: it has an extension or a folder.
Result<> CheckSchedule(const std::string& name, DiagSink& diags);
bool NamesScheduleFile(const std::string& schedule);

// Which of the launches of a call a program is, from 0. Of none (of = 0) are those that are made
// to choose between them: no plan is obeyed there.
struct LaunchNumber {
  size_t number = 0, of = 1;
};

struct PipelineOptions {
  std::string target = "h200";  // what was said; `machine` is what it means
  std::string schedule = "solve";
  std::string crash_dir;         // where a failing pass leaves its input; "": nowhere
  std::string tune = "default";  // api/tune_word.h
  bool first_schedules = false;  // take what the scheduler finds without a proof: for estimates
  // Where solved schedules are kept; null: nowhere. Changes the time it takes, never the result.
  scheduler::SolutionStore* solutions = nullptr;
  int64_t stamps = 0;  // records of an in-kernel timeline, for each role (ir/stamps.h); 0: none
  bool prove = true;   // false: the program is looked at and never emitted
  // The assembler, where there is one to ask: tunes that the model chooses spill nothing by it, and
  // nobody is told what may be spilled. Not part of the cache's keys of images.
  std::string ptxas;
  // That choose tiles, and make launches of one kernel; what comes of it does not depend on it.
  int choosing_threads = 1;
  // Clusters that share copies before persistent CTAs (`solve`); see Call::share_copies.
  bool share_copies = false;
  bool stays = false;   // see Call::stays
  int64_t split = 1;    // CTAs for each tile (`solve`), where that can be; see Call::split
  int64_t pack = 1;     // instances whose rows are one tile (`solve`); see Call::pack
  Machine machine;      // null: `target` is read when it is needed
  LaunchNumber launch;  // by which section of a plan file (api/plan_sections.h) it is compiled
  // Values of dims and integer scalars, and what is known of rows then: for predicted times.
  Bindings sizes;
  scheduler::RowStarts row_starts;
  PipelineOptions For(const Call& call) const;
};

struct StageTime {
  std::string stage;
  double milliseconds = 0;
};

// The stages in order, those of refused strategies included, then what none of them accounts for
// (`other`: reading, verifying, writing), and the wall time that all of it adds up to.
std::string TimesTable(const std::vector<StageTime>& times, double wall_ms);

// How a kernel was lowered in the end.
struct Lowered {
  bool by_schedule = false;             // else the loops keep the order of a rule or of the program
  scheduler::ProgramSchedule schedule;  // what the scheduler decided, if it is obeyed
};

struct Observation {
  std::vector<std::string> print_after;  // pass names; "all"
  std::string stop_after;
  bool time_passes = false;
  std::string* llvm_ir = nullptr;        // receives the optimised module
  Lowered* lowered = nullptr;            // receives what became of the schedule
  ir::RolePressure* pressure = nullptr;  // receives the role that is fullest
  std::string* plan = nullptr;           // receives the text of the program's plan (ir/plan_text.h)
  std::vector<compile::Decision>* decisions = nullptr;  // receives what was tried, and why not
  ir::StampTable* stamps = nullptr;  // receives what PipelineOptions::stamps asked for
  std::string printed;               // what print_after produced
  std::vector<StageTime> times;
  bool stopped = false;
  bool looks() const {
    return !print_after.empty() || !stop_after.empty() || llvm_ir || plan || lowered || pressure ||
           decisions || stamps;
  }
};

struct TunesFile;  // api/tune_file.h

// A program with the texts it came from.
struct Loaded {
  SourceMap sources;
  std::optional<frontend::Program> program;
  int32_t schedule_file = -1;              // what PipelineOptions::schedule names, if it is a file
  int32_t plan_file = -1;                  // a plan to be obeyed in place of the planners'
  std::shared_ptr<const TunesFile> tunes;  // what PipelineOptions::tune names, if it is a file
};

// Reads the file that `schedule` names, if it names one.
Result<> LoadScheduleFile(Loaded& loaded, const std::string& schedule, DiagSink& diags);
// Reads a plan, of each launch one: the program that it is of is compiled as it says, or refused
// with the law it breaks.
Result<> LoadPlanFile(Loaded& loaded, const std::string& path, DiagSink& diags);

// PipelineOptions::machine, or what its `target` names.
Result<Machine> MachineOf(const PipelineOptions& options, DiagSink& diags);

std::string CompilerVersion();  // "0.1.0 (LLVM 19.1.7)"

Result<ir::Function> MakeTileIr(const Loaded& loaded, const std::string& kernel, const Call& call,
                                Observation* look, DiagSink& diags);
// Is it the name of a pass, of whichever table?
Result<> CheckPassName(const std::string& name, DiagSink& diags);
Result<ir::Function> RunSteps(const Loaded& loaded, ir::Function fn,
                              const std::vector<ir::PassStep>& steps,
                              const PipelineOptions& options, Observation* look, DiagSink& diags);
// Runs the passes; with stop_after the function is what that pass left.
Result<ir::Function> LowerToWarps(const Loaded& loaded, ir::Function fn,
                                  const PipelineOptions& options, Observation* look,
                                  DiagSink& diags);
Result<backend::KernelImage> MakeImage(const Loaded& loaded, const ir::Function& fn,
                                       const PipelineOptions& options, Observation* look,
                                       DiagSink& diags);

// An image names source files by Program::FileNames, so that two checkouts make the same one. For
// people its places say the paths under which `loaded` found the files.
void ShowPaths(const Loaded& loaded, backend::KernelImage* image);

// Everything the image depends on, as a hash.
std::string ImageKey(const Loaded& loaded, const std::string& kernel, const Call& call,
                     const PipelineOptions& options);
// What a compilation has beside its options; each may be null.
struct CompileWith {
  const runtime::KernelCache* cache = nullptr;
  Observation* look = nullptr;
  bool* cached = nullptr;  // says whether the image came from the cache
};
Result<backend::KernelImage> CompileCall(const Loaded& loaded, const std::string& kernel,
                                         const Call& call, const PipelineOptions& options,
                                         const CompileWith& with, DiagSink& diags);

}  // namespace tilec::api
