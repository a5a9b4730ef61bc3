// Asynchronous operations: streams of groups, copies that complete on an mbarrier, wgmma, exits.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

AsyncOp Judge::CopyTo(uint32_t warp, int lane, uint32_t pc, uint32_t rank, uint32_t offset,
                      uint32_t bytes) {
  Barrier& b = BarrierAt(rank, offset);
  if (rank != RankOf(warp)) CheckPeer(warp, 1u << lane, pc, rank);
  CheckInit(b, warp, 1u << lane, pc, rank, offset);
  AsyncOp op;
  op.warp = warp;
  op.lanes = 1u << lane;
  op.pc = pc;
  op.group = &warps_[warp].agent.GroupOf(lane);
  op.component = b.component;
  op.epoch = b.last_epoch() + 1;
  b.last_copy = {warp, op.lanes, pc, bytes, op.epoch};
  warps_[warp].copied_at = warps_[warp].acts;
  warps_[warp].copied_to = &b;
  return op;
}

void Judge::Landed(const AsyncOp& op, uint32_t rank, uint32_t offset) {
  if (launch_->trace != nullptr)
    launch_->Happens({0, op.warp, shape_.number, op.pc,
                      static_cast<uint8_t>(op.lanes == 0 ? 0 : __builtin_ctz(op.lanes)), true},
                     [&] { return WarpName(op.warp); });
  Barrier& b = BarrierAt(rank, offset);
  if (!b.live || op.component != b.component || b.last_epoch() < op.epoch) return;
  if (!launch_->First(Rule::kA5, op.pc, 0)) return;
  Finding f = Begin(Rule::kA5, op.pc, op.warp, op.lanes);
  f.message = fmt::format(
      "phase {} of the mbarrier at shared offset {} completed without the bytes "
      "of this copy, which was issued in it",
      op.epoch - b.base - 1, offset);
  f.missing = "an expectation of all bytes of the phase before its last arrival";
  f.fix = "let `mbarrier.arrive.expect_tx` count the bytes of every copy of the phase";
  launch_->Say(std::move(f), op.pc, 0);
}

AsyncOp Judge::BulkRead(uint32_t warp, int lane, uint32_t pc) {
  Stream& s = warps_[warp].bulk[lane];
  if (!s.known) {
    s.known = true;
    s.read = NewComponent(ComponentInfo::Kind::kBulkRead, warp, static_cast<uint32_t>(lane));
    s.write = NewComponent(ComponentInfo::Kind::kBulkWrite, warp, static_cast<uint32_t>(lane));
  }
  s.last = s.committed + 1;
  s.pc = pc;
  warps_[warp].stored_at = warps_[warp].acts;
  AsyncOp op;
  op.warp = warp;
  op.lanes = 1u << lane;
  op.pc = pc;
  op.group = &warps_[warp].agent.GroupOf(lane);
  op.component = s.read;
  op.epoch = s.last;
  return op;
}

AsyncOp Judge::BulkWrite(uint32_t warp, int lane, uint32_t pc, bool reduces) {
  AsyncOp op = BulkRead(warp, lane, pc);
  op.component = warps_[warp].bulk[lane].write;
  op.strong = reduces;
  return op;
}

void Judge::SpendWait(uint32_t warp, uint32_t lanes, uint32_t pc, uint64_t issued_at, bool alone) {
  if (!launch_->lint || issued_at == 0) return;
  const bool behind = alone && warps_[warp].acts <= issued_at;
  launch_->Spend(Rule::kB4, pc, {shape_.number, warp, lanes}, behind ? 1 : 0, 0);
}

void Judge::BulkCommit(uint32_t warp, uint32_t lanes) {
  EachLane(lanes, [&](int l) { ++warps_[warp].bulk[l].committed; });
}

void Judge::BulkWait(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t pending, bool read_only) {
  WarpState& w = warps_[warp];
  SpendWait(warp, lanes, pc, std::exchange(w.stored_at, 0), pending == 0);
  EachLane(lanes, [&](int l) {
    auto it = w.bulk.find(l);
    if (it == w.bulk.end() || !it->second.known) return;
    Stream& s = it->second;
    Epoch done = s.committed > pending ? s.committed - pending : 0;
    s.read_done = std::max(s.read_done, done);
    w.agent.Learn(1u << l, s.read, done);
    if (!read_only) w.agent.Learn(1u << l, s.write, done);
  });
}

