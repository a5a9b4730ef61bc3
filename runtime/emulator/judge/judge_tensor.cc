// Tensor memory: T2, T4 to T7, T12, T15 (checks.def). The model is in tensor.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

namespace {

TensorAct ActOf(uint64_t key) { return static_cast<TensorAct>(key >> 56); }
uint64_t KeyOf(TensorAct act, uint64_t key) {
  return static_cast<uint64_t>(act) << 56 | (key & ((1ull << 56) - 1));
}

// Does the ISA promise that the second runs after the first, of one thread (9.7.16.6.2)?
bool Pipelined(uint64_t first, uint64_t second) {
  const TensorAct a = ActOf(first), b = ActOf(second);
  if (a == TensorAct::kMma && b == TensorAct::kMma) return first == second;
  if (b == TensorAct::kMma) return a == TensorAct::kCopy || a == TensorAct::kShift;
  return a == TensorAct::kMma && b == TensorAct::kShift;
}

const char* NameOf(TensorAct act) {
  switch (act) {
    case TensorAct::kMma: return "tcgen05.mma";
    case TensorAct::kCopy: return "tcgen05.cp";
    case TensorAct::kShift: return "tcgen05.shift";
    case TensorAct::kLoad: return "tcgen05.ld";
    case TensorAct::kStore: return "tcgen05.st";
  }
  return "";
}

std::string AreaName(const TensorArea& a, uint32_t column, bool named) {
  std::string s =
      fmt::format("tensor memory, lanes [{}, {}), column {}", a.lane, a.lane + a.lanes, column);
  return named ? s + fmt::format(" of rank {}", a.rank) : s;
}

}  // namespace

std::string Judge::TensorActor(const TensorMark& m) const {
  const ComponentInfo& c = components_[m.component];
  const bool thread = c.kind == ComponentInfo::Kind::kTensor;
  return fmt::format("{} {} of {}", NameOf(ActOf(m.key)), m.number,
                     Who(c.owner, thread ? 1u << c.value : 0));
}

std::string Judge::TensorMissing(const TensorMark& m) const {
  Mark mark;
  mark.component = m.component;
  mark.epoch = m.number;
  return CompletionOf(mark);
}

AsyncOp Judge::TensorOp(uint32_t warp, int lane, uint32_t pc, TensorAct, uint64_t) {
  Executes(warp, pc, lane);
  TensorIssuer& i = warps_[warp].tensor[lane];
  if (i.component == 0)
    i.component = NewComponent(ComponentInfo::Kind::kTensor, warp, static_cast<uint32_t>(lane));
  i.work = ++i.issued;
  i.pc = pc;
  AsyncOp op;
  op.warp = warp;
  op.lanes = 1u << lane;
  op.pc = pc;
  op.group = &warps_[warp].agent.GroupOf(lane);
  op.component = i.component;
  op.epoch = i.issued;
  return op;
}

void Judge::TensorPeer(const AsyncOp& op, uint32_t rank) {
  UsePeer(op.warp, rank, {op.lanes, op.pc, 0, op.component, op.epoch});
  const uint32_t first = rank * shape_.warps_per_cta;
  bool known = false;
  for (uint32_t k = first; k < first + shape_.warps_per_cta && !known; ++k) {
    const Agent& peer = warps_[k].agent;
    known = op.group->view.generic.At(peer.self()) > 0;
    for (int l = 0; l < 32 && !known; ++l)
      known = peer.lane(l) != 0 && op.group->view.generic.At(peer.lane(l)) > 0;
  }
  const bool gone = live_warps_[rank] == 0;
  if (known && !gone) return;
  Say(Rule::kT10, Severity::kError, {op.warp, op.lanes, op.pc},
      fmt::format("an operation of the pair is issued {}",
                  gone ? "after its other CTA has exited"
                       : "before its other CTA is known to have started"),
      "put `barrier.cluster.arrive` and `barrier.cluster.wait` there");
}

void Judge::TensorTouch(const AsyncOp& op, TensorAct act, uint64_t key, const TensorArea& area) {
  auto& shadow = tensor_[area.rank];
  if (shadow == nullptr) shadow = std::make_unique<TensorShadow>();
  const LaneGroup& g = *op.group;
  TensorMark now;
  now.component = op.component;
  now.number = op.epoch;
  now.pc = op.pc;
  now.key = KeyOf(act, key);
  const TensorDeed deed{op, act, now, area};
  auto ordered = [&](const TensorMark& old) {
    if (g.tensor_after.At(old.component) >= old.number) return true;
    return old.component == now.component &&
           (old.number == now.number || Pipelined(old.key, now.key));
  };
  for (uint32_t c = area.column; c < area.column + area.columns && c < TensorShadow::kColumns; ++c)
    for (uint32_t l = area.lane / 16; l * 16 < area.lane + area.lanes && l < 8; ++l) {
      TensorCell& cell = shadow->at(l, c);
      if (cell.has_write && !ordered(cell.write)) TensorClash(deed, c, cell.write, true);
      if (area.write) {
        for (const TensorMark& r : cell.reads)
          if (!ordered(r)) TensorClash(deed, c, r, false);
        cell.reads.clear();
        cell.write = now;
        cell.has_write = true;
        continue;
      }
      bool replaced = false;
      for (TensorMark& r : cell.reads)
        if (r.component == now.component) r = now, replaced = true;
      if (!replaced) cell.reads.push_back(now);
    }
}

