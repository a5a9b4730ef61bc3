// SPDX-License-Identifier: Apache-2.0
#include "compile/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compile/diagnostics.h"
#include "ir/lower/waits.h"
#include "ir/passes/arrange_grid.h"
#include "ir/passes/cluster_tiles.h"
#include "ir/passes/pack_rows.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/program.h"
#include "scheduler/sms_shared.h"
#include "support/lines.h"
#include "support/nearest.h"

namespace tilec::compile {

namespace {

constexpr int64_t kCtasOfASplit = 2, kHeadsOfATile = 8;

using Values = std::map<std::string, int64_t>;

struct Environment {
  const ir::Target* target;
  scheduler::SolutionStore* store;
  int64_t Of(const Values& values, const char* name) const {
    const auto at = values.find(name);
    return at == values.end() ? 0 : at->second;
  }
};

using Obstacle = std::optional<ir::Obstacle>;
using RowFunction = Obstacle (*)(ir::Function&, const Values&, const Environment&, int* changes);

Obstacle Counted(const Obstacle& obstacle, int* changes) {
  *changes += !obstacle;
  return obstacle;
}

Obstacle PackRows(ir::Function& fn, const Values& v, const Environment& e, int* changes) {
  const int64_t heads = e.Of(v, "heads");
  return Counted(ir::PackRows(fn, heads > 0 ? heads : kHeadsOfATile), changes);
}
Obstacle ArrangeGrid(ir::Function& fn, const Values& v, const Environment& e, int* changes) {
  *changes += ir::ArrangeGrid(fn, e.Of(v, "first"));
  return std::nullopt;
}
Obstacle SplitReductions(ir::Function& fn, const Values& v, const Environment& e, int* changes) {
  return Counted(Reshape(fn, Shape::kSplit, e.Of(v, "ctas"), *e.target), changes);
}
Obstacle ClusterTiles(ir::Function& fn, const Values& v, const Environment& e, int* changes) {
  return Counted(Reshape(fn, Shape::kClustered, e.Of(v, "ctas"), *e.target), changes);
}
Obstacle PersistTiles(ir::Function& fn, const Values& v, const Environment& e, int* changes) {
  return Counted(Reshape(fn, Shape::kPersistent, e.Of(v, "ctas"), *e.target), changes);
}
Obstacle OrderTiles(ir::Function& fn, const Values&, const Environment& e, int* changes) {
  *changes += ir::OrderTiles(fn, e.target->limits.sms);
  return std::nullopt;
}
Obstacle ScheduleLoops(ir::Function& fn, const Values& v, const Environment& e, int* changes) {
  scheduler::ProgramOptions options;
  options.target = e.target;
  options.solve = scheduler::SolveOptions::ForCompilation();
  options.store = e.store;
  options.slices = static_cast<int>(e.Of(v, "slices"));
  options.withheld_registers = e.Of(v, "withheld");
  options.divide_slices = e.Of(v, "whole") == 0;
  Obstacle obstacle;
  for (const scheduler::LoopReport& loop : scheduler::ScheduleProgram(fn, options).loops) {
    *changes += loop.applied;
    if (!loop.applied)
      obstacle = {loop.notes.empty() ? "no schedule was found" : loop.notes.back(), loop.at};
  }
  return obstacle;
}

constexpr ParameterPass kPasses[] = {
#define STEP(Function, name, summary, parameters) {name, summary, parameters},
#include "compile/passes.def"
#undef STEP
};
constexpr RowFunction kFunctions[] = {
#define STEP(Function, name, summary, parameters) Function,
#include "compile/passes.def"
#undef STEP
};

bool Has(const ParameterPass& pass, std::string_view parameter) {
  for (const TextLine& line : SplitLines(pass.parameters, -1))
    for (const TextWord& word : line.words)
      if (word.text == parameter) return true;
  return false;
}

// "ctas=132,x=1", between braces.
Result<Values> ReadValues(const ParameterPass* pass, const std::string& name, std::string_view text,
                          DiagSink& diags) {
  Values values;
  const std::string known = pass && *pass->parameters ? pass->parameters : "none";
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = std::min(one.find('='), one.size());
    const std::string parameter(one.substr(0, equals));
    const auto value =
        ParseInteger(equals < one.size() ? one.substr(equals + 1) : std::string_view());
    if (!pass || !Has(*pass, parameter) || !value || *value < 0)
      return diags.Report(kPassParameter, Span{}, name, std::string(one))
          .Help(fmt::format("its parameters are: {}", known));
    values[parameter] = *value;
  }
  return values;
}

}  // namespace

std::span<const ParameterPass> ParameterPasses() { return kPasses; }

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const ir::PassInfo& p : ir::AllPasses()) names.push_back(p.name);
  for (const ParameterPass& p : kPasses) names.push_back(p.name);
  return names;
}

