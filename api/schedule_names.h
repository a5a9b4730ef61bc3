// What the values of --schedule mean.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::api {

inline constexpr std::string_view kPersistent = "solve:persistent";  // Persistent CTAs, if possible
inline constexpr std::string_view kClusters = "solve:clusters";  // of CTAs, where they share a load
inline constexpr std::string_view kOnce = "solve:once";          // a CTA for every tile

// Row slices that the name asks for: 0 for plain `solve`; nullopt: it is none of the solver's.
std::optional<int> SlicesOf(const std::string& name);
// CTAs for each tile that the name asks for (`solve:split=N`); 1: one.
std::optional<int64_t> SplitOf(const std::string& name);
// Instances whose rows are one tile, of `solve:pack=N`, with or without `:split=N`.
std::optional<int64_t> PackOf(const std::string& name);

}  // namespace tilec::api
