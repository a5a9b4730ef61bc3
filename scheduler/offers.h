// Which roles are offered to a search: by the widths of a graph's ops, as many as the machine has
// warps for.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "scheduler/needs.h"
#include "scheduler/scheduler.h"

namespace tilec::scheduler {

// "2 compute roles of 4 warps and 1 of 1"
std::string RolesText(const RoleOffer& offer);

// The roles worth offering. Largest(): offers that contain every legal one; refuting all of them
// refutes the graph. Ascending(): all offers, fewest wide roles first, then fewest warps.
class Offers {
 public:
  Offers(const Graph& graph, const SolveOptions& options);
  const std::vector<RoleOffer>& Largest() const { return largest_; }
  const std::vector<RoleOffer>& Ascending() const { return ascending_; }
  static int Warps(const RoleOffer& offer, int load_warps);
  static int WideRoles(const RoleOffer& offer);

 private:
  std::vector<RoleOffer> largest_, ascending_;
};

}  // namespace tilec::scheduler
