// Who makes a plan of one loop from its schedule (loop_plan.h): first every op has a place, in its
// role, at a slot and in a stage; then the places give the order.
// Included by the files that define it: loop_plan.cc, loop_stages.cc, loop_order.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/loop_plan.h"
#include "support/expr.h"

namespace tilec::ir {

class LoopPlanner {
 public:
  LoopPlanner(const Function& fn, OpId loop, const LoopSchedule& schedule)
      : fn_(fn), loop_(loop), body_(fn.ops[loop].regions[0]), schedule_(schedule) {}
  std::optional<LoopPlan> Run(std::string* why);

 private:
  struct Place {
    int role;
    int stage;
    int64_t slot;
  };
  // A read of a placed value: by op `to`, `distance` iterations later.
  struct Read {
    OpId from, to;
    int64_t distance;
  };

  int64_t SlotOf(int64_t cycle) const {
    return cycle - FloorDiv(cycle, schedule_.ii) * schedule_.ii;
  }
  int StageAt(OpId id, int64_t cut) const {
    return static_cast<int>(FloorDiv(times_.at(id).cycle - cut, schedule_.ii));
  }
  bool IsProduct(OpId id) const { return schedule_.in_flight.count(id) > 0; }
  bool Fail(std::string why);
  bool Collect();
  bool Anchor();
  bool AnchorOp(OpId id);
  bool AnchorCarried(ValueId v);

  // loop_stages.cc
  void Leaves(ValueId v, OpId reader, int64_t distance, std::vector<Read>* out) const;
  std::vector<Read> ReadsOf(int role) const;
  std::vector<Read> LoadsOf(int role) const;
  void LoadsBehind(ValueId v, OpId reader, int64_t distance, std::vector<Read>* out) const;
  std::map<int64_t, int> Ahead(const std::vector<Read>& loads, int64_t cut, int least) const;
  size_t AheadOfOthers(int role, const std::vector<Read>& loads, int64_t cut) const;
  void Align(const std::vector<Read>& loads, const std::map<int64_t, int>& ahead, int role);
  void Rotate(int role);
  void Shift();
  void ReadLoadsInOneTurn(int role);
  void KeepResultsInTheirTurn();
  void UseInTheirTurn();
  void DrawClose();
  bool StaysInPlace(OpId product) const;

  // loop_order.cc
  void ReadBeforeUpdate();
  bool ReadBefore(OpId product, int64_t slot) const;
  bool Order();
  void Tokens();

  const Function& fn_;
  OpId loop_;
  BlockId body_;
  const LoopSchedule& schedule_;
  std::map<OpId, int64_t> rank_;
  std::map<OpId, std::vector<ValueId>> reads_;  // of the body's ops
  std::map<OpId, LoopSchedule::Time> times_;
  std::map<OpId, Place> places_;
  std::map<OpId, int64_t>
      load_stages_;  // of loads that roles read so far, where sums stay in place
  std::map<OpId, std::set<OpId>> before_;  // of ops of one slot: these first
  LoopPlan plan_;
  std::string why_;
};

}  // namespace tilec::ir
