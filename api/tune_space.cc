// SPDX-License-Identifier: Apache-2.0
#include "api/tune_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "api/schedule_names.h"
#include "api/tune_facts.h"
#include "api/tune_forms.h"
#include "ir/isa.h"
#include "ir/lower/columns_wanted.h"
#include "ir/lower/widest_product.h"

namespace tilec::api {

bool IsOpen(const frontend::TuneInfo& tune, const Call& call) {
  return call.statics.count(tune.name) == 0 && !tune.candidates.empty();
}

bool IsTime(double ms) { return std::isfinite(ms) && ms > 0; }

TuneSpace::TuneSpace(const TuneQuestion& question)
    : question_(question), options_(question.options), names_(NamesOf(question.call)) {
  options_.crash_dir.clear();
  options_.first_schedules = true;
  options_.prove = false;
  options_.solutions = nullptr;  // found faster than read
  options_.ptxas.clear();
}

std::string TuneSpace::MakeAxes(bool* fails) {
  for (const frontend::DimInfo& dim : question_.signature.dims)
    if (names_.count(dim.name) == 0) return fmt::format("dim `{}` has no value", dim.name);
  DiagSink quiet;
  const Result<Cleaned> clean = CleanAt(question_.call.statics, quiet);
  *fails = !clean.ok();
  if (*fails) return quiet.all().empty() ? "it does not compile" : quiet.all()[0].message;
  for (const frontend::TuneInfo& tune : question_.signature.tunes) {
    if (!IsOpen(tune, question_.call)) continue;
    Axis axis{.name = tune.name};
    std::set<int64_t> values;
    for (const frontend::ConstValue& value : tune.candidates)
      if (const auto* i = std::get_if<int64_t>(&value)) values.insert(*i);
    const auto standard = clean->fn.statics.find(tune.name);
    if (standard == clean->fn.statics.end() || values.empty()) continue;
    values.insert(standard->second);
    axis.values.assign(values.begin(), values.end());
    axis.standard =
        static_cast<size_t>(std::distance(values.begin(), values.find(standard->second)));
    standard_.push_back(axis.standard);
    axes_.push_back(std::move(axis));
  }
  forms_ = FormPoints(question_.loaded, question_.signature.kernel, question_.call, axes_);
  return "";
}

Point TuneSpace::PointOf(const frontend::Values& values) const {
  Point point;
  for (const Axis& axis : axes_) {
    const auto at = std::lower_bound(axis.values.begin(), axis.values.end(),
                                     std::get<int64_t>(values.at(axis.name)));
    point.push_back(static_cast<size_t>(std::distance(axis.values.begin(), at)));
  }
  return point;
}

frontend::Values TuneSpace::ValuesOf(const Point& point) const {
  frontend::Values values;
  for (size_t a = 0; a < axes_.size(); ++a) values[axes_[a].name] = axes_[a].values[point[a]];
  return values;
}

Result<Cleaned> TuneSpace::CleanAt(const frontend::Values& statics, DiagSink& quiet) const {
  Call call = question_.call;
  call.statics = statics;
  TRY(ir::Function fn,
      MakeTileIr(question_.loaded, question_.signature.kernel, call, nullptr, quiet));
  return Clean(std::move(fn), options_, quiet);
}

std::string TuneSpace::TextOf(const frontend::Values& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}={} ", name, frontend::ToText(value));
  return text;
}

const TuneMemory::Known* TuneSpace::At(const Point& point, frontend::Values* statics) const {
  DiagSink quiet;
  *statics = question_.call.statics;
  frontend::Values all = question_.call.all;
  for (const auto& [name, value] : ValuesOf(point)) (*statics)[name] = all[name] = value;
  if (!frontend::CheckFacts(*question_.loaded.program, question_.signature.kernel, all, quiet).ok())
    return nullptr;
  return &question_.memory.points.At(TextOf(*statics), [&](TuneMemory::Known& known) {
    Result<Cleaned> clean = CleanAt(*statics, quiet);
    if (!clean.ok()) return;
    known.too_wide = ir::WantsTooWideInstruction(clean->fn, question_.target);
    known.longer = CutLines(clean->fn, question_.target);
    if (ir::WantsTooManyColumns(clean->fn, question_.target))
      known.longer *= question_.target.model.columns_lack_times;
    known.forms = std::make_unique<scheduler::Forms>(std::move(clean->fn), question_.target,
                                                     std::move(clean->loops));
  });
}

std::optional<double> TuneSpace::Rate(const Point& point) {
  const auto seen = rated_.find(point);
  if (seen != rated_.end()) return seen->second.ms;
  if (rated_.size() >= kMostRated) return std::nullopt;
  return (rated_[point] = RatingOf(point)).ms;
}

const TuneSpace::Rating& TuneSpace::RatingOf(const Point& point) const {
  return ratings_.At(point, [&](Rating& rating) {
    frontend::Values statics;
    const TuneMemory::Known* known = At(point, &statics);
    if (known == nullptr || known->forms == nullptr || known->too_wide) return;
    const bool open = options_.schedule == kSolve;
    rating.form = known->forms->Choose(
        names_, question_.call.row_starts, open ? ir::isa::kPortableClusterCtas : 1,
        [&](const auto& fn, const auto& work) { return LikelyShape(fn, work, question_.target); },
        open);
    if (IsTime(rating.form.ms)) rating.ms = rating.form.ms * known->longer;
  });
}

const TuneSpace::Rating* TuneSpace::Rated(const Point& point) const {
  const auto at = rated_.find(point);
  return at == rated_.end() ? nullptr : &at->second;
}

}  // namespace tilec::api
