// All schedules of one graph at one initiation interval, by trying every slot, stage and role: what
// the solver must agree with, and slow.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/unit/scheduler/exhaustive.h"

namespace tilec::scheduler {

class Exhaustive {
 public:
  Exhaustive(const Graph& graph, int64_t ii);

  bool Run() { return n_ == 0 || Place(0, 0); }
  std::optional<bool> Run(int64_t most_placements);
  std::vector<std::vector<int>> Divisions();
  bool Run(const std::vector<int>& roles);
  std::optional<Objective> Best(const std::vector<int>& roles, const Objective* best);
  Objective CriteriaOfRoles(const std::vector<int>& roles);

 private:
  void Divide(int v, int roles, std::vector<std::vector<int>>* out);
  Objective CriteriaOfRoles() const;
  bool PlaceSlots(int v, int64_t last);
  bool TooManyStages(int v);
  bool Place(int v, int roles);
  bool RolesLegal(int v) const;
  bool Reserved(int v) const;
  int64_t LeastStages(const GraphEdge& e) const;
  bool Stages();
  bool ChooseStage(int v);
  bool Fits();
  int64_t Slack() const;
  bool QuotasFit(const std::vector<int64_t>& peak, int64_t smem);

  const Graph& g_;
  const int64_t ii_;
  const int n_;
  bool memory_ = false;
  bool rotate_ = false;  // every placement of the first op, for the best objective
  bool improved_ = false;
  int64_t stages_ = 0, most_stages_ = 0, least_smem_ = 0, most_slack_ = 0;
  int64_t reach_ = 0;
  int64_t left_ = INT64_MAX;  // placements that may be looked at
  std::vector<int64_t> slot_, stage_;
  std::vector<int> role_;
};

}  // namespace tilec::scheduler
