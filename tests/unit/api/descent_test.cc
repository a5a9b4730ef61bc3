// Where a search for tunes looks does not depend on the threads that look ahead, and it finds what
// lies along the axes.
//
// SPDX-License-Identifier: Apache-2.0
#include "api/descent.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <set>

namespace tilec::api {
namespace {

std::vector<Axis> Axes() {
  Axis rows{.name = "BM"}, columns{.name = "BN"};
  for (int64_t v = 16; v <= 256; v += 16) rows.values.push_back(v);
  for (int64_t v = 8; v <= 256; v += 8) columns.values.push_back(v);
  rows.standard = 7, columns.standard = 15;
  return {rows, columns};
}

// A bowl with its ground at 208 x 200, leaning; tiles of 16 columns do not fit.
std::optional<double> Time(const Point& point) {
  const auto axes = Axes();
  const auto m = static_cast<double>(axes[0].values[point[0]]);
  const auto n = static_cast<double>(axes[1].values[point[1]]);
  if (n == 16) return std::nullopt;
  return std::abs(m - 208) + std::abs(n - 200) + 0.2 * std::abs(m - n);
}

std::vector<Point> Asked(int threads, std::atomic<int>* ahead) {
  std::vector<Point> asked;
  std::map<Point, double> seen;
  Descend(
      Axes(), {7, 15}, threads,
      [&](const Point& p) {
        asked.push_back(p);
        return Time(p);
      },
      [&](const Point& p) {
        ++*ahead;
        (void)Time(p);
      });
  return asked;
}

TEST(Descent, GoesWhereItGoesWithoutThreads) {
  std::atomic<int> none = 0, some = 0;
  const auto alone = Asked(1, &none), beside = Asked(6, &some);
  EXPECT_EQ(alone, beside);
  EXPECT_EQ(none, 0);
  EXPECT_GT(some, 0);
  // Each of them once: of what was looked at nobody makes threads.
  EXPECT_LE(some, std::ssize(std::set<Point>(beside.begin(), beside.end())));
}

TEST(Descent, FindsTheGround) {
  std::atomic<int> ahead = 0;
  double best = INFINITY;
  for (const Point& p : Asked(1, &ahead))
    if (const auto ms = Time(p)) best = std::min(best, *ms);
  EXPECT_NEAR(best, 1.6, 1e-9);
}

}  // namespace
}  // namespace tilec::api
