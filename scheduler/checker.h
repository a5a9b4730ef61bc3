// The judge of one schedule while it works: what it has found of ops (cycles, roles, lives, rings)
// is what later laws build on, so the laws are methods of one class. They are in check.cc (who sits
// where and when), check_memory.cc (what values need while they live) and check_events.cc (who
// follows whom). Internal to the folder; check.h is what others ask. Its divisions are its own: it
// shares no code with what finds schedules.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/event_graph.h"
#include "scheduler/check.h"

namespace tilec::scheduler {

class ScheduleChecker {
 public:
  // `graph`: what the schedule makes of `whole`.
  ScheduleChecker(const Graph& graph, const Graph& whole, const ir::Schedule& schedule)
      : g_(graph),
        whole_(whole),
        s_(schedule),
        n_(static_cast<int>(graph.ops.size())),
        ii_(schedule.ii) {}

  CheckReport Run();

 private:
  // A stretch of a circle of II cycles.
  struct Arc {
    int64_t begin;  // cycle, any period
    int64_t cycles;
    int op;
  };
  // Where arcs overlap most, and how much.
  struct Overlap {
    int64_t count = 0, slot = 0;
  };

  static int64_t Floor(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }
  static int64_t Ceil(int64_t a, int64_t b) { return -Floor(-a, b); }
  void Fail(const char* law, std::string text, std::vector<int> ops = {}) {
    report_.violations.push_back({law, std::move(text), std::move(ops)});
  }
  const std::string& Name(int v) const { return g_.ops[v].name; }
  const std::string& RoleName(int r) const { return s_.roles[r].name; }
  int64_t Slot(int v) const { return t_[v] - Stage(v) * ii_; }
  int64_t Stage(int v) const { return Floor(t_[v], ii_); }
  bool Cross(const GraphEdge& e) const { return role_[e.from] != role_[e.to]; }

  // check.cc
  bool Complete();
  void Measure();
  void Dependences();
  static Overlap LargestOverlap(const std::vector<Arc>& arcs, int64_t ii);
  static std::vector<int> OpsOf(const std::vector<Arc>& arcs);
  void Units();
  void Issue();
  void Roles();
  void Pins();

  // check_memory.cc
  int64_t Live(int v, int64_t at) const;
  void Registers();
  void TensorMemory();
  void Channels();

  // check_events.cc
  int64_t Occupancy(int v, int unit) const;
  int NextOn(int v, int unit) const;
  void Order();
  std::vector<int> ProgramOrder(const ir::EventGraph& events) const;
  void Events();

  const Graph& g_;
  const Graph& whole_;
  const ir::Schedule& s_;
  const int n_;
  const int64_t ii_;
  CheckReport report_;
  std::vector<int64_t> t_, life_, depth_;
  std::vector<int> role_;
};

}  // namespace tilec::scheduler
