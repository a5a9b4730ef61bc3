// Findings of a launch: each place once, with how often it was seen, and what order between CTAs is
// known.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/launch_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

bool LaunchJudge::First(Rule rule, uint32_t a, uint32_t b) {
  auto it = index_.find({rule, a, b});
  if (it == index_.end()) return true;
  ++findings_[it->second].count;
  return false;
}

size_t LaunchJudge::PlaceOf(uint32_t pc) {
  if (pc >= place_of_.size()) place_of_.resize(pc + 1, 0);
  if (place_of_[pc] == 0) place_of_[pc] = ++places_;
  return place_of_[pc] - 1;
}

void LaunchJudge::Say(Finding f, uint32_t a, uint32_t b) {
  if (full()) return;  // marks are missing: what they say is not to be trusted
  if (findings_.size() >= kMostFindings) {
    ++dropped_;
    return;
  }
  for (Access& access : f.accesses) {
    unsigned long long begin = 0, end = 0;
    if (object && std::sscanf(access.memory.c_str(), "shared [%llu, %llu)", &begin, &end) == 2)
      access.object = object(begin, end);
  }
  index_[{f.rule, a, b}] = findings_.size();
  if (trace != nullptr) f.at = trace->next();
  findings_.push_back(std::move(f));
}

void LaunchJudge::Spend(Rule rule, uint32_t pc, const Spender& by, uint64_t took, uint64_t needed) {
  Cost& c = costs_[{rule, pc}];
  if (took > needed && c.took <= c.needed)
    c.cluster = by.cluster, c.warp = by.warp, c.lanes = by.lanes;
  ++c.times;
  c.took += took, c.needed += needed;
  if (took > needed) c.worst = std::max(c.worst, took - needed);
}

void LaunchJudge::Happens(TraceEvent e, const std::function<std::string()>& name) {
  if (trace == nullptr) return;
  e.launch = trace_launch;
  auto [it, added] = trace->names.emplace(Trace::Warp{e.cluster, e.warp}, "");
  if (added) it->second = name();
  if (e.pc >= traced_.size()) traced_.resize(e.pc + 1, 0);
  if (!traced_[e.pc]) traced_[e.pc] = 1, trace->sites[{trace_launch, e.pc}] = site(e.pc);
  trace->Add(e);
}

void LaunchJudge::Flush() {
  for (const auto& [key, cost] : costs_) {
    if (!Wasteful(key.first, cost)) continue;
    Finding f;
    f.rule = key.first;
    f.severity = Def(f.rule).severity;
    f.entry = entry;
    f.seed = seed;
    f.message = CostMessage(key.first, cost);
    f.fix = CostFix(key.first);
    Access a;
    a.site = site(key.second);
    a.pc = key.second;
    f.accesses.push_back(std::move(a));
    findings_.push_back(std::move(f));
  }
  costs_.clear();
  std::erase_if(findings_, [&](const Finding& f) {
    return !f.accesses.empty() && effects_.count({f.rule, f.accesses[0].pc}) > 0;
  });
  if (dropped_ > 0 && !findings_.empty())
    findings_.back().notes.push_back(
        fmt::format("{} more findings of this launch were not kept", dropped_));
  for (Finding& f : findings_) report->Add(std::move(f));
  findings_.clear();
  index_.clear();
}

}  // namespace tilec::runtime::judge
