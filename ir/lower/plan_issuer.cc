// A role of its own for products: one thread issues the products of all compute roles, so that
// those of the next tile run while threads still take this one's accumulator apart.
//
// It is planned where products are all that stands between the rings and the accumulators: each sum
// begins with zero, each product reads slots that TMA fills, and nothing but products reads those.
// What threads hand to a product (a computed operand, a first value, a rescaled sum) keeps the
// product in the role of those threads. It is all products of a function or none: the unit takes
// them in the order of one thread.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/lower/program_planner.h"
#include "ir/lower/scalars.h"
#include "ir/lower/tensor_sums.h"
#include "ir/queries.h"

namespace tilec::ir {

// Are both operands slots of rings that only products read?
bool ProgramPlanner::ReadsRings(OpId dot) const {
  const auto in_ring = [&](const OperandPlan& o) {
    if (o.how != OperandPlan::How::kBuffer) return false;
    const OpId load = in_.values[o.source].def;
    return std::any_of(p_.rings.begin(), p_.rings.end(), [&](const PlannedRing& ring) {
      return !ring.generic_reads &&
             std::any_of(ring.sites.begin(), ring.sites.end(), [&](const RingSite& site) {
               return std::count(site.loads.begin(), site.loads.end(), load) > 0;
             });
    });
  };
  // Scales go to tensor memory by threads, in front of each product.
  if (in_.ops[dot].operands.size() > 3) return false;
  const DotPlan& plan = tiles_.dots.at(dot);
  return plan.promote == 0 && in_ring(plan.a) && in_ring(plan.b);
}

// Whether a tile was multiplied at all is asked where it is loaded, by roles that walk none of its
// loops: one loop's bounds are there, and so are constants.
bool ProgramPlanner::LeftToIssuer(const TensorSum& sum) const {
  if (sum.resident() || sum.at_once || !sum.from_zero || p_.RoleOfSum(sum) < 0) return false;
  const auto runs = [&](OpId loop) {
    const Op& op = in_.ops[loop];
    const int64_t *lo = IntConstantOf(in_, op.operands[0]),
                  *hi = IntConstantOf(in_, op.operands[1]);
    return lo && hi && *lo < *hi;
  };
  const bool asked =
      sum.always || (sum.loops.size() == 1 && sum.segments.size() == 1) ||
      (sum.segments.size() == 1 && std::all_of(sum.loops.begin(), sum.loops.end(),
                                               [&](const auto& loop) { return runs(loop.first); }));
  return asked && std::all_of(sum.dots.begin(), sum.dots.end(), [&](OpId dot) {
           return ReadsRings(dot) && !in_.ops[dot].attr("signal") && !in_.ops[dot].attr("await");
         });
}

void ProgramPlanner::PlanIssuer() {
  if (!specialized() || !sound_) return;
  const std::vector<TensorSum> sums = FindTensorSums(in_, tiles_);
  std::vector<OpId> products;
  for (const TensorSum& sum : sums) {
    if (!LeftToIssuer(sum)) return;
    products.insert(products.end(), sum.dots.begin(), sum.dots.end());
  }
  if (products.empty() || !ShareOfIssuer(in_, products)) return;
  // A second slot is worth its columns where a next tile follows.
  constexpr int64_t kBoth = 2;
  for (int64_t most : {kBoth, int64_t{1}}) {
    int64_t columns = 0;
    p_.accumulators.clear();
    for (const TensorSum& sum : sums) {
      const std::vector<int64_t>& shape = in_.type(sum.result).shape;
      const int64_t slots = ir::InLoop(in_, sum.first) ? most : 1;
      columns += slots * TensorColumns(shape[0], shape[1]);
      p_.accumulators.push_back({sum.dots[0], slots, p_.warps_per_role()});
    }
    if (columns > kTensorColumns) continue;
    PlanPair(products);  // then rings are no deeper
    if (depth_ <= kDeepestOfIssuer || p_.pair) return;
    break;
  }
  p_.accumulators.clear();
}

}  // namespace tilec::ir
