// The laws of docs/scheduler.md §2 for one graph at one initiation interval, one row for each
// instance, with the words in which certificates name it. A refutation says which of them
// contradict each other; whoever checks it looks each name up here and writes the law down himself.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "certify/arcs.h"

namespace tilec::certify {

struct Law {
  enum class Kind {
    kApart,       // index: of the op; other: the other op
    kDependence,  // index: of the arc; so the next three
    kTransfer,
    kCarriedRole,
    kSameRole,
    kUnit,  // index: of the unit
    kIssue,
    kRegisters,
    kRegisterPool,
    kTmem,
    kSmem,
    kPinDepth,  // index: of the pin; so the next three
    kPinCycle,
    kPinStage,
    kPinRole,
    kIssueSum,  // some numbers of roles cannot issue all ops in a period: arithmetic
    kRoles,     // the numbers of roles that the machine's warps allow
  };
  Kind kind;
  int index = -1, other = -1;
  std::string name;  // as in scheduler/constraints.def
  std::string text;
  std::vector<int> ops;
};

std::vector<Law> Laws(const scheduler::Graph& graph, int64_t ii);

// A line of a core: `NAME OPS TEXT`, OPS as 3,4 or - for none.
std::string ToText(const Law& law);

// The laws that these lines name, in the order of Laws(). Where `problem` is not empty a line names
// none, two lines name the same, they are not in that order, or one that must be there is not.
struct Selection {
  std::vector<Law> laws;
  std::string problem;
};
Selection Select(const std::vector<Law>& laws, const std::vector<std::string>& lines);

}  // namespace tilec::certify
