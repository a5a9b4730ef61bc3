// Products that the two CTAs of a cluster make together: one instruction for 256 rows, of which
// each CTA has 128, with half of the columns of the right operand in the shared memory of each. So
// each brings half of what it would bring alone for the same columns.
//
// It is planned where a role of its own issues the products, for all products of a function or none
// (an instruction says how many CTAs it is of, and all of a kernel say the same), and where both
// CTAs make the same products in the same order with the same right operand: no loop and no branch
// around a product, and no place that a right operand is loaded from, depends on which of the two
// it is. What the CTAs do with their rows is theirs.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/channels.h"
#include "ir/lower/program_planner.h"
#include "ir/passes/cluster_values.h"
#include "ir/queries.h"

namespace tilec::ir {

namespace {

constexpr int64_t kPair = 2;

// The right operand's half of a CTA, whole rows or whole panels of it; nullopt: none such.
std::optional<SmemLayout> HalfOf(const Type& tile, const SmemLayout& smem, int dim) {
  SmemLayout half = smem;
  int64_t& extent = dim == 0 ? half.rows : half.cols;
  const int64_t step = dim == 0 ? kTensorColumnStep : smem.panel_cols;
  if (extent != tile.shape[static_cast<size_t>(dim)] || extent % (kPair * step) != 0)
    return std::nullopt;
  extent /= kPair;
  return half;
}

}  // namespace

// Right operands by load, and the dim along which each CTA has a half.
std::optional<std::map<OpId, int>> ProgramPlanner::HalvesOfPair(
    const std::vector<OpId>& products) const {
  std::map<OpId, int> halves;
  std::set<OpId> left;
  for (OpId id : products) {
    const DotPlan& dot = tiles_.dots.at(id);
    const std::vector<int64_t>& shape = in_.type(in_.ops[id].results[0]).shape;
    if (shape[0] % kTensorLanes != 0 || shape[1] % (kPair * kTensorColumnStep) != 0)
      return std::nullopt;
    const OpId load = in_.values[dot.b.source].def;
    const int dim = dot.b.trans ? 1 : 0;
    if (halves.emplace(load, dim).first->second != dim) return std::nullopt;
    left.insert(in_.values[dot.a.source].def);
  }
  for (const auto& [load, dim] : halves) {
    const Type& tile = in_.type(in_.ops[load].results[0]);
    const bool box = in_.ops[load].s("modes").find('f') != std::string::npos;
    if (box || left.count(load) > 0 || tile.rank() != 2 ||
        !HalfOf(tile, tiles_.loads.at(load).smem, dim))
      return std::nullopt;
  }
  // Sites of one ring fill the same slots.
  for (const PlannedRing& ring : p_.rings)
    for (const RingSite& site : ring.sites)
      for (size_t i = 0; i < site.loads.size(); ++i) {
        if (site.bytes > 0) return std::nullopt;  // a part of a slot has other places
        const auto mine = halves.find(site.loads[i]), first = halves.find(ring.sites[0].loads[i]);
        if ((mine == halves.end()) != (first == halves.end()) ||
            (mine != halves.end() && mine->second != first->second))
          return std::nullopt;
      }
  return halves;
}

// Do both CTAs walk the same products, and load the same right operands?
bool ProgramPlanner::AlikeInPair(const std::vector<OpId>& products,
                                 const std::map<OpId, int>& halves) const {
  OpId grid;
  for (OpId id : in_.blocks[in_.body].ops)
    if (in_.ops[id].kind == OpKind::kParallel) grid = id;
  const ClusterValues values(in_, grid);
  const auto same = [&](ValueId v) { return !values.Differs(v); };
  const auto reached_alike = [&](OpId id) {
    for (OpId at = ParentOf(in_, id); at.valid() && at != grid; at = ParentOf(in_, at)) {
      const Op& op = in_.ops[at];
      const size_t asked = op.kind == OpKind::kFor ? 2 : op.kind == OpKind::kIf ? 1 : 0;
      if (asked == 0 ||
          !std::all_of(op.operands.begin(),
                       op.operands.begin() + static_cast<std::ptrdiff_t>(asked), same))
        return false;
    }
    return true;
  };
  return std::all_of(products.begin(), products.end(), reached_alike) &&
         std::all_of(halves.begin(), halves.end(), [&](const auto& half) {
           const std::vector<ValueId>& from = in_.ops[half.first].operands;
           return reached_alike(half.first) && std::all_of(from.begin(), from.end(), same);
         });
}

void ProgramPlanner::PlanPair(const std::vector<OpId>& products) {
  if (cluster_ != kPair || !target_.Has("pairs")) return;
  const std::optional<std::map<OpId, int>> halves = HalvesOfPair(products);
  if (!halves || !AlikeInPair(products, *halves)) return;
  for (const auto& [id, dim] : *halves) {
    LoadPlan& load = tiles_.loads.at(id);
    load.smem = *HalfOf(in_.type(in_.ops[id].results[0]), load.smem, dim);
    load.half = dim;
  }
  for (PlannedRing& ring : p_.rings) {
    ring.bytes = 0;
    for (OpId id : ring.sites[0].loads)
      ring.bytes += ToldBytes(tiles_.loads.at(id), in_.type(in_.ops[id].results[0]));
  }
  p_.pair = true;
  p_.cluster = kPair;
}

}  // namespace tilec::ir
