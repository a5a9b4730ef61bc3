// Judges a program plan before anything is emitted from it, by arithmetic on its records alone.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/check_plan.h"
#include "ir/lower/buffers.h"
#include "ir/plan_laws.h"
#include "ir/plan_text.h"

namespace tilec::ir {

class PlanChecker {
 public:
  PlanChecker(const ProgramPlan& p, const Function& fn, const PlanLimits& limits, DiagSink& diags)
      : p_(p), fn_(fn), limits_(limits), diags_(diags), positions_(fn), names_(fn) {}
  bool Run();

 private:
  template <typename... Args>
  void Broken(const DiagDef& law, const Args&... args) {
    good_ = false;
    diags_.Report(law, Span{}, fn_.name, args...);
  }
  std::string RoleName(int compute) const;
  void Warps();
  void Quotas();
  void NamedBarriers();
  bool Slots();
  void Ring(size_t i);

  bool Among(const std::vector<size_t>* rings, size_t ring) const {
    return rings && std::count(rings->begin(), rings->end(), ring) > 0;
  }
  template <typename Map, typename Id>
  static const std::vector<size_t>* Find(const Map& map, int role, Id id) {
    const auto it = map.find({role, id});
    return it == map.end() ? nullptr : &it->second;
  }
  void Consumer(size_t i, const RingSite& site, int role, const RingSite::Readers& readers);
  int Releases(BlockId block, OpId await, size_t ring, int role) const;
  int ReleasesOf(OpId id, size_t ring, int role) const;
  bool HasAwait(OpId id, size_t ring, int role) const;
  bool ReleasedBefore(BlockId block, OpId await, OpId reader, size_t ring, int role) const;
  bool SameWay(OpId a, OpId b) const;

  // ---- barriers
  void Counts(const std::string& what, int64_t planned, int64_t come) {
    if (planned != come) Broken(law::kPlanArrivals, what, planned, come);
  }
  void Arrivals();
  void Accumulators();
  void Pair();
  void Tokens();
  bool HasBuffer(const std::string& what, size_t buffer, int64_t slots);
  void Uses(OpId op, size_t buffer);
  bool Drains(OpId store) const;
  void UsesAgain(OpId op, size_t buffer);
  void Routes();
  void Memory();
  void Chains();

  const ProgramPlan& p_;
  const Function& fn_;
  const PlanLimits& limits_;
  DiagSink& diags_;
  const Positions positions_;
  const OpNames names_;
  bool good_ = true;
};

}  // namespace tilec::ir
