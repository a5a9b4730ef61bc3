// SPDX-License-Identifier: Apache-2.0
#include "api/divided.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "api/plan_sections.h"
#include "api/schedule_names.h"
#include "compile/diagnostics.h"
#include "ir/isa.h"
#include "ir/pass.h"
#include "ir/passes/defer_unlikely.h"
#include "ir/passes/divide_reductions.h"
#include "ir/passes/even_parts.h"
#include "ir/passes/pack_rows.h"
#include "ir/passes/split_reductions.h"

namespace tilec::api {

int64_t GroupsOf(const PipelineOptions& options) {
  const int64_t ctas = SplitOf(options.schedule).value_or(options.split);
  return IsApart(options.schedule) ? ctas
                                   : std::max<int64_t>(1, ctas / ir::isa::kPortableClusterCtas);
}

bool MayBeSeveral(const ir::Function& fn, const PipelineOptions& options) {
  return GroupsOf(options) > 1 || ir::HasUnlikely(fn);
}

namespace {

// A schedule that somebody wrote is of one program, and so is a plan of one section.
bool Written(const Loaded& loaded) {
  return loaded.schedule_file >= 0 || PlannedLaunches(loaded) == 1;
}

// What hardly ever runs, behind all tiles.
std::optional<Launches> Deferred(const ir::Function& fn, const PipelineOptions& options,
                                 DiagSink& diags) {
  ir::Deferral deferred;
  if (const std::optional<ir::Obstacle> why = ir::DeferUnlikely(fn, &deferred)) {
    diags.Report(compile::kNotDeferred, why->at, fn.name, why->why);
    return std::nullopt;
  }
  if (ir::HasUnlikely(deferred.likely))
    diags.Report(compile::kNotDeferred, ir::UnlikelyAt(deferred.likely), fn.name,
                 "another one stands behind it");
  Launches launches;
  launches.tensors = deferred.tensors;
  launches.programs.push_back({std::move(deferred.likely), options,
                               "launch 1 of 2: tiles without what is unlikely, which are marked"});
  PipelineOptions of = options;
  of.split = of.pack = 1;
  of.share_copies = of.stays = false;
  if (!IsSequential(options.schedule)) of.schedule = "solve";
  launches.programs.push_back(
      {std::move(deferred.again), of, "launch 2 of 2: what is unlikely, for tiles with a mark"});
  return launches;
}

// In which order they are launched, each of them is told.
Launches Numbered(Launches launches) {
  for (size_t i = 0; i < launches.programs.size(); ++i)
    launches.programs[i].options.launch = {i, launches.programs.size()};
  return launches;
}

}  // namespace

Result<Launches> LaunchesOf(const Loaded& loaded, ir::Function fn, const PipelineOptions& options,
                            DiagSink& diags) {
  if (ir::HasUnlikely(fn)) {
    if (Written(loaded))
      diags.Report(compile::kNotDeferred, ir::UnlikelyAt(fn), fn.name,
                   "the schedule or plan that is given is of one program");
    else if (std::optional<Launches> both = Deferred(fn, options, diags))
      return Numbered(*std::move(both));
  }
  Launches launches;
  if (GroupsOf(options) > 1) {
    std::vector<ir::PassStep> steps;
    for (ir::PassId id : ir::kCleanUp) steps.push_back(ir::StepOf(id));
    TRY(ir::Function clean, RunSteps(loaded, fn, steps, options, nullptr, diags));
    const int64_t pack =
        PackOf(options.schedule).value_or(ChoosesForm(options.schedule) ? options.pack : 1);
    if (pack > 1)
      if (const std::optional<ir::Obstacle> why = ir::PackRows(clean, pack))
        diags.Report(compile::kNotPacked, why->at, fn.name, pack, why->why);
    ir::Division divided;
    const bool apart = IsApart(options.schedule);
    auto why = ir::DivideReductions(clean, GroupsOf(options), &divided);
    if (apart && !why) why = ir::GuardParts(divided.parts);  // of others their clusters have it
    if (!why && SharesApart(options.schedule)) (void)ir::EvenParts(divided.parts);
    if (!why) {
      PipelineOptions of = options;
      of.split = of.pack = 1;
      of.share_copies = of.stays = false;
      of.schedule =
          apart
              ? SharesApart(options.schedule) ? SharedPartsOf(options.schedule) : std::string(kOnce)
              : fmt::format("{}:split={}", IsSequential(options.schedule) ? kSequential : kSolve,
                            ir::isa::kPortableClusterCtas);
      launches.programs.push_back(
          {std::move(divided.parts), of,
           fmt::format("launch 1 of 2: {} {} make parts of each tile", GroupsOf(options),
                       apart ? "CTAs" : "groups of CTAs")});
      of.schedule = "solve";
      launches.programs.push_back(
          {std::move(divided.whole), of, "launch 2 of 2: parts are put together"});
      launches.tensors = divided.tensors;
      return Numbered(std::move(launches));
    }
    diags.Report(compile::kNotSplit, why->at, fn.name, why->why);
  }
  launches.programs.push_back({std::move(fn), options, ""});
  return launches;
}

std::string BehindTitles(const Launches& launches, const std::vector<std::string>& texts,
                         const char* comment) {
  std::string all;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (const std::string& title = launches.programs[i].title; !title.empty())
      all += fmt::format("{}{} {}\n", i > 0 ? "\n" : "", comment, title);
    all += texts[i];
    if (launches.several() && !all.ends_with('\n')) all += '\n';
  }
  return all;
}

