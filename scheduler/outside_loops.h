// What stands outside of a kernel's innermost loops, in cycles of an instance: its ops one after
// the other, in the order of the program, where threads wait for loads and where they meet. Of a
// kernel without products also what a turn of its loops takes in that way.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ir/count_work.h"
#include "ir/function.h"
#include "ir/target.h"

namespace tilec::scheduler {

class OutsideLoops {
 public:
  // `warpgroups`: CutWarpgroups; 0: not known yet.
  OutsideLoops(const ir::Function& fn, const ir::Target& target, const ir::WorkCount& work,
               double warpgroups);
  double cycles = 0, busy = 0, hot = 0;  // per instance
  bool combines = false;                 // CTAs of a cluster put together what they have
  std::map<ir::OpId, double> turns;      // without products: what a turn takes one after the other
  std::map<ir::OpId, double> entries;    // of innermost loops, per instance

 private:
  void Walk(ir::BlockId block, double times);
  double Turn(const ir::Op& loop);
  bool MeetsBefore(const ir::Op& store) const;
  bool MeetsIn(const ir::Op& op) const;
  void Add(const ir::Op& op, double times);
  void AddClusterReduce(const ir::Op& op, double times);

  const ir::Function& fn_;
  const ir::Target& target_;
  const ir::WorkCount& work_;
  const bool slides_;
  std::set<ir::OpId> inner_;
  std::set<std::vector<int64_t>> own_;  // shapes of what each thread reduces by itself
  const double warpgroups_;
  int hot_unit_ = -1;
  std::vector<double> used_;  // cycles of each unit
  bool waiting_ = false;      // for loads, in the order of the program
  int64_t cluster_ = 1;
  bool in_turn_ = false;  // of a loop
  double waits_ = 0;      // of a turn, for loads and one another
};

}  // namespace tilec::scheduler
