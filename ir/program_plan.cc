// SPDX-License-Identifier: Apache-2.0
#include "ir/program_plan.h"

#include <algorithm>

namespace tilec::ir {

bool ProgramPlan::KeepsUntilRead(OpId load) const {
  const auto it = tiles.loads.find(load);
  return it != tiles.loads.end() && it->second.buffer && it->second.kept && !site_of.count(load);
}

int ProgramPlan::load_warps() const {
  for (const PlannedRole& role : roles)
    if (role.kind == PlannedRole::Kind::kProducer) return role.warps;
  return 0;
}

std::vector<size_t> ProgramPlan::RingsReadBy(const Function& fn, OpId dot) const {
  std::vector<size_t> out;
  const DotPlan& plan = tiles.dots.at(dot);
  for (const OperandPlan* o : {&plan.a, &plan.b}) {
    if (o->how != OperandPlan::How::kBuffer) continue;
    if (auto site = site_of.find(fn.values[o->source].def); site != site_of.end())
      out.push_back(site->second.first);
  }
  return out;
}

bool ProgramPlan::ReleasedByCommit(const PlannedRing& ring) const {
  return !ring.generic_reads &&
         std::any_of(tiles.dots.begin(), tiles.dots.end(),
                     [](const auto& dot) { return InTensorMemory(dot.second.unit); });
}

int ProgramPlan::RoleOfSum(const TensorSum& sum) const {
  int found = -1;
  for (int role = 0; role < compute_roles && static_cast<size_t>(role) < needs.size(); ++role) {
    if (!Executes(role, sum.dots[0])) continue;
    if (found >= 0) return -1;
    found = role;
  }
  return found;
}

std::vector<size_t> ProgramPlan::OperandRingsOf(OpId dot) const {
  std::vector<size_t> out;
  for (bool is_a : {true, false})
    if (const auto ring = operand_ring_of.find({dot, is_a}); ring != operand_ring_of.end())
      out.push_back(ring->second);
  return out;
}

bool ProgramPlan::MetBefore(OpId dot) const {
  const std::vector<size_t> of = OperandRingsOf(dot);
  return std::all_of(of.begin(), of.end(), [&](size_t ring) { return operand_rings[ring].met; });
}

bool ProgramPlan::OneSlot(OpId dot) const {
  const std::vector<size_t> of = OperandRingsOf(dot);
  return std::any_of(of.begin(), of.end(),
                     [&](size_t ring) { return operand_rings[ring].slots == 1; });
}

}  // namespace tilec::ir
