// What happened in launches, in the order the emulator executed it: every judged instruction, and
// when asynchronous copies landed. A page shows the stretch of it in which two accesses came to be
// unordered (tools/check_page.h).
//
// Only the last kMost events are kept; their numbers go on.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "runtime/emulator/judge/finding.h"

namespace tilec::runtime::judge {

struct TraceEvent {
  uint32_t launch = 0;
  uint32_t warp = 0;  // of the cluster
  uint64_t cluster = 0;
  uint32_t pc = 0;
  uint8_t lane = 0;    // the first of them
  bool lands = false;  // the copy that was issued there has arrived
};

struct Trace {
  static constexpr size_t kMost = 1 << 18;
  using Warp = std::pair<uint64_t, uint32_t>;  // cluster, warp of it

  std::deque<TraceEvent> events;
  uint64_t first = 0;  // number of events.front()
  uint32_t launches = 0;
  std::map<std::pair<uint32_t, uint32_t>, Site> sites;  // by launch and pc
  std::map<Warp, std::string> names;                    // "CTA (0,0,0), warp 3 (load)"

  uint64_t next() const { return first + events.size(); }
  void Add(const TraceEvent& e) {
    if (events.size() == kMost) events.pop_front(), ++first;
    events.push_back(e);
  }
};

}  // namespace tilec::runtime::judge
