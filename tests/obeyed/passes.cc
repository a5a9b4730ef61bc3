// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tilec::obeyed {
namespace {

bool Innermost(const Code& code, const Loop& loop) {
  return std::none_of(code.loops().begin(), code.loops().end(), [&](const Loop& inner) {
    return !inner.spin && inner.header != loop.header && loop.blocks.count(inner.header);
  });
}

// What a compute role does with barriers and shared memory in its innermost loops.
struct Dealings {
  std::map<int64_t, std::set<Loc>> arrived, awaited;
  std::set<Loc> stored, loaded;
};

Dealings DealingsOf(const Code& code, const std::set<int>& reached) {
  Dealings out;
  for (const Loop& loop : code.loops()) {
    if (loop.spin || !reached.count(loop.header) || !Innermost(code, loop)) continue;
    for (int b : loop.blocks)
      for (int i : code.blocks()[static_cast<size_t>(b)].instrs) {
        const Event e = code.EventOf(i);
        const emu::Statement& s = *code.instrs()[static_cast<size_t>(i)].s;
        if (e.kind == Event::Kind::kArrive) out.arrived[e.number].insert(e.at);
        if (e.kind == Event::Kind::kFull) out.awaited[e.number].insert(e.at);
        const bool shared = s.Has("shared") || s.Has("shared::cta");
        if (s.opcode == "stmatrix" || (s.opcode == "st" && shared)) out.stored.insert(e.at);
        if (s.opcode == "ldmatrix" || (s.opcode == "ld" && shared)) out.loaded.insert(e.at);
      }
  }
  return out;
}

}  // namespace

// The one role stores and arrives at the full barrier, the other awaits it and loads, all for the
// op that makes the tile. That may be the last of several which are one op of the schedule, so that
// the places differ: such a pass gets the ring that is left.
std::vector<Bytes> RingsOfPasses(const Code& code, const std::map<int, std::set<int>>& reached,
                                 const std::vector<Pass>& passes,
                                 std::vector<std::string>* faults) {
  std::map<int, Dealings> of;
  std::set<int64_t> bases;
  for (const auto& [role, blocks] : reached) {
    const Dealings& d = of[role] = DealingsOf(code, blocks);
    for (const auto* events : {&d.arrived, &d.awaited})
      for (const auto& [byte, at] : *events) bases.insert(byte);
  }
  std::map<std::pair<int, int>, std::map<int64_t, Loc>> rings;
  for (const auto& [from, put] : of)
    for (const auto& [to, take] : of)
      for (const auto& [byte, places] : put.arrived) {
        const auto there = take.awaited.find(byte);
        if (from == to || there == take.awaited.end()) continue;
        for (Loc at : places)
          if (there->second.count(at) && put.stored.count(at) && take.loaded.count(at))
            rings[{from, to}][byte] = at;
      }
  std::vector<Bytes> found(passes.size());
  const auto claim = [&](size_t p, std::map<int64_t, Loc>& from, int64_t byte) {
    const auto next = bases.upper_bound(byte);
    found[p] = {byte, next == bases.end() ? byte + 8 : *next};
    from.erase(byte);
  };
  std::map<std::pair<int, int>, std::vector<size_t>> open;
  for (size_t p = 0; p < passes.size(); ++p) {
    auto& between = rings[{passes[p].from, passes[p].to}];
    const auto same = [&](const auto& ring) { return ring.second == passes[p].at; };
    if (std::count_if(between.begin(), between.end(), same) == 1)
      claim(p, between, std::find_if(between.begin(), between.end(), same)->first);
    else
      open[{passes[p].from, passes[p].to}].push_back(p);
  }
  for (const auto& [ways, without] : open) {
    auto& left = rings[ways];
    if (left.size() < without.size())
      faults->push_back(
          fmt::format("{} tiles go from role {} to role {} through {} rings, one made at {}:{}",
                      without.size(), ways.first, ways.second, left.size(),
                      passes[without[0]].at.line, passes[without[0]].at.column));
    else if (without.size() == 1 && left.size() == 1)
      claim(without[0], left, left.begin()->first);
  }
  return found;
}

}  // namespace tilec::obeyed