void Judge::TensorClash(const TensorDeed& by, uint32_t column, const TensorMark& old,
                        bool old_writes) {
  const auto& [op, act, now, area] = by;
  const bool issuer =
      old.component == op.component && act != TensorAct::kLoad && act != TensorAct::kStore;
  const bool generic = op.group->view.generic.At(old.component) >= old.number;
  const bool seen = op.group->view.tensor.At(old.component) >= old.number;
  Rule rule = Rule::kT4;
  if (generic || seen)
    rule = Rule::kT5;
  else if (issuer)
    rule = Rule::kT6;
  if (rule == Rule::kT6 && launch_->tensor_in_order) return;
  // Seen through relaxed synchronisation alone, and no fence behind it: nothing orders the two.
  if (rule == Rule::kT5 && !generic) rule = Rule::kT4;
  if (!launch_->First(rule, op.pc, old.pc)) return;
  Finding f = Begin(rule, op.pc, op.warp, op.lanes == ~0u ? 0 : op.lanes);
  const std::string memory = AreaName(area, column, scoped_);
  f.accesses[0].who = TensorActor(now);
  f.accesses[0].what = area.write ? "writes" : "reads";
  f.accesses[0].memory = memory;
  Access other;
  other.who = TensorActor(old);
  other.what = old_writes ? "writes" : "reads";
  other.memory = memory;
  other.site = launch_->site(old.pc);
  f.accesses.push_back(std::move(other));
  f.message = fmt::format("{} {} {} without being ordered after the {} by {}", f.accesses[0].who,
                          area.write ? "writes" : "reads", memory, old_writes ? "write" : "read",
                          TensorActor(old));
  if (generic && !seen) {
    f.missing =
        "`tcgen05.fence::before_thread_sync` by the first thread, before what it signals the "
        "second by";
    f.fix = "add `tcgen05.fence::before_thread_sync;` before the arrival or barrier";
  } else if (seen) {
    f.missing = "`tcgen05.fence::after_thread_sync` by the second thread, behind its wait";
    f.fix = "add `tcgen05.fence::after_thread_sync;` behind the wait";
  } else if (rule == Rule::kT6) {
    f.missing = TensorMissing(old) + ", before this instruction is issued";
    f.fix =
        "wait for a commit of the first, use other columns, or say that products and copies of "
        "a thread run in the order of issue (docs/blackwell.md)";
  } else {
    f.missing = TensorMissing(old) + ", seen by " + Who(op.warp);
    f.fix = "wait for the first, then synchronise the two with the fences of tcgen05";
  }
  launch_->Say(std::move(f), op.pc, old.pc);
}

Judge::TensorStream& Judge::StreamOf(uint32_t warp, bool store) {
  TensorStream& s = store ? warps_[warp].stores : warps_[warp].loads;
  if (s.component == 0)
    s.component = NewComponent(
        store ? ComponentInfo::Kind::kTensorStore : ComponentInfo::Kind::kTensorLoad, warp, 0);
  return s;
}

void Judge::TensorMove(uint32_t warp, uint32_t pc, bool store,
                       const std::vector<TensorArea>& areas) {
  Executes(warp, pc);
  TensorStream& s = StreamOf(warp, store);
  WarpState& w = warps_[warp];
  ++s.issued;
  s.pc = pc;
  const TensorAct act = store ? TensorAct::kStore : TensorAct::kLoad;
  AsyncOp op;
  op.warp = warp;
  op.lanes = ~0u;
  op.pc = pc;
  op.component = s.component;
  op.epoch = s.issued;
  // All lanes take part: what one group of them does not know is not known.
  for (LaneGroup& g : w.agent.groups()) {
    op.group = &g;
    for (const TensorArea& a : areas) TensorTouch(op, act, 0, a);
  }
  if (store || launch_->loaded == nullptr || launch_->loaded->first.empty()) return;
  const RegisterMap& map = *launch_->loaded;
  uint32_t count = 0;
  for (uint32_t k = map.first[pc]; k < map.first[pc + 1]; ++k) {
    if (map.uses[k].kind != RegisterUse::Kind::kWrite) continue;
    w.loading[map.uses[k].reg] = s.issued;
    ++count;
  }
  w.unread[s.issued] = count;
}

// Own loads or stores up to a number are complete for the warp.
void Judge::TensorLearn(uint32_t warp, TensorStream& s, Epoch number) {
  if (number <= s.waited) return;
  s.waited = number;
  Agent& agent = warps_[warp].agent;
  for (LaneGroup& g : agent.groups()) {
    g.view.generic.Raise(s.component, number);
    g.view.scoped.Raise(s.component, number);
    g.tensor_after.Raise(s.component, number);
  }
}

void Judge::TensorWait(uint32_t warp, uint32_t pc, bool store) {
  Executes(warp, pc);
  TensorStream& s = StreamOf(warp, store);
  if (s.issued != 0)
    launch_->HadEffect(Rule::kT15, pc);
  else
    Say(Rule::kT15, Severity::kHint, {warp, 0, pc},
        fmt::format("{} waits for {} and has issued none", Who(warp), store ? "stores" : "loads"),
        "leave the wait out");
  if (!store) warps_[warp].unread.clear();
  TensorLearn(warp, s, s.issued);
}

}  // namespace tilec::runtime::judge
