// SPDX-License-Identifier: Apache-2.0
#include "api/tune_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/emitted_periods.h"
#include "api/schedule_names.h"
#include "api/split.h"
#include "api/tune_facts.h"
#include "ir/count_work.h"
#include "ir/isa.h"
#include "ir/lower/filled.h"
#include "ir/lower/plan.h"
#include "ir/passes/defer_unlikely.h"
#include "ir/passes/pack_rows.h"
#include "ir/passes/split_reductions.h"
#include "scheduler/copy_lines.h"
#include "scheduler/sms_shared.h"

namespace tilec::api {

namespace {

// CTAs of a cluster that share a tile.
int64_t ClusterOf(const scheduler::SplitChoice& form) {
  return form.apart ? 1 : std::min(form.ctas, ir::isa::kPortableClusterCtas);
}

// Do two warpgroups make whole instructions' rows of each product?
bool OfTwoWholeWarpgroups(const ir::Function& fn, const ir::Target& target) {
  constexpr int64_t kRows = 128;
  return ir::PlannedWarpgroups(fn, target) == 2 &&
         std::all_of(fn.ops.begin(), fn.ops.end(), [&](const ir::Op& op) {
           return op.kind != ir::OpKind::kDot || fn.type(op.results[0]).shape[0] == kRows;
         });
}

// Of tiles that no author tried. Two warpgroups whose products wait for what is reduced of others
// have time for a few words more: attention of D 64 in 128x128, 200 of 240 registers kept, spills
// up to 196 bytes and was the fastest tile of four sizes (H200: 8 x 12 heads, S 1024, 63.4 us, in
// the author's 192x128 73.8; causal 44.9 and 50.7, 30.3 and 36.0).
bool TakenToSpill(const TuneMemory::Program& program, const ir::Target& target) {
  constexpr int64_t kFew = 4;  // registers of a thread
  const ir::Filling& filling = program.filling;
  if (filling.lacks <= 0 || filling.at_once) return false;
  return filling.lacks > kFew || target.unit().completion != ir::Completion::kGroups ||
         !OfTwoWholeWarpgroups(program.clean, target) || !AwaitsReductions(program.clean);
}

}  // namespace

std::optional<TunePoint> TunePrograms::Lower(const Point& point, bool standard) {
  const TuneSpace::Rating* const rating = space_.Rated(point);
  const int64_t split = rating ? rating->form.ctas : 1;
  // Of more than a cluster its groups are lowered, and what puts them together is predicted.
  const int64_t cluster = rating ? ClusterOf(rating->form) : 1;
  auto out = Lower(point, standard, cluster);
  if (out && split > cluster) {
    if (out->awaits && !standard) return std::nullopt;
    out->split = split;
    out->time.ms = rating->form.ms;
  }
  if (split == 1 || (out && out->lacks <= 0)) return out;
  auto whole = Lower(point, standard, 1);
  return !out || (whole && whole->lacks < out->lacks) ? whole : out;
}

std::optional<TunePoint> TunePrograms::Lower(const Point& point, bool standard, int64_t split) {
  TunePoint out;
  const PipelineOptions with = FormOf(point, split);
  const TuneMemory::Program* program = Become(point, with);
  if (program == nullptr) return std::nullopt;
  out.values = space_.ValuesOf(point);
  const ir::Function& clean = program->clean;
  const ir::Function& warps = program->warps;
  const ir::Filling& filling = program->filling;
  if (!standard && TakenToSpill(*program, q_.target)) return std::nullopt;
  // By rule it fits; what is solved to the end may be lowered all the same, and spill.
  if (!standard && !program->how.by_schedule && q_.options.ptxas.empty() &&
      !IsSequential(with.schedule) && FillsAsSolved(clean, q_.target))
    return std::nullopt;
  if (!standard && TakesLonger(clean, split, StandardRows())) return std::nullopt;
  // An author tried the default where products fly, but not where their sums are in tensor memory.
  const bool untried = filling.at_once || ir::InTensorMemory(q_.target.matrix_unit.kind);
  if (untried && !(standard && !q_.options.ptxas.empty())) out.lacks = filling.lacks;
  const ir::WorkCount work = ir::CountWork(clean, space_.names(), q_.target, {.edges = false});
  const scheduler::Asked copies =
      scheduler::AskedByCopies(clean, q_.target, q_.call.row_starts, space_.names());
  const ir::Target target =
      scheduler::SharedBy(q_.target, work.instances, copies.Times(work.instances, q_.target));
  auto periods = scheduler::BoundPeriods(clean, target);
  if (!periods) periods.emplace();
  const double asks = AskedFor(warps) / copies.boxes;  // its copies are of whole boxes
  const ir::Target asked = scheduler::SharedBy(q_.target, work.instances,
                                               copies.Times(work.instances, q_.target) * asks);
  AdoptEmitted({clean, warps, program->how, asked, AskedFor(warps) < 1, standard}, &*periods);
  auto shape =
      ShapeOf(warps, q_.target, space_.names(), copies, LikelyShape(clean, work, q_.target));
  shape.in_order = IsSequential(with.schedule);
  shape.written = copies.Written(AlongOf(with.schedule) > 1);
  if (copies.written <= 1) shape.leaves += StoredByThreads(warps, q_.target);
  out.awaits = shape.awaits && !shape.in_order;
  out.time = scheduler::EstimateTime(clean, q_.target, work, *periods, shape);
  out.time.ms *= CutLines(clean, q_.target);
  if (const TuneSpace::Rating* const rating = space_.Rated(point))
    out.time.ms *= rating->form.doubt;
  out.split = split;
  out.pack = with.pack;
  out.lowered = true;
  out.by_schedule = program->how.by_schedule;
  return out;
}

const RowTiles& TunePrograms::StandardRows() {
  std::call_once(standard_rows_once_, [&] {
    DiagSink quiet;
    const Result<Cleaned> clean = space_.CleanAt(q_.call.statics, quiet);
    if (clean.ok()) standard_rows_ = RowTilesOf(clean->fn);
  });
  return standard_rows_;
}

// The form that a point was rated in, by `split` CTAs for each tile.
PipelineOptions TunePrograms::FormOf(const Point& point, int64_t split) const {
  PipelineOptions with = space_.options();
  with.split = split;
  const TuneSpace::Rating* const rating = space_.Rated(point);
  if (rating == nullptr) return with;
  with.pack = rating->form.pack;
  with.share_copies = rating->form.share_copies && !rating->form.apart;
  if (with.share_copies)
    with.schedule = rating->form.neighbours > 2
                        ? ClustersName(rating->form.neighbours, rating->form.along)
                        : WithAlong(with.schedule, rating->form.along + 1);
  if (rating->form.in_order) with.schedule = kSequential;
  return with;
}

// The program of a point in one form, or null: it has none, or not in that form.
const TuneMemory::Program* TunePrograms::Become(const Point& point,
                                                const PipelineOptions& with) const {
  frontend::Values statics;
  const TuneMemory::Known* known = space_.At(point, &statics);
  if (known == nullptr || known->forms == nullptr) return nullptr;
  const std::string key = fmt::format("{}{} {} {} {}", TuneSpace::TextOf(statics), with.pack,
                                      with.share_copies, with.split, with.schedule);
  // Those that cannot but be refused are not lowered. (The default is kept, whatever it fills.)
  const bool looks = q_.options.ptxas.empty() && with.pack == 1 && space_.forms().count(point) == 0;
  const auto find = [&](auto& program) {
    if (!looks || !FillsRegisters(known->forms->fn(), q_.target))
      program = LowerTo(*known, statics, with);
  };
  return q_.memory.programs.At(key, find).get();
}

void TunePrograms::Become(const Point& point) const {
  (void)Become(point, FormOf(point, ClusterOf(space_.Rated(point)->form)));
}

std::unique_ptr<TuneMemory::Program> TunePrograms::LowerTo(const TuneMemory::Known& known,
                                                           const frontend::Values& statics,
                                                           const PipelineOptions& with) const {
  auto program = std::make_unique<TuneMemory::Program>();
  const int64_t split = with.split;
  const ir::Function* const form = known.forms->InParts(with.pack > 1 ? 1 : split);
  if (form == nullptr) return nullptr;
  program->clean = *form;
  if (with.pack > 1 && (ir::PackRows(program->clean, with.pack) ||
                        (split > 1 && ir::SplitReductions(program->clean, split, q_.target))))
    return nullptr;
  DiagSink quiet;
  Call call = q_.call;
  call.statics = statics;
  auto tile = MakeTileIr(q_.loaded, q_.signature.kernel, call, nullptr, quiet);
  if (!tile.ok()) return nullptr;
  *tile = ir::Likely(*std::move(tile));
  Observation look;
  look.lowered = &program->how;
  PipelineOptions choosing = with;
  choosing.launch.of = 0;
  auto warps = LowerToWarps(q_.loaded, std::move(*tile), choosing, &look, quiet);
  if (!warps.ok()) return nullptr;
  if (split > 1 && warps->launch.cluster != split) return nullptr;  // it was refused
  program->warps = *std::move(warps);
  program->filling = ir::FillingOf(program->warps, q_.target, !q_.options.ptxas.empty());
  return program;
}

}  // namespace tilec::api
