// What the values of --schedule mean.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilec::api {

inline constexpr std::string_view kSolve = "solve", kSequential = "sequential";
inline constexpr std::string_view kPersistent = "solve:persistent";  // Persistent CTAs, if possible
inline constexpr std::string_view kClusters = "solve:clusters";  // of CTAs, where they share a load
inline constexpr std::string_view kOnce = "solve:once";          // a CTA for every tile

// Row slices that the name asks for: 0 for plain `solve`; nullopt: it is neither of the solver's
// nor program order.
std::optional<int> SlicesOf(const std::string& name);
// CTAs for each tile that the name asks for (`solve:split=N`, `sequential:split=N`); 1: one.
std::optional<int64_t> SplitOf(const std::string& name);
// Are those no cluster (`solve:split=N:apart`)? A second launch puts together what they have.
bool IsApart(const std::string& name);
// … whose CTAs copy for their neighbours (`solve:clusters:split=N:apart`)?
bool SharesApart(const std::string& name);
std::string SharedApartName(int64_t neighbours, int64_t along, int64_t ctas);
std::string SharedPartsOf(const std::string& name);  // how its parts are scheduled
std::string ApartName(int64_t pack, int64_t ctas);
// Instances whose rows are one tile, of `solve:pack=N` or `sequential:pack=N`, with or without
// `:split=N`.
std::optional<int64_t> PackOf(const std::string& name);
// CTAs of a cluster that copy for each other, of `solve:clusters=4…`; 0: as many as the target
// says.
int64_t NeighboursOf(const std::string& name);
// `along`: the grid's range, from 0.
std::string ClustersName(int64_t ctas, int64_t along);
// The range of the grid along which neighbours share copies, of `solve:along=N` and
// `solve:clusters:along=N`; 1: the first, of any name.
int64_t AlongOf(const std::string& name);
std::string WithAlong(const std::string& name, int64_t along);
std::string WithoutAlong(const std::string& name);
// Does the name leave open what becomes of the grid?
bool ChoosesForm(const std::string& name);
// One role in program order?
inline bool IsSequential(const std::string& name) { return name.rfind(kSequential, 0) == 0; }

}  // namespace tilec::api
