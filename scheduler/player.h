// The player of schedules: a machine with a clock, tables of who is busy when, and values that are
// made, read and overwritten. simulate.cc sets it up and says at its end whether what was promised
// held; simulate_play.cc is the play itself. Internal to the folder; check.h is what others ask.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/check.h"

namespace tilec::scheduler {

class Player {
 public:
  Player(const Graph& graph, const ir::Schedule& schedule);

  CheckReport Play(int periods);

 private:
  using Event = std::pair<int, int64_t>;  // op, iteration; negative: a live-in appears
  // A value of one iteration.
  struct Instance {
    bool made = false;
    int64_t readers = 0;            // still to come
    int64_t last_read = INT64_MIN;  // completion of the latest read so far
    bool DeadAt(int64_t cycle) const { return made && readers == 0 && last_read <= cycle; }
  };
  enum class State { kReady, kBlocked, kBroken };

  void Fail(const char* law, std::string text, std::vector<int> ops = {}) {
    report_.violations.push_back({law, std::move(text), std::move(ops)});
  }

  // simulate.cc
  bool Read();
  void Shape();
  void Quotas();
  void Orders();

  // simulate_play.cc
  bool Prepare(int periods);
  Instance* Value(int v, int64_t iteration);
  State Ready(const Event& event, const char** why, int* culprit);
  void Occupy(std::vector<int32_t>* table, int64_t cycles, int64_t capacity, const char* law,
              const std::string& name);
  void Issue(const Event& event);
  void Step();
  void Count();

  const Graph g_;
  const ir::Schedule& s_;
  CheckReport report_;
  std::vector<ir::ScheduledOp> at_;  // by op
  std::vector<int> ring_;            // by op; 0: none
  int64_t start_ = 0, warm_ = 0, stop_ = 0, cycle_ = 0;
  std::vector<std::vector<int>> value_edges_, inputs_;     // by op
  std::vector<int64_t> past_;                              // live-ins of each op's value, at most
  std::vector<std::vector<Instance>> values_;              // by op and iteration + past
  std::vector<std::vector<int64_t>> issued_;               // by op and iteration
  std::vector<std::vector<int32_t>> busy_, issuing_;       // by unit or role, and cycle
  std::vector<std::vector<std::pair<int64_t, int>>> log_;  // by unit: who issued when
  std::vector<std::vector<Event>> events_;                 // by cycle
  std::vector<Event> living_;
};

}  // namespace tilec::scheduler
