// SPDX-License-Identifier: Apache-2.0
#include "scheduler/offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace tilec::scheduler {

std::string RolesText(const RoleOffer& offer) {
  std::string text;
  for (size_t i = 0; i < offer.widths.size();) {
    size_t j = i;
    while (j < offer.widths.size() && offer.widths[j] == offer.widths[i]) ++j;
    if (text.empty())
      text = fmt::format("{} compute role{} of {} warp{}", j - i, j - i == 1 ? "" : "s",
                         offer.widths[i], offer.widths[i] == 1 ? "" : "s");
    else
      text += fmt::format(" and {} of {}", j - i, offer.widths[i]);
    i = j;
  }
  return text;
}

int Offers::Warps(const RoleOffer& offer, int load_warps) {
  int warps = offer.load ? load_warps : 0;
  for (int width : offer.widths) warps += width;
  return warps;
}

int Offers::WideRoles(const RoleOffer& offer) {
  return static_cast<int>(
      std::count_if(offer.widths.begin(), offer.widths.end(), [](int w) { return w >= 4; }));
}

Offers::Offers(const Graph& graph, const SolveOptions& options) {
  std::map<int, int, std::greater<>> ops_of_width;  // widest first
  bool load = false;
  for (const GraphOp& op : graph.ops) {
    if (op.variable_latency)
      load = true;
    else if (!op.routed)
      ++ops_of_width[op.warps];
  }
  if (!options.warp_constraints) {
    RoleOffer one;
    one.widths = {4};
    largest_ = ascending_ = {one};
    return;
  }
  const int load_warps = LoadWarps(graph);
  std::vector<std::pair<int, int>> widths(ops_of_width.begin(), ops_of_width.end());
  std::vector<RoleOffer> all;
  std::vector<int> counts(widths.size(), 0);
  int most_roles = options.max_roles > 0 ? options.max_roles - (load ? 1 : 0) : 1 << 20;
  if (options.fixed_compute_roles) most_roles = std::min(most_roles, *options.fixed_compute_roles);
  std::function<void(size_t, int, int)> choose = [&](size_t i, int warps, int roles) {
    if (i == widths.size()) {
      RoleOffer offer;
      offer.load = load;
      for (size_t j = 0; j < widths.size(); ++j)
        offer.widths.insert(offer.widths.end(), counts[j], widths[j].first);
      all.push_back(std::move(offer));
      return;
    }
    for (int count = 1; count <= widths[i].second; ++count) {
      const int with = warps + count * widths[i].first;
      if (with > graph.machine.max_warps || roles + count > most_roles) break;
      counts[i] = count;
      choose(i + 1, with, roles + count);
    }
  };
  choose(0, load ? load_warps : 0, 0);
  ascending_ = all;
  std::stable_sort(ascending_.begin(), ascending_.end(),
                   [&](const RoleOffer& a, const RoleOffer& b) {
                     return std::pair(WideRoles(a), Warps(a, load_warps)) <
                            std::pair(WideRoles(b), Warps(b, load_warps));
                   });
  auto contains = [](const RoleOffer& big, const RoleOffer& small) {
    std::map<int, int> count;
    for (int w : big.widths) ++count[w];
    for (int w : small.widths)
      if (--count[w] < 0) return false;
    return true;
  };
  for (const RoleOffer& offer : all) {
    const bool inside = std::any_of(all.begin(), all.end(), [&](const RoleOffer& other) {
      return other.widths.size() > offer.widths.size() && contains(other, offer);
    });
    if (!inside) largest_.push_back(offer);
  }
}

}  // namespace tilec::scheduler