namespace {

struct MadeLaunch {
  std::optional<backend::KernelImage> image;
  DiagSink said;
};

// Side by side where somebody waits and nobody looks on, else until one fails. What they say and
// what they are does not depend on that.
std::vector<MadeLaunch> MakeLaunches(const Loaded& loaded, Launches* launches,
                                     const PipelineOptions& options, Observation* look) {
  std::vector<MadeLaunch> all(launches->programs.size());
  const auto make = [&](size_t i) {
    LaunchProgram& program = launches->programs[i];
    const Result<ir::Function> part =
        LowerToWarps(loaded, std::move(program.fn), program.options, look, all[i].said);
    if (!part.ok()) return false;
    Result<backend::KernelImage> made = MakeImage(loaded, *part, options, look, all[i].said);
    if (made.ok()) all[i].image = *std::move(made);
    return made.ok();
  };
  if (look != nullptr || options.choosing_threads <= 1) {
    for (size_t i = 0; i < all.size() && make(i);) ++i;
    return all;
  }
  std::vector<std::jthread> others;
  for (size_t i = 1; i < all.size(); ++i) others.emplace_back(make, i);
  (void)make(0);
  others.clear();  // waits
  return all;
}

}  // namespace

Result<std::optional<backend::KernelImage>> DividedImage(const Loaded& loaded,
                                                         const ir::Function& fn,
                                                         const PipelineOptions& options,
                                                         Observation* look, DiagSink& diags) {
  TRY(Launches launches, LaunchesOf(loaded, fn, options, diags));
  if (!launches.several()) return std::optional<backend::KernelImage>();
  std::vector<backend::KernelImage> images;
  for (MadeLaunch& made : MakeLaunches(loaded, &launches, options, look)) {
    made.said.MoveTo(diags);
    if (!made.image) return DiagSink::Propagate();
    made.image->work.assign(std::make_move_iterator(made.image->tensors.end() -
                                                    static_cast<std::ptrdiff_t>(launches.tensors)),
                            std::make_move_iterator(made.image->tensors.end()));
    made.image->tensors.resize(made.image->tensors.size() - launches.tensors);
    images.push_back(*std::move(made.image));
  }
  images.back().before.push_back(std::move(images.front()));
  return std::optional<backend::KernelImage>(std::move(images.back()));
}

}  // namespace tilec::api
