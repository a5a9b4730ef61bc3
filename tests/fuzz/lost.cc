// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/lost.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace tilec::fuzz {

namespace {

// Loads that rings of the plan bring: names behind `loads=` of its `site` records.
size_t LoadsInRings(const std::string& plan) {
  size_t loads = 0;
  std::istringstream lines(plan);
  for (std::string line; std::getline(lines, line);) {
    const size_t site = line.find("site "), at = line.find(" loads=");
    if (site == line.npos || at == line.npos || line.find_first_not_of(' ') != site) continue;
    const std::string names = line.substr(at + 1, line.find(' ', at + 1) - at - 1);
    loads += 1 + static_cast<size_t>(std::count(names.begin(), names.end(), ','));
  }
  return loads;
}

}  // namespace

size_t RingsOf(const api::Lowered& lowered) {
  size_t rings = 0;
  for (const scheduler::LoopReport& loop : lowered.schedule.loops)
    for (const ir::Channel& channel : loop.solution.schedule.channels)
      rings += loop.applied && channel.depth > 1 && channel.value.rfind("load", 0) == 0 &&
               channel.value.find("smem") == std::string::npos;
  return rings;
}

std::string LostInSilence(const api::Lowered& lowered, const std::string& plan,
                          const std::set<std::string>& said) {
  const std::vector<scheduler::LoopReport>& loops = lowered.schedule.loops;
  const auto idle = [](const scheduler::LoopReport& loop) { return loop.idle; };
  if (!loops.empty() && std::all_of(loops.begin(), loops.end(), idle)) return "";
  if (!lowered.by_schedule) return said.count("R587") || said.count("R572") ? "" : "the schedule";
  for (const scheduler::LoopReport& loop : loops)
    if (!loop.applied && !loop.idle && !said.count("R572")) return "the schedule of a loop";
  const size_t rings = RingsOf(lowered);
  if (LoadsInRings(plan) >= rings || said.count("R607")) return "";
  return fmt::format("{} of {} rings", rings - LoadsInRings(plan), rings);
}

}  // namespace tilec::fuzz
