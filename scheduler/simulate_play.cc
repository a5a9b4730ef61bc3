// The play, cycle by cycle: what issues finds its inputs or says which law it breaks, takes its
// units and its role's stream, and the values that live are counted.
//
// Values of iterations before the first (live-ins) appear in the cycle in which the steady state
// would define them, or at the very start.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "scheduler/player.h"

namespace tilec::scheduler {

namespace {

constexpr int64_t kMostCycles = 50'000'000;

}  // namespace

bool Player::Prepare(int periods) {
  start_ = INT64_MAX;
  int64_t end = INT64_MIN;
  for (size_t v = 0; v < at_.size(); ++v) {
    start_ = std::min(start_, at_[v].cycle);
    end = std::max({end, at_[v].cycle + g_.ops[v].issue, at_[v].cycle + g_.ops[v].latency});
    for (const UnitUse& use : g_.ops[v].uses) end = std::max(end, at_[v].cycle + use.cycles);
  }
  for (const GraphEdge& e : g_.edges)
    end = std::max(end, at_[e.to].cycle + e.distance * s_.ii + std::max(e.hold, e.delay));
  if (at_.empty()) start_ = end = 0;
  warm_ = start_ + (end - start_ + s_.ii - 1) / s_.ii * s_.ii + s_.ii;
  stop_ = warm_ + (periods + 1) * s_.ii;
  if (stop_ - start_ > kMostCycles) {
    Fail("complete", fmt::format("{} cycles are too many to play", stop_ - start_));
    return false;
  }
  const size_t length = static_cast<size_t>(stop_ - start_);
  busy_.assign(g_.units.size(), std::vector<int32_t>(length, 0));
  issuing_.assign(s_.roles.size(), std::vector<int32_t>(length, 0));
  log_.resize(g_.units.size());
  events_.resize(length);
  report_.role_regs.assign(s_.roles.size(), 0);
  report_.length = end - start_;
  value_edges_.resize(at_.size());
  inputs_.resize(at_.size());
  past_.assign(at_.size(), 0);
  for (size_t i = 0; i < g_.edges.size(); ++i) {
    const GraphEdge& e = g_.edges[i];
    inputs_[e.to].push_back(static_cast<int>(i));
    if (e.kind == EdgeKind::kOrder) continue;
    value_edges_[e.from].push_back(static_cast<int>(i));
    past_[e.from] = std::max(past_[e.from], e.distance);
  }
  values_.resize(at_.size());
  issued_.resize(at_.size());
  for (size_t v = 0; v < at_.size(); ++v) {
    for (int64_t i = -past_[v]; at_[v].cycle + i * s_.ii < stop_; ++i) {
      Instance instance;
      for (int edge : value_edges_[v])
        if (i + g_.edges[edge].distance >= 0) ++instance.readers;
      values_[v].push_back(instance);
      const int64_t when = std::max(start_, at_[v].cycle + i * s_.ii);
      if (when < stop_ && (i >= 0 || instance.readers > 0))
        events_[static_cast<size_t>(when - start_)].emplace_back(static_cast<int>(v), i);
      if (i >= 0) issued_[v].push_back(INT64_MIN);
    }
  }
  return true;
}

Player::Instance* Player::Value(int v, int64_t iteration) {
  const int64_t index = iteration + past_[v];
  if (index < 0 || index >= static_cast<int64_t>(values_[v].size())) return nullptr;
  return &values_[v][static_cast<size_t>(index)];
}

// May this op issue now? `why` names the law if not.
Player::State Player::Ready(const Event& event, const char** why, int* culprit) {
  const auto& [v, iteration] = event;
  if (iteration >= 0)
    for (int i : inputs_[v]) {
      const GraphEdge& e = g_.edges[i];
      const int64_t from = iteration - e.distance;
      if (from < 0) continue;  // set up before the loop
      *why = "dependence";
      *culprit = e.from;
      const auto& times = issued_[e.from];
      if (from >= static_cast<int64_t>(times.size())) return State::kBroken;
      const int64_t when = times[static_cast<size_t>(from)];
      if (when == INT64_MIN) return State::kBlocked;
      const int64_t wait = e.delay + (at_[e.from].role != at_[v].role ? e.transfer : 0);
      if (cycle_ < when + wait) return State::kBroken;
    }
  if (ring_[v] > 0) {
    *why = "ring";
    *culprit = v;
    // The slot's last tenant; a live-in nobody reads was never there. What only this op still has
    // to read, it may overwrite in place.
    const Instance* tenant = Value(v, iteration - ring_[v]);
    if (tenant != nullptr && (iteration - ring_[v] >= 0 || tenant->readers > 0 || tenant->made)) {
      Instance seen = *tenant;
      for (int i : value_edges_[v]) {
        const GraphEdge& e = g_.edges[i];
        if (iteration >= 0 && e.to == v && e.distance == ring_[v] && e.hold == 0) --seen.readers;
      }
      if (!seen.DeadAt(cycle_)) return State::kBlocked;
    }
  }
  return State::kReady;
}

void Player::Occupy(std::vector<int32_t>* table, int64_t cycles, int64_t capacity, const char* law,
                    const std::string& name) {
  for (int64_t c = cycle_; c < std::min(cycle_ + cycles, stop_); ++c)
    if (++(*table)[static_cast<size_t>(c - start_)] > capacity) {
      Fail(law, fmt::format("{} has no room at cycle {}", name, c));
      return;
    }
}

void Player::Issue(const Event& event) {
  const auto& [v, iteration] = event;
  Instance* value = Value(v, iteration);
  value->made = true;
  value->last_read = std::max(value->last_read, cycle_);
  living_.emplace_back(v, iteration);
  if (iteration < 0) return;
  const GraphOp& op = g_.ops[v];
  issued_[v][static_cast<size_t>(iteration)] = cycle_;
  Occupy(&issuing_[at_[v].role], op.issue, 1, "issue", op.name);
  for (const UnitUse& use : op.uses) {
    if (g_.units[use.unit].fluid) continue;
    Occupy(&busy_[use.unit], use.cycles, g_.units[use.unit].capacity, "unit", op.name);
    if (use.cycles > 0) log_[use.unit].emplace_back(cycle_, v);
  }
  for (int i : inputs_[v]) {
    const GraphEdge& e = g_.edges[i];
    if (e.kind == EdgeKind::kOrder) continue;
    Instance* read = Value(e.from, iteration - e.distance);
    if (read == nullptr) continue;
    --read->readers;
    read->last_read = std::max(read->last_read, cycle_ + e.hold);
  }
}

void Player::Step() {
  std::vector<Event>& events = events_[static_cast<size_t>(cycle_ - start_)];
  if (events.empty()) return;
  // What issues in one cycle does so in any order in which each finds what it needs.
  const char* why = "";
  int culprit = -1;
  while (!events.empty()) {
    std::vector<Event> waiting;
    for (const Event& event : events) {
      const State state = Ready(event, &why, &culprit);
      if (state == State::kBroken)
        Fail(why,
             fmt::format("{} of iteration {} issues at cycle {}, too early after {}",
                         g_.ops[event.first].name, event.second, cycle_, g_.ops[culprit].name));
      if (state == State::kBlocked)
        waiting.push_back(event);
      else
        Issue(event);
    }
    if (waiting.size() == events.size()) {
      for (const Event& event : waiting) {
        (void)Ready(event, &why, &culprit);
        const bool together = std::any_of(waiting.begin(), waiting.end(), [&](const Event& e) {
          return e.first == culprit && e.first != event.first;
        });
        Fail(together ? "liveness" : why,
             fmt::format("{} of iteration {} cannot issue at cycle {} because of {}",
                         g_.ops[event.first].name, event.second, cycle_, g_.ops[culprit].name));
      }
      return;
    }
    events = std::move(waiting);
  }
  Count();
}

void Player::Count() {
  std::vector<Event> living;
  std::vector<int64_t> regs(s_.roles.size(), 0);
  int64_t columns = 0;
  for (const Event& event : living_) {
    if (Value(event.first, event.second)->DeadAt(cycle_)) continue;
    living.push_back(event);
    regs[at_[event.first].role] += g_.ops[event.first].regs;
    columns += g_.ops[event.first].tmem_columns;
  }
  living_ = std::move(living);
  report_.tmem_columns = std::max(report_.tmem_columns, columns);
  if (columns > g_.machine.tmem_columns)
    Fail("tmem", fmt::format("{} columns at cycle {}", columns, cycle_));
  for (size_t r = 0; r < regs.size(); ++r) {
    report_.role_regs[r] = std::max(report_.role_regs[r], regs[r]);
    const int64_t quota = s_.roles[r].regs;
    if (regs[r] > g_.machine.max_regs_per_thread || (quota > 0 && regs[r] > quota))
      Fail("registers",
           fmt::format("{} in role {} at cycle {}", regs[r], s_.roles[r].name, cycle_));
  }
}

}  // namespace tilec::scheduler
