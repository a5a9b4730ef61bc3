// Tensor memory, where something ends: fences, commits, arrivals that tell of them, columns given
// back, warps that leave. T2, T4 to T7, T12, T15 (checks.def). The model is in tensor.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/judge.h"

#include <fmt/format.h>

namespace tilec::runtime::judge {

// A value that is used has come: loads all of whose registers were read are complete.
void Judge::LoadedRegisters(uint32_t warp, uint32_t pc) {
  const RegisterMap& map = *launch_->loaded;
  WarpState& w = warps_[warp];
  if (w.unread.empty()) return;
  for (uint32_t k = map.first[pc]; k < map.first[pc + 1]; ++k) {
    if (map.uses[k].kind != RegisterUse::Kind::kRead) continue;
    Epoch& load = w.loading[map.uses[k].reg];
    auto it = w.unread.find(load);
    load = 0;
    if (it != w.unread.end() && it->second > 0) --it->second;
  }
  Epoch complete = 0;
  while (!w.unread.empty() && w.unread.begin()->second == 0) {
    complete = w.unread.begin()->first;
    w.unread.erase(w.unread.begin());
  }
  if (complete != 0) TensorLearn(warp, w.loads, complete);
}

void Judge::TensorFence(uint32_t warp, uint32_t lanes, bool after) {
  WarpState& w = warps_[warp];
  bool news = false;
  for (const LaneGroup& g : w.agent.groups()) {
    if ((g.lanes & lanes) == 0) continue;
    news = news || (after ? !g.tensor_after.Covers(g.view.tensor)
                          : g.view.tensor.At(w.loads.component) < w.loads.waited ||
                                g.view.tensor.At(w.stores.component) < w.stores.waited);
  }
  if (!news) return;
  w.agent.Split(lanes);
  for (LaneGroup& g : w.agent.groups()) {
    if ((g.lanes & lanes) == 0) continue;
    if (after) {
      g.tensor_after.Join(g.view.tensor);
      continue;
    }
    if (w.loads.component != 0) g.view.tensor.Raise(w.loads.component, w.loads.waited);
    if (w.stores.component != 0) g.view.tensor.Raise(w.stores.component, w.stores.waited);
  }
}

Judge::TensorMessage Judge::TensorCommit(uint32_t warp, int lane, uint32_t pc) {
  Executes(warp, pc, lane);
  TensorIssuer& i = warps_[warp].tensor[lane];
  if (i.component == 0)
    i.component = NewComponent(ComponentInfo::Kind::kTensor, warp, static_cast<uint32_t>(lane));
  if (i.work != 0)
    launch_->HadEffect(Rule::kT15, pc);
  else
    Say(Rule::kT15, Severity::kHint, {warp, 1u << lane, pc},
        "a commit by a thread that has issued no tcgen05 operation: the arrival comes at once",
        "let the thread that issues the operations commit them");
  TensorMessage m;
  Agent& agent = warps_[warp].agent;
  m.view = agent.GroupOf(lane).view;
  m.issuer = i.component;
  m.number = ++i.issued;
  m.warp = warp, m.lane = static_cast<uint32_t>(lane), m.pc = pc;
  // Its own loads and stores are nothing that a commit waits for.
  for (Clock* c : {&m.view.generic, &m.view.scoped, &m.view.async, &m.view.async_global}) {
    c->Forget(agent.self());
    if (agent.lane(lane) != 0) c->Forget(agent.lane(lane));
  }
  m.view.Raise(m.issuer, m.number);
  m.view.tensor.Raise(m.issuer, m.number);
  return m;
}

void Judge::TensorCommitTo(const TensorMessage& m, uint32_t rank, uint32_t offset) {
  Barrier& b = BarrierAt(rank, offset);
  if (rank != RankOf(m.warp)) {
    CheckPeer(m.warp, 1u << m.lane, m.pc, rank);
    UsePeer(m.warp, rank, {1u << m.lane, m.pc, 0, m.issuer, m.number});
  }
  CheckInit(b, m.warp, 1u << m.lane, m.pc, rank, offset);
  b.committer = m.issuer;
  b.commit = m.number;
  b.commit_pc = m.pc;
}

void Judge::TensorArrive(const TensorMessage& m, uint32_t rank, uint32_t offset) {
  Barrier& b = BarrierAt(rank, offset);
  if (b.phases > b.observed && launch_->First(Rule::kS4, m.pc, 0)) {
    Finding f = Begin(Rule::kS4, m.pc, m.warp, 1u << m.lane);
    f.message = fmt::format(
        "a commit arrives in phase {} of the mbarrier at shared offset {}, and "
        "no wait has seen phase {} complete",
        b.phases, offset, b.phases - 1);
    f.missing =
        fmt::format("a successful wait on phase {} (parity {})", b.phases - 1, (b.phases - 1) & 1);
    f.fix = "wait for every phase before the next commit arrives";
    launch_->Say(std::move(f), m.pc, 0);
  }
  b.commit_phases = b.phases + 1;
  View seen = m.view;
  if (rank != RankOf(m.warp)) {
    b.far_pending.Join(seen.scoped);
    seen.scoped.Clear();
  }
  b.pending.Join(seen);
}

void Judge::TensorFree(uint32_t warp, uint32_t pc, uint32_t rank, uint32_t column,
                       uint32_t columns) {
  auto& shadow = tensor_[rank];
  if (shadow == nullptr) return;
  auto known = [&](const TensorMark& m) {
    for (const LaneGroup& g : warps_[warp].agent.groups())
      if (g.view.generic.At(m.component) < m.number && g.view.tensor.At(m.component) < m.number)
        return false;
    return true;
  };
  for (uint32_t c = column; c < column + columns; ++c)
    for (uint32_t l = 0; l < TensorShadow::kGroups; ++l) {
      TensorCell& cell = shadow->at(l, c);
      std::vector<std::pair<TensorMark, bool>> marks;
      if (cell.has_write) marks.emplace_back(cell.write, true);
      for (const TensorMark& r : cell.reads) marks.emplace_back(r, false);
      cell = {};
      for (const auto& [m, writes] : marks) {
        if (known(m) || !launch_->First(Rule::kT2, pc, m.pc)) continue;
        Finding f = Begin(Rule::kT2, pc, warp);
        // Over before its thread came to the cluster barrier, and that arrival was relaxed.
        const bool met = met_[rank].At(m.component) >= m.number;
        if (met) f.severity = Severity::kPortability;
        f.accesses[0].what = "gives back";
        f.accesses[0].memory =
            fmt::format("tensor memory, columns [{}, {})", column, column + columns);
        Access other;
        other.who = TensorActor(m);
        other.what = writes ? "writes" : "reads";
        other.memory = fmt::format("tensor memory, column {}", c);
        other.site = launch_->site(m.pc);
        f.accesses.push_back(std::move(other));
        f.message = fmt::format("columns [{}, {}) are given back, and {} is not known to be over",
                                column, column + columns, TensorActor(m));
        f.missing = TensorMissing(m) + ", seen by " + Who(warp);
        f.fix =
            met ? "put `barrier.cluster.arrive` in place of `barrier.cluster.arrive.relaxed`"
                : "put a barrier that the users of tensor memory take part in before the dealloc";
        launch_->Say(std::move(f), pc, m.pc);
      }
    }
}

void Judge::TensorFresh(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank,
                        const std::string& what) {
  Say(Rule::kT7, Severity::kError, {warp, lanes, pc},
      fmt::format("{} reads {}{}, which nobody has written", Who(warp, lanes), what,
                  scoped_ ? fmt::format(" of rank {}", rank) : ""),
      "let the first product of a sum not add to D, and store what is loaded");
}

// The most that anybody of a CTA knows of a component.
Epoch Judge::TensorKnown(uint32_t rank, Component c) const {
  Epoch known = 0;
  const uint32_t first = rank * shape_.warps_per_cta;
  for (uint32_t w = first; w < first + shape_.warps_per_cta; ++w)
    for (const LaneGroup& g : warps_[w].agent.groups())
      known = std::max({known, g.view.generic.At(c), g.view.tensor.At(c)});
  return known;
}

void Judge::TensorExit(uint32_t rank, uint32_t pc) {
  auto say = [&](uint32_t at, uint32_t warp, const std::string& what, const std::string& fix,
                 bool known = false) {
    if (!launch_->First(Rule::kT12, at, known ? 1 : 0)) return;
    Finding f = Begin(Rule::kT12, at, warp);
    if (known) f.severity = Severity::kPortability;
    f.accesses[0].what = "issues";
    Access exit;
    exit.who = Who(rank * shape_.warps_per_cta);
    exit.what = "exits";
    exit.site = launch_->site(pc);
    f.accesses.push_back(std::move(exit));
    f.message = "the CTA exits while " + what;
    f.missing = fix;
    f.fix = fix;
    launch_->Say(std::move(f), at, known ? 1 : 0);
  };
  const uint32_t first = rank * shape_.warps_per_cta;
  for (uint32_t w = first; w < first + shape_.warps_per_cta; ++w) {
    for (const auto& [lane, i] : warps_[w].tensor)
      if (i.work > TensorKnown(rank, i.component))
        say(i.pc, w, "a tcgen05 operation may be under way",
            "commit it, and wait for the mbarrier before the last warp exits");
    for (const TensorStream* s : {&warps_[w].loads, &warps_[w].stores})
      if (s->issued > s->waited)
        say(s->pc, w, "a load or store of tensor memory may be under way",
            s == &warps_[w].loads ? "`tcgen05.wait::ld`" : "`tcgen05.wait::st`");
  }
  for (const auto& [key, b] : barriers_) {
    if (key >> 32 != rank || b.commit == 0 || !b.live) continue;
    // A later commit tells that the operations are complete. That the arrival of this one is over,
    // too, is told by its own phase alone: nothing promises that arrivals come in order.
    const bool known = b.commit <= TensorKnown(rank, b.committer);
    if (known && b.observed >= b.commit_phases) continue;
    say(b.commit_pc, components_[b.committer].owner,
        fmt::format("the arrival of a commit at the mbarrier at shared offset {} may be under way",
                    key & 0xffffffff),
        "wait for the phase that the arrival completes before the last warp exits", known);
  }
}

}  // namespace tilec::runtime::judge
