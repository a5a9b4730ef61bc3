// Where the search for tunes looks: from the default and the best of a grid of round values along
// one axis after the other, as bounds rate what lies there. The ratings of an axis do not hang on
// one another, so threads may find them ahead; where the descents go does not depend on them.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tilec::api {

inline constexpr size_t kMostRated = 600;  // points rated by bounds

using Point = std::vector<size_t>;  // index into each axis

struct Axis {
  std::string name;
  std::vector<int64_t> values;  // ascending
  size_t standard = 0;          // the default
};

// Milliseconds by bounds; nullopt: it does not fit, or enough was rated.
using RatePoint = std::function<std::optional<double>(const Point&)>;

// Rates points from `standard` on. `ahead`: finds out, on any thread, what `rate` will ask for.
void Descend(const std::vector<Axis>& axes, const Point& standard, int threads,
             const RatePoint& rate, const std::function<void(const Point&)>& ahead);

}  // namespace tilec::api
