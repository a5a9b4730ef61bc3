// The wait-for report: who waits for what, what the object looks like now, and which lines last
// could have helped.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <map>

#include "runtime/emulator/handlers.h"

namespace tilec::runtime::emulator {
namespace {

// "the mbarrier at shared offset 64 (the full barriers of A)"
std::string BarrierName(const Cta& cta, uint32_t offset) {
  const std::string name = SharedName(*cta.cluster->launch, offset, offset + 8);
  return fmt::format("the mbarrier at shared offset {}{}", offset,
                     name.empty() ? "" : " (" + name + ")");
}

std::string DescribeBarrier(const Cta& cta, uint32_t offset) {
  auto it = cta.mbarriers.find(offset);
  if (it == cta.mbarriers.end()) return "which does not exist";
  const MBarrier& b = it->second;
  return fmt::format("which is in phase {} with {} of {} arrivals pending and tx {}", b.phase(),
                     b.pending(), b.expected(), b.tx());
}

std::string DescribeWait(const Warp& w, uint32_t pc, uint32_t mask, const Wait& wait) {
  const Cta& cta = *w.cta;
  const Launch& launch = *cta.cluster->launch;
  std::string where = launch.places->Describe(launch.program->code[pc].line);
  std::string who = "lanes " + fmt::format("{:#x}", mask);
  if (mask == w.live) who = "all lanes";
  switch (wait.kind) {
    case Wait::Kind::kNone:
    case Wait::Kind::kYielded:
    case Wait::Kind::kBehind: return who + " can run, at " + where;
    case Wait::Kind::kMBarrier:
      return fmt::format("{} wait for {} {} of {}, {}, at {}", who,
                         wait.token ? "the phase of token" : "the phase of parity", wait.value,
                         BarrierName(cta, wait.id), DescribeBarrier(cta, wait.id), where);
    case Wait::Kind::kNamedBarrier: {
      const NamedBarrier& b = cta.barriers[wait.id];
      std::string need = b.expected != 0 ? std::to_string(b.expected) : std::string("all");
      return fmt::format("{} wait at barrier {}, where {} of {} threads have arrived, at {}", who,
                         wait.id, b.arrived, need, where);
    }
    case Wait::Kind::kConverge:
    case Wait::Kind::kWarpSync:
      return fmt::format("{} wait for lanes {:#x} to come to the same instruction, at {}", who,
                         wait.id & w.live & ~mask, where);
    case Wait::Kind::kRegisters:
      return fmt::format("{} wait for {} registers of the CTA's pool, which has {}, at {}", who,
                         wait.value, cta.register_pool, where);
    case Wait::Kind::kWgmma: {
      uint32_t missing = ~cta.groups[wait.id].arrived & 15;
      return fmt::format(
          "{} wait for the warps {:#06b} of warpgroup {} to issue the same wgmma, at {}", who,
          missing, wait.id, where);
    }
    case Wait::Kind::kTensorColumns:
      return fmt::format("{} wait for {} columns of tensor memory, {} of {} are allocated, at {}",
                         who, wait.id, cta.tensor->memory.used(), kTensorColumns, where);
    case Wait::Kind::kTensorPair:
      return fmt::format("{} wait for a warp of the pair's other CTA to do the same, at {}", who,
                         where);
    case Wait::Kind::kClusterBarrier:
      return fmt::format("{} wait at the cluster barrier, where {} threads have arrived, at {}",
                         who, cta.cluster->barrier.arrived, where);
  }
  return who;
}

// What a warp is at now, in few words: its own line of the report says the rest.
std::string Now(const Warp& w) {
  if (w.done()) return "has ended";
  const Path* at = w.others.empty() ? nullptr : &w.others[0];
  const uint32_t pc = w.has_path || at == nullptr ? w.pc : at->pc;
  const Launch& launch = *w.cta->cluster->launch;
  return "is at " + launch.places->Describe(launch.program->code[pc].line);
}

// Who came to an mbarrier that somebody waits for, and who came to its last phase and not to this.
void Comings(const Cta& cta, uint32_t offset, std::vector<std::string>* notes) {
  const auto it = cta.mbarriers.find(offset);
  const auto log = cta.arrivals.find(offset);
  if (it == cta.mbarriers.end() || log == cta.arrivals.end()) return;
  const MBarrier& b = it->second;
  const Launch& launch = *cta.cluster->launch;
  const auto place = [&](uint32_t pc) {
    return launch.places->Describe(launch.program->code[pc].line);
  };
  const auto warp = [&](const Arrival& a) -> const Warp& {
    return cta.cluster->ctas[a.rank].warps[a.warp];
  };
  const auto describe = [&](const Arrival& a) {
    return fmt::format("{}, {} lane{}, at {}", WhoIs(warp(a)), std::popcount(a.lanes),
                       std::popcount(a.lanes) == 1 ? "" : "s", place(a.pc));
  };
  notes->push_back(fmt::format("{} of CTA ({},{},{}) counts {} arrival{}, as initialised at {}",
                               BarrierName(cta, offset), cta.id[0], cta.id[1], cta.id[2],
                               b.expected(), b.expected() == 1 ? "" : "s",
                               place(log->second.init_pc())));
  const std::vector<Arrival>& now = log->second.In(b.phase());
  constexpr size_t kMost = 4;
  if (now.empty()) notes->push_back(fmt::format("nobody has arrived in its phase {}", b.phase()));
  for (size_t k = 0; k < now.size() && k < kMost; ++k)
    notes->push_back(fmt::format("arrived in its phase {}: {}", b.phase(), describe(now[k])));
  if (b.phase() == 0 || b.pending() == 0) return;
  size_t said = 0;
  for (const Arrival& a : log->second.In(b.phase() - 1)) {
    uint32_t came = 0;
    for (const Arrival& n : now) came |= n.Same(a) ? n.lanes : 0;
    if ((a.lanes & ~came) == 0 || ++said > kMost) continue;
    notes->push_back(fmt::format("arrived in its phase {} and not in {}: {}; that warp {}",
                                 b.phase() - 1, b.phase(), describe(a), Now(warp(a))));
  }
}

// Who has not come to a named barrier of all threads.
void Absent(const Cta& cta, uint32_t id, std::vector<std::string>* notes) {
  constexpr int kMost = 4;
  int said = 0;
  for (const Warp& w : cta.warps) {
    const bool here = std::any_of(w.others.begin(), w.others.end(), [&](const Path& p) {
      return p.wait.kind == Wait::Kind::kNamedBarrier && p.wait.id == id;
    });
    if (here || said++ >= kMost) continue;
    notes->push_back(fmt::format("not at barrier {}: {}, which {}", id, WhoIs(w), Now(w)));
  }
  if (said > kMost)
    notes->push_back(fmt::format("not at barrier {}: {} more warps", id, said - kMost));
}

// Do the lanes that the path waits for stand at another collective themselves? Then neither side
// can ever go on, and no other warp is to blame.
bool LanesApart(const Warp& w, const Path& p) {
  if (p.wait.kind != Wait::Kind::kConverge && p.wait.kind != Wait::Kind::kWarpSync) return false;
  uint32_t missing = p.wait.id & w.live & ~p.mask;
  for (const Path& q : w.others) {
    const Wait::Kind kind = q.wait.kind;
    if (q.pc != p.pc && (kind == Wait::Kind::kConverge || kind == Wait::Kind::kWarpSync ||
                         kind == Wait::Kind::kNamedBarrier))
      missing &= ~q.mask;
  }
  return missing == 0;
}

// Who waits for what.
struct Waits {
  uint32_t live = 0, waiting = 0;
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // reason → warps
  std::map<std::string, size_t> index;
  // Of the first that waits at all, at the cluster's barrier, for registers.
  int line = 0, cluster_line = 0, registers_line = 0;
  // First pc of lanes that wait for lanes of their warp at another collective.
  uint32_t apart = ~0u;