// One stream for the warp: its lanes issue, commit and wait together, or the lanes of a mark tell.
AsyncOp Judge::CpAsync(uint32_t warp, uint32_t lanes, uint32_t pc) {
  WarpState& w = warps_[warp];
  Stream& s = w.cp;
  if (!s.known) {
    s.known = true;
    s.read = NewComponent(ComponentInfo::Kind::kCpAsync, warp, 0);
  }
  s.last = s.committed + 1;
  s.pc = pc;
  w.loaded_at = w.acts;
  AsyncOp op;
  op.warp = warp;
  op.lanes = lanes;
  op.pc = pc;
  op.group = &w.agent.GroupOf(__builtin_ctz(lanes));
  op.component = s.read;
  op.epoch = s.last;
  op.generic = true;
  return op;
}

void Judge::CpCommit(uint32_t warp, uint32_t) { ++warps_[warp].cp.committed; }

void Judge::CpWait(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t pending, bool all) {
  WarpState& w = warps_[warp];
  SpendWait(warp, lanes, pc, std::exchange(w.loaded_at, 0), pending == 0 || all);
  Stream& s = w.cp;
  if (!s.known) return;
  if (all) s.committed = std::max(s.committed, s.last);  // `wait_all` ends the group under way, too
  Epoch done = all ? s.last : s.committed > pending ? s.committed - pending : 0;
  s.read_done = std::max(s.read_done, done);
  // Into the generic proxy only: a fence is needed before wgmma or a bulk copy reads the bytes.
  w.agent.Split(lanes);
  for (LaneGroup& g : w.agent.groups()) {
    if ((g.lanes & lanes) == 0) continue;
    g.view.generic.Raise(s.read, done);
    g.view.scoped.Raise(s.read, done);
  }
}

void Judge::CpArrive(uint32_t warp, uint32_t lanes, uint32_t pc, uint32_t rank, uint32_t offset) {
  Barrier& b = BarrierAt(rank, offset);
  CheckInit(b, warp, lanes, pc, rank, offset);
  Stream& s = warps_[warp].cp;
  if (!s.known) return;
  s.read_done = s.last;
  b.pending.generic.Raise(s.read, s.last);
  b.pending.scoped.Raise(s.read, s.last);
  // Copies issued from now on are not part of what this arrival stands for.
  s.committed = std::max(s.committed, s.last);
}

AsyncOp Judge::Wgmma(uint32_t first_warp, uint32_t pc, uint32_t group) {
  Component& c = wgmma_[{RankOf(first_warp), group}];
  if (c == 0) c = NewComponent(ComponentInfo::Kind::kWgmma, RankOf(first_warp), group);
  AsyncOp op;
  op.warp = first_warp;
  op.warps = 4;
  op.lanes = ~0u;
  op.pc = pc;
  op.component = c;
  for (uint32_t w = first_warp; w < first_warp + 4; ++w)
    op.epoch = std::max(op.epoch, warps_[w].wgmma_committed + 1);
  for (uint32_t w = first_warp; w < first_warp + 4; ++w) {
    warps_[w].wgmma_issued = op.epoch;
    warps_[w].multiplied_at = warps_[w].acts;
    warps_[w].wgmma_pc = pc;
  }
  return op;
}

void Judge::WgmmaCommit(uint32_t warp) { ++warps_[warp].wgmma_committed; }

void Judge::WgmmaWait(uint32_t warp, uint32_t pc, uint32_t pending) {
  WarpState& w = warps_[warp];
  SpendWait(warp, w.agent.live(), pc, std::exchange(w.multiplied_at, 0), pending == 0);
  Epoch done = w.wgmma_committed > pending ? w.wgmma_committed - pending : 0;
  w.wgmma_retired = std::max(w.wgmma_retired, done);
  auto it = wgmma_.find({RankOf(warp), warp % shape_.warps_per_cta / 4});
  if (it != wgmma_.end()) w.agent.Learn(w.agent.live(), it->second, done);
}

