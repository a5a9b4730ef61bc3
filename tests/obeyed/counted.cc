// SPDX-License-Identifier: Apache-2.0
#include "tests/obeyed/counted.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

namespace tilec::obeyed {

namespace {

std::set<Loc> Places(const Code& code, const std::set<int>& blocks) {
  std::set<Loc> places;
  for (int b : blocks)
    for (int i : code.blocks()[static_cast<size_t>(b)].instrs)
      if (const Event e = code.EventOf(i);
          e.kind == Event::Kind::kProduct || e.kind == Event::Kind::kCopy)
        places.insert(e.at);
  return places;
}

// Places of the loop in blocks that dominate it.
size_t InFront(const Code& code, const Loop& loop) {
  std::set<int> before;
  for (size_t b = 0; b < code.blocks().size(); ++b)
    if (!loop.blocks.count(static_cast<int>(b)) && code.Dominates(static_cast<int>(b), loop.header))
      before.insert(static_cast<int>(b));
  size_t n = 0;
  const std::set<Loc> inside = Places(code, loop.blocks);
  for (const Loc& at : Places(code, before)) n += inside.count(at);
  return n;
}

}  // namespace

std::vector<const Loop*> SteadyLoops(const Code& code, int warp) {
  const std::set<int> reached = code.ReachedBy(warp);
  std::map<std::set<Loc>, const Loop*> best;
  std::vector<const Loop*> found;
  for (const Loop& loop : code.loops()) {
    if (loop.spin || !reached.count(loop.header)) continue;
    const std::set<Loc> places = Places(code, loop.blocks);
    const bool outer = std::any_of(found.begin(), found.end(), [&](const Loop* inner) {
      return loop.blocks.count(inner->header) > 0;
    });
    if (places.empty() || outer) continue;
    found.push_back(&loop);
    const auto [it, fresh] = best.try_emplace(places, &loop);
    if (!fresh && InFront(code, loop) > InFront(code, *it->second)) it->second = &loop;
  }
  std::vector<const Loop*> loops;
  for (const auto& [places, loop] : best) loops.push_back(loop);
  return loops;
}

std::optional<Iteration> CountIteration(const Code& code, const Loop& loop, int warp) {
  const std::vector<std::vector<Event>> ways = code.Turns(loop, warp);
  if (ways.empty()) return std::nullopt;
  const std::vector<Event>& shortest = *std::min_element(
      ways.begin(), ways.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  Iteration n;
  n.instructions = static_cast<int>(shortest.size());
  for (const Event& e : shortest) {
    n.products += e.kind == Event::Kind::kProduct;
    n.copies += e.kind == Event::Kind::kCopy;
    n.full += e.kind == Event::Kind::kFull;
    n.mma += e.kind == Event::Kind::kWait;
    // The threads of one warp meet for nothing.
    n.sync +=
        e.kind == Event::Kind::kSync && !code.instrs()[static_cast<size_t>(e.instr)].s->Has("warp");
  }
  return n;
}

double CopiesAmong(const Code& code, const std::vector<int>& there, const std::vector<int>& turn) {
  // As many copies of one as of all, in whole numbers.
  const auto by_opcode = [&](const std::vector<int>& instrs, size_t times) {
    std::map<std::string, size_t> counts;
    for (int i : instrs) {
      const emu::Statement& s = *code.instrs()[static_cast<size_t>(i)].s;
      std::string opcode(s.opcode);
      for (std::string_view mod : s.mods) opcode.append(".").append(mod);
      counts[opcode] += times;
    }
    return counts;
  };
  const double copies = static_cast<double>(there.size()) / static_cast<double>(turn.size());
  const bool whole =
      there.empty() || by_opcode(there, turn.size()) == by_opcode(turn, there.size());
  return whole ? copies : std::floor(copies) + 0.5;
}

size_t TurnsTogether(const std::vector<std::vector<size_t>>& ops) {
  std::map<size_t, size_t> whose;
  for (size_t o = 0; o < ops.size(); ++o)
    for (size_t at : ops[o]) whose[at] = o;
  std::vector<size_t> places(ops.size());
  size_t last = ops.size();
  for (const auto& [at, o] : whose) {
    places[o] += o != last;
    last = o;
  }
  std::map<size_t, size_t> votes;
  size_t most = 1;
  for (size_t o = 0; o < ops.size(); ++o)
    if (places[o] > 0) ++votes[places[o]];
  for (const auto& [n, ops_there] : votes)
    if (ops_there > votes[most]) most = n;
  return most;
}

size_t MiddleOf(const std::vector<size_t>& at, size_t together) {
  const size_t middle = at[at.size() / 2];
  if (together < 2 || at.size() < together) return middle;
  // Between turns are the widest gaps.
  std::vector<size_t> gaps(at.size() - 1), ends;
  std::iota(gaps.begin(), gaps.end(), size_t{0});
  const auto width = [&](size_t g) { return at[g + 1] - at[g]; };
  std::stable_sort(gaps.begin(), gaps.end(),
                   [&](size_t a, size_t b) { return width(a) > width(b); });
  if (together <= gaps.size() && width(gaps[together - 2]) == width(gaps[together - 1]))
    return middle;  // which they are is not told
  for (size_t i = 0; i + 1 < together; ++i) ends.push_back(gaps[i] + 1);
  ends.push_back(at.size());
  std::sort(ends.begin(), ends.end());
  bool same = true;
  for (size_t i = 1; i < together; ++i) same = same && ends[i] - ends[i - 1] == ends[0];
  const size_t begin = ends[together / 2 - 1], end = ends[together / 2];
  if (same) return middle;
  return at[together % 2 == 0 ? begin : begin + (end - begin) / 2];  // as of an op that is whole
}

}  // namespace tilec::obeyed
