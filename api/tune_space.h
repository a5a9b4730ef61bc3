// The space that a search for tunes looks through: the tunes that a call leaves open as axes, the
// kernel at each point, and what bounds say of it for the sizes of the call.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/descent.h"
#include "api/pipeline.h"
#include "api/split.h"
#include "api/tune_memory.h"

namespace tilec::api {

// What a choice of tunes is for.
struct TuneQuestion {
  const Loaded& loaded;
  const frontend::Signature& signature;
  const Call& call;
  const PipelineOptions& options;
  const ir::Target& target;
  TuneMemory& memory;
};

// Does the call leave it open?
bool IsOpen(const frontend::TuneInfo& tune, const Call& call);

// Sizes beyond any machine overflow what the model counts in.
bool IsTime(double ms);

class TuneSpace {
 public:
  explicit TuneSpace(const TuneQuestion& question);
  // The open tunes, with what they are by default. "" or why there is nothing to choose by.
  std::string MakeAxes(bool* fails);
  const std::vector<Axis>& axes() const { return axes_; }
  const Point& standard() const { return standard_; }  // the defaults
  // … and the defaults beside another form of the kernel (api/tune_forms.h).
  const std::set<Point>& forms() const { return forms_; }
  const TuneQuestion& question() const { return question_; }
  // Options of what is only looked at.
  const PipelineOptions& options() const { return options_; }
  const Bindings& names() const { return names_; }  // NamesOf the call

  Point PointOf(const frontend::Values& values) const;
  frontend::Values ValuesOf(const Point& point) const;
  static std::string TextOf(const frontend::Values& values);

  Result<Cleaned> CleanAt(const frontend::Values& statics, DiagSink& quiet) const;
  // The kernel at a point; without forms if its facts do not allow it.
  const TuneMemory::Known* At(const Point& point, frontend::Values* statics) const;

  struct Rating {
    std::optional<double> ms;  // nullopt: its facts do not hold, or it does not fit
    scheduler::SplitChoice form;
  };
  std::optional<double> Rate(const Point& point);
  // Found by whoever asks first: threads that look ahead, or the search itself.
  const Rating& RatingOf(const Point& point) const;
  const std::map<Point, Rating>& rated() const { return rated_; }  // what Rate was asked for
  const Rating* Rated(const Point& point) const;                   // null: it was not asked for

 private:
  const TuneQuestion question_;
  PipelineOptions options_;
  const Bindings names_;
  std::vector<Axis> axes_;
  Point standard_;
  std::set<Point> forms_;
  std::map<Point, Rating> rated_;
  mutable FoundOnce<Rating, Point> ratings_;  // of those and of what threads looked at ahead
};

}  // namespace tilec::api