  void Add(const Warp& w, const std::string& why) {
    auto [it, added] = index.emplace(why, groups.size());
    if (added) groups.emplace_back(why, std::vector<std::string>());
    groups[it->second].second.push_back(WhoIs(w));
  }
};

Waits WaitsOf(const Cluster& cluster) {
  Waits found;
  const std::vector<Inst>& code = cluster.launch->program->code;
  for (const Cta& cta : cluster.ctas) {
    for (const Warp& w : cta.warps) {
      if (w.done()) continue;
      ++found.live;
      bool waits = false;
      for (const Path& p : w.others) {
        if (p.wait.kind == Wait::Kind::kNone || p.wait.kind == Wait::Kind::kYielded ||
            p.wait.kind == Wait::Kind::kBehind)
          continue;
        waits = true;
        // Whoever waits at the cluster barrier waits for threads that wait for something else:
        // those that have left count as arrived.
        int& here = p.wait.kind == Wait::Kind::kClusterBarrier ? found.cluster_line : found.line;
        if (here == 0) here = code[p.pc].line;
        if (LanesApart(w, p)) found.apart = std::min(found.apart, p.pc);
        if (p.wait.kind == Wait::Kind::kRegisters && found.registers_line == 0)
          found.registers_line = code[p.pc].line;
        found.Add(w, DescribeWait(w, p.pc, p.mask, p.wait));
      }
      if (w.polls > 0) {
        Wait poll;
        poll.kind = Wait::Kind::kMBarrier;
        poll.id = w.poll_id;
        poll.value = w.poll_value;
        waits = true;
        uint32_t pc = w.has_path ? w.pc : w.others.empty() ? 0 : w.others[0].pc;
        if (found.line == 0) found.line = code[pc].line;
        found.Add(w, "polling: " + DescribeWait(w, pc, w.has_path ? w.active : w.live, poll));
      }
      if (waits) ++found.waiting;
    }
  }
  return found;
}

// How far the barriers are that somebody waits for, and who has not come.
void NoteBarriers(const std::vector<Cta>& ctas, std::vector<std::string>* notes) {
  for (const Cta& cta : ctas) {
    std::map<uint32_t, bool> barriers, named;  // that somebody waits for
    for (const Warp& w : cta.warps) {
      if (w.polls > 0 && !w.done()) barriers[w.poll_id] = true;
      for (const Path& p : w.others) {
        if (p.wait.kind == Wait::Kind::kMBarrier) barriers[p.wait.id] = true;
        if (p.wait.kind == Wait::Kind::kNamedBarrier) named[p.wait.id] = true;
      }
    }
    for (const auto& [offset, waited] : barriers)
      if (notes->size() < 32) Comings(cta, offset, notes);
    for (const auto& [id, waited] : named)
      if (notes->size() < 32) Absent(cta, id, notes);
  }
  // Barriers that are almost there are the interesting ones.
  for (const Cta& cta : ctas)
    for (const auto& [offset, b] :
         std::map<uint32_t, MBarrier>(cta.mbarriers.begin(), cta.mbarriers.end()))
      if (b.valid() && (b.tx() != 0 || (b.pending() != b.expected())) && notes->size() < 40)
        notes->push_back(fmt::format(
            "CTA ({},{},{}): {} is in the middle of phase {}: {} of {} arrivals pending, tx {}",
            cta.id[0], cta.id[1], cta.id[2], BarrierName(cta, offset), b.phase(), b.pending(),
            b.expected(), b.tx()));
}

}  // namespace

void Cluster::ReportDeadlock() {
  const Waits found = WaitsOf(*this);
  failed = true;
  fault = {};
  fault.def = &kDeadlock;
  fault.message = fmt::format(fmt::runtime(kDeadlock.format), found.waiting, found.live);
  fault.line = found.line != 0 ? found.line : found.cluster_line;
  if (found.registers_line !=
      0) {  // the pool can never give what is asked: the rest waits for that
    fault.rule = judge::Rule::kR1;
    fault.line = found.registers_line;
  }
  if (found.apart != ~0u) {
    fault.rule = judge::Rule::kS6;
    fault.line = launch->program->code[found.apart].line;
    fault.helps.push_back(
        "let all lanes of the warp come to the same instruction, or use `barrier` without "
        "`.aligned`");
  }
  constexpr size_t kMaxGroups = 24;
  for (size_t k = 0; k < found.groups.size() && k < kMaxGroups; ++k) {
    const auto& [why, warps] = found.groups[k];
    std::string who = warps[0];
    if (warps.size() > 1) who += fmt::format(" and {} more", warps.size() - 1);
    fault.notes.push_back(who + ": " + why);
  }
  if (found.groups.size() > kMaxGroups)
    fault.notes.push_back(
        fmt::format("{} further reasons are not shown", found.groups.size() - kMaxGroups));
  NoteBarriers(ctas, &fault.notes);
}

}  // namespace tilec::runtime::emulator
