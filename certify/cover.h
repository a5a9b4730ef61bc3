// Overflows of memories that are counted, as claims that can be checked by adding up. A cover says:
// these live values, at the definition of that op, take more than there is. The clause made of it
// holds in every schedule: one of the values has fewer live instances there, or is elsewhere.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/graph.h"

namespace tilec::certify {

struct LivePart {
  int op = 0;
  int64_t count = 0;  // live instances
};
// Values of one role (registers), or of all (tensor memory), live when `at` issues.
struct Peak {
  int at = 0;
  std::vector<LivePart> parts;
};
struct Cover {
  enum class Kind { kRegisters, kTmem, kPool };
  Kind kind = Kind::kRegisters;
  // One peak; kPool: one for each role (all in different ones) whose quota is more than the least.
  std::vector<Peak> peaks;
  // kPool: how many roles of each width there are (in the order of Widths), and whether the quotas
  // overflow with more roles as well.
  std::vector<int> roles;
  bool or_more = false;
};

// `registers 3=1:2,4:1`, `tmem 5=5:1`, `pool 2,1 more 3=1:2 7=6:1`: the op at which, = the values
// and how many of each. Nothing for what cannot be read.
std::string ToText(const Cover& cover);
std::optional<Cover> ParseCover(std::string_view text);

// Empty where the sums overflow as claimed; else why not.
std::string Problem(const scheduler::Graph& graph, const Cover& cover);

// A schedule, as an assignment of the clauses gives it.
struct Placement {
  std::vector<int64_t> cycle;
  std::vector<int> role;      // −1: the load role; others numbered within their width
  std::vector<bool> present;  // ops of routes may not exist
};
// An overflow in it, or nothing. For whoever looks for a refutation; nothing rests on it.
std::optional<Cover> FindCover(const scheduler::Graph& graph, int64_t ii, const Placement& p,
                               Cover::Kind kind);

}  // namespace tilec::certify
