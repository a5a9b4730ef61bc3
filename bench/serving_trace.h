// Sizes as a server of language models sees them, drawn one by one with a seed: products of four
// layers (N × K of an 8-billion model), whose rows are the tokens of a step, and attention over
// what every sequence has so far. No two draws know of each other, so that nearly every attention
// has a size that was not seen before: a real server repeats each size for every layer.
//
//   products   3 of 5: M log-uniform in 1…256 (decoding, 3 of 5) or in 1…8192
//   attention  2 of 5: one query a sequence (3 of 5), B log-uniform in 1…64, L in 1…32768;
//              else causal, B in 1…8, S = L in 1…8192. B · L is at most 2^18: what a cache of keys
//              holds
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

namespace tilec::bench {

struct ServedCall {
  bool attention = false;
  int64_t m = 0, n = 0, k = 0;  // of a product
  int64_t b = 0, s = 0, l = 0;  // of attention
  bool causal = false;
  auto operator<=>(const ServedCall&) const = default;
};

struct TraceLimits {
  int64_t rows = 8192;       // M
  int64_t keys = 32768;      // L
  int64_t queries = 8192;    // S
  int64_t sequences = 64;    // B
  int64_t cached = 1 << 18;  // B · L
  int64_t shrink = 1;        // N and K of the layers are divided by it
};

// N and K of the layers.
std::vector<std::pair<int64_t, int64_t>> ServedLayers(const TraceLimits& limits);

// The same on every machine.
std::vector<ServedCall> ServingTrace(int calls, uint64_t seed, const TraceLimits& limits);

}  // namespace tilec::bench