void Judge::Exit(uint32_t warp, uint32_t lanes, uint32_t pc) {
  WarpState& w = warps_[warp];
  if (scoped_)
    for (const LaneGroup& g : w.agent.groups()) {
      if ((g.lanes & lanes) == 0) continue;
      Clock& left = left_[RankOf(warp)];
      left.Join(g.view.generic);
      if (g.acquire != nullptr) left.Join(g.acquire->generic);  // it was seen, if not ordered
    }
  w.agent.Exit(lanes);
  if (w.agent.live() != 0) return;
  if (w.wgmma_issued > w.wgmma_retired && launch_->First(Rule::kW4, w.wgmma_pc, 0)) {
    Finding f = Begin(Rule::kW4, w.wgmma_pc, warp);
    f.message = fmt::format("{} exits and has not waited for wgmma group {}", Who(warp),
                            w.wgmma_issued - 1);
    f.fix = "add `wgmma.commit_group` and `wgmma.wait_group 0` before the exit";
    launch_->Say(std::move(f), w.wgmma_pc, 0);
  }
  uint32_t rank = RankOf(warp);
  if (--live_warps_[rank] == 0) CtaExit(rank, pc);
}

void Judge::CtaExit(uint32_t rank, uint32_t pc) {
  CompareRegisters(rank);
  TensorExit(rank, pc);
  uint32_t first = rank * shape_.warps_per_cta;
  auto in_flight = [&](uint32_t warp, uint32_t lanes, uint32_t at, const std::string& what,
                       const std::string& fix) {
    if (!launch_->First(Rule::kA3, at, 0)) return;
    Finding f = Begin(Rule::kA3, at, warp, lanes);
    f.accesses[0].what = "issues";
    Access exit;
    exit.who = Who(first);
    exit.what = "exits";
    exit.site = launch_->site(pc);
    f.accesses.push_back(std::move(exit));
    f.message = "the CTA exits while " + what;
    f.missing = fix;
    f.fix = "wait for " + std::string("the operation before the last warp exits");
    launch_->Say(std::move(f), at, 0);
  };
  for (uint32_t w = first; w < first + shape_.warps_per_cta; ++w) {
    for (auto& [lane, s] : warps_[w].bulk)
      if (s.known && s.last > s.read_done)
        in_flight(w, 1u << lane, s.pc, "a bulk copy may still read its shared memory",
                  "`cp.async.bulk.wait_group.read 0` by the thread that issued it");
    const Stream& cp = warps_[w].cp;
    if (cp.known && cp.last > cp.read_done)
      in_flight(w, 0, cp.pc, "a `cp.async` may still write its shared memory",
                "`cp.async.wait_group 0` or a wait on the mbarrier it arrives at");
  }
  for (auto& [key, b] : barriers_) {
    if (key >> 32 != rank || b.last_copy.epoch == 0) continue;
    Epoch known = 0;
    for (uint32_t w = first; w < first + shape_.warps_per_cta; ++w)
      for (const LaneGroup& g : warps_[w].agent.groups())
        known = std::max(known, g.view.async.At(b.component));
    if (b.last_copy.epoch > known)
      in_flight(
          b.last_copy.warp, b.last_copy.lanes, b.last_copy.pc,
          fmt::format("a copy may still write its shared memory: nobody waited for phase {} of "
                      "the mbarrier at shared offset {}",
                      b.last_copy.epoch - b.base - 1, key & 0xffffffff),
          "a wait on that phase");
  }
  PeersAtExit(rank);
}

void Judge::AtEnd(const std::function<int64_t(uint32_t rank, uint32_t offset)>& tx, bool stuck) {
  std::map<uint64_t, const Barrier*> in_order;
  for (const auto& [key, b] : barriers_)
    if (b.live) in_order[key] = &b;
  for (auto& [key, b] : in_order) {
    uint32_t rank = static_cast<uint32_t>(key >> 32), offset = static_cast<uint32_t>(key);
    int64_t left = tx(rank, offset);
    if (left == 0) continue;
    uint32_t pc = b->last_copy.epoch != 0 ? b->last_copy.pc : b->init.pc();
    if (!launch_->First(Rule::kA4, pc, offset)) continue;
    Finding f = Begin(Rule::kA4, pc);
    f.message = fmt::format("{} the mbarrier at shared offset {} is in phase {} with {} bytes {}",
                            stuck ? "nothing moves, and" : "at the end", offset, b->phases,
                            left > 0 ? left : -left,
                            left > 0 ? "expected and never copied" : "copied and never expected");
    if (b->last_copy.epoch != 0)
      f.notes.push_back(fmt::format("the last copy it counted had {} bytes", b->last_copy.bytes));
    f.fix = "expect exactly the bytes of the copies of each phase, out-of-bounds parts included";
    launch_->Say(std::move(f), pc, offset);
  }
}

}  // namespace tilec::runtime::judge
