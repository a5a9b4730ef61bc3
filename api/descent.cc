// SPDX-License-Identifier: Apache-2.0
#include "api/descent.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/ahead.h"

namespace tilec::api {

namespace {

constexpr size_t kStarts = 4;  // of descents, from a grid of round values

bool Round(int64_t value) { return value % 64 == 0 || (value & (value - 1)) == 0; }

class Descents {
 public:
  Descents(const std::vector<Axis>& axes, int threads, const RatePoint& rate,
           const std::function<void(const Point&)>& ahead)
      : axes_(axes), threads_(threads), rate_(rate), ahead_(ahead) {}

  // The default, and the best of all combinations of round values.
  std::vector<Point> Starts(const Point& standard) const {
    std::vector<Point> grid = {{}};
    for (const Axis& axis : axes_) {
      std::vector<Point> next;
      for (const Point& point : grid)
        for (size_t i = 0; i < axis.values.size(); ++i) {
          if (i != axis.standard && !Round(axis.values[i])) continue;
          next.push_back(point);
          next.back().push_back(i);
        }
      if (next.size() > kMostRated / 2) return {standard};
      grid = std::move(next);
    }
    const auto times = Rate(grid);
    std::vector<std::pair<double, Point>> rated;
    for (size_t i = 0; i < grid.size(); ++i)
      if (times[i] && grid[i] != standard) rated.emplace_back(*times[i], grid[i]);
    std::sort(rated.begin(), rated.end());
    std::vector<Point> starts = {standard};
    for (size_t i = 0; i < rated.size() && i < kStarts; ++i) starts.push_back(rated[i].second);
    return starts;
  }

  // Along one axis after the other, each looked at from end to end, while that helps. Which one
  // comes first decides where it ends: of 1536³, rows first never saw columns of 144 beside rows of
  // 128.
  void From(Point point, bool backwards) const {
    std::optional<double> best = rate_(point);
    for (bool better = true; better;) {
      better = false;
      for (size_t k = 0; k < axes_.size(); ++k) {
        const size_t a = backwards ? axes_.size() - 1 - k : k;
        std::vector<Point> along(axes_[a].values.size(), point);
        for (size_t i = 0; i < along.size(); ++i) along[i][a] = i;
        const auto times = Rate(along);
        for (size_t i = 0; i < along.size(); ++i) {
          if (!times[i] || (best && *times[i] >= *best)) continue;
          best = times[i];
          point = along[i];
          better = true;
        }
      }
    }
  }

 private:
  std::vector<std::optional<double>> Rate(const std::vector<Point>& points) const {
    std::vector<const Point*> fresh;  // what others may take from this thread
    for (const Point& point : points)
      if (seen_.insert(point).second) fresh.push_back(&point);
    const int threads = static_cast<int>(std::min(static_cast<size_t>(threads_), fresh.size()));
    const Ahead others(threads, 1, fresh.size(), [&](size_t i) { ahead_(*fresh[i]); });
    std::vector<std::optional<double>> times;
    for (const Point& point : points) times.push_back(rate_(point));
    return times;
  }

  const std::vector<Axis>& axes_;
  const int threads_;
  const RatePoint& rate_;
  const std::function<void(const Point&)>& ahead_;
  mutable std::set<Point> seen_;
};

}  // namespace

void Descend(const std::vector<Axis>& axes, const Point& standard, int threads,
             const RatePoint& rate, const std::function<void(const Point&)>& ahead) {
  const Descents descents(axes, threads, rate, ahead);
  for (const Point& start : descents.Starts(standard))
    for (const bool backwards : {false, true}) descents.From(start, backwards);
}

}  // namespace tilec::api