Result<ir::PassStep> ParsePass(const std::string& text, const ir::Target& target,
                               scheduler::SolutionStore* store, DiagSink& diags) {
  const size_t brace = std::min(text.find('{'), text.size());
  const std::string name = text.substr(0, brace);
  const auto row = std::find_if(std::begin(kPasses), std::end(kPasses),
                                [&](const ParameterPass& p) { return name == p.name; });
  const ParameterPass* pass = row == std::end(kPasses) ? nullptr : row;
  const auto plain = ir::PassFromName(name);
  if (!pass && !plain) {
    const std::string near = NearestName(name, PassNames());
    return diags.Report(kUnknownPass, Span{}, name)
        .Help(near.empty() ? "`tilec opt --list` names all passes"
                           : fmt::format("did you mean `{}`?", near));
  }
  std::string_view inside = std::string_view(text).substr(brace);
  if (!inside.empty() && (inside.size() < 2 || inside.back() != '}'))
    return diags.Report(kPassParameter, Span{}, name, text).Help("write `name{parameter=value}`");
  if (!inside.empty()) inside = inside.substr(1, inside.size() - 2);
  TRY(const Values values, ReadValues(pass, name, inside, diags));
  if (plain) return ir::StepOf(*plain);
  const RowFunction function = kFunctions[pass - kPasses];
  ir::PassStep step;
  step.info = {pass->name, pass->summary, ir::kTileLevel, ir::kNoFacts, ir::kNoFacts};
  step.run = [function, values, environment = Environment{&target, store}, pass](
                 ir::Function& fn, ir::PassContext& cx) -> Result<> {
    const Obstacle obstacle = function(fn, values, environment, &cx.changes);
    if (obstacle) cx.diags.Report(kPassObstacle, obstacle->at, pass->name, fn.name, obstacle->why);
    return Done();
  };
  return step;
}

namespace {

// Tiles that take unequally long come longest first here, too.
Obstacle Split(ir::Function& fn, int64_t ctas, const ir::Target& target) {
  ir::Function ordered = fn;
  if (!ir::OrderTiles(ordered, target.limits.sms / ctas) ||
      ir::SplitReductions(ordered, ctas, target))
    return ir::SplitReductions(fn, ctas, target);
  fn = std::move(ordered);
  return std::nullopt;
}

}  // namespace

std::optional<ir::Obstacle> Reshape(ir::Function& fn, Shape shape, int64_t ctas,
                                    const ir::Target& target) {
  const ir::Obstacle no_clusters = {ir::kNoClusters, {}};
  switch (shape) {
    case Shape::kSplit:
      if (!target.Has("clusters")) return no_clusters;
      return Split(fn, ctas > 0 ? ctas : kCtasOfASplit, target);
    case Shape::kClustered:
    case Shape::kClusteredOnce:
      if (!target.Has("clusters")) return no_clusters;
      if (const auto obstacle = ir::ClusterTiles(fn, ctas > 0 ? ctas : target.lowering.cluster_ctas,
                                                 target.Has("pairs")))
        return obstacle;
      // CTAs of a cluster stay where those that come alone would: H200, 16184x11056x992 in
      // [K, M] and [K, N] 632 us one tile each, 534 so; 54026x12688x296 1145 by CTAs that stay and
      // share nothing, 801 so.
      if (shape == Shape::kClustered)
        ir::PersistTiles(
            fn, scheduler::SmsOfClusters(target, ctas > 0 ? ctas : target.lowering.cluster_ctas));
      return std::nullopt;
    case Shape::kPersistent:
      return ir::PersistTiles(fn, ctas > 0 ? ctas : target.limits.sms * ir::CtasWanted(fn, target));
    case Shape::kOnce: ir::OrderTiles(fn, target.limits.sms); return std::nullopt;
  }
  return std::nullopt;
}

namespace {

const ParameterPass& Row(std::string_view name) {
  for (const ParameterPass& pass : kPasses)
    if (name == pass.name) return pass;
  return kPasses[0];  // the rows are named below
}

}  // namespace

const ParameterPass& PassOf(Shape shape) {
  switch (shape) {
    case Shape::kSplit: return Row("split-reductions");
    case Shape::kClustered:
    case Shape::kClusteredOnce: return Row("cluster-tiles");
    case Shape::kPersistent: return Row("persist-tiles");
    case Shape::kOnce: return Row("order-tiles");
  }
  return kPasses[0];
}

const ParameterPass& PackPass() { return Row("pack-rows"); }

const ParameterPass& GridPass() { return Row("arrange-grid"); }

const ParameterPass& SchedulePass() { return Row("schedule-loops"); }

}  // namespace tilec::compile
