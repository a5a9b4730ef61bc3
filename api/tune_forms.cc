// Of a tile that fills the registers the model says that it may spill, and takes it only where an
// author tried it: such is the default. A kernel that is written in two ways has tiles that suit
// either, which its tunes say (`tune BQ = if ONCE == 1 { 192 } else { 128 }`).
//
// SPDX-License-Identifier: Apache-2.0
#include "api/tune_forms.h"

#include <algorithm>
#include <optional>

namespace tilec::api {
namespace {

// Where the axes stand in what a kernel was made with.
std::optional<Point> PointOf(const Bindings& statics, const std::vector<Axis>& axes) {
  Point point;
  for (const Axis& axis : axes) {
    const auto value = statics.find(axis.name);
    if (value == statics.end()) return std::nullopt;
    const auto at = std::find(axis.values.begin(), axis.values.end(), value->second);
    if (at == axis.values.end()) return std::nullopt;
    point.push_back(static_cast<size_t>(std::distance(axis.values.begin(), at)));
  }
  return point;
}

}  // namespace

std::set<Point> FormPoints(const Loaded& loaded, const std::string& kernel, const Call& call,
                           const std::vector<Axis>& axes) {
  Point standard;
  for (const Axis& axis : axes) standard.push_back(axis.standard);
  std::set<Point> points = {standard};
  for (const Axis& axis : axes) {
    if (axis.values.size() != 2) continue;
    Call with = call;
    with.statics[axis.name] = axis.values[1 - axis.standard];
    DiagSink quiet;
    const auto fn = MakeTileIr(loaded, kernel, with, nullptr, quiet);
    if (!fn.ok()) continue;
    if (std::optional<Point> point = PointOf(fn->statics, axes)) points.insert(*std::move(point));
  }
  return points;
}

}  // namespace tilec::api
