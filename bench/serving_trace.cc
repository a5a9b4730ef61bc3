// SPDX-License-Identifier: Apache-2.0
#include "bench/serving_trace.h"

#include <algorithm>
#include <tuple>

namespace tilec::bench {

namespace {

constexpr int64_t kLayers[][2] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  uint64_t Next() {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  // Log-uniform by halves: which power of two, then which number from it to the next one.
  int64_t UpTo(int64_t most) {
    int64_t powers = 0;
    while (int64_t{2} << powers <= most) ++powers;
    const int64_t low = int64_t{1} << Below(powers + 1);
    return low + Below(std::min(low, most - low + 1));
  }

 private:
  uint64_t state_;
};

}  // namespace

std::vector<std::pair<int64_t, int64_t>> ServedLayers(const TraceLimits& limits) {
  std::vector<std::pair<int64_t, int64_t>> layers;
  for (const auto& [n, k] : kLayers) layers.emplace_back(n / limits.shrink, k / limits.shrink);
  return layers;
}

std::vector<ServedCall> ServingTrace(int calls, uint64_t seed, const TraceLimits& limits) {
  Draws draws(seed);
  const std::vector<std::pair<int64_t, int64_t>> layers = ServedLayers(limits);
  std::vector<ServedCall> trace;
  for (int i = 0; i < calls; ++i) {
    ServedCall c;
    c.attention = draws.Below(5) >= 3;
    const bool decodes = draws.Below(5) < 3;
    if (!c.attention) {
      c.m = draws.UpTo(decodes ? std::min<int64_t>(256, limits.rows) : limits.rows);
      std::tie(c.n, c.k) = layers[static_cast<size_t>(draws.Below(4))];
    } else {
      c.causal = !decodes;
      c.b = draws.UpTo(decodes ? limits.sequences : std::min<int64_t>(8, limits.sequences));
      const int64_t most = std::max<int64_t>(1, limits.cached / c.b);
      c.l = draws.UpTo(std::min(most, decodes ? limits.keys : limits.queries));
      c.s = decodes ? 1 : c.l;
    }
    trace.push_back(c);
  }
  return trace;
}

}  // namespace tilec::bench
