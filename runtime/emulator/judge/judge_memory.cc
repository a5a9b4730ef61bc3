// Accesses to shared and global memory.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {
namespace {

uint32_t Log2(uint32_t bytes) { return static_cast<uint32_t>(__builtin_ctz(bytes)); }

// Neighbouring lanes that touch neighbouring bytes of one block become one piece:
// f(block, bytes, lanes, shape).
template <typename F>
void Gather(uint32_t lanes, const uint32_t* offsets, uint32_t bytes, F&& f) {
  uint32_t shape = bytes <= 16 ? Log2(bytes) : 4;
  uint32_t block = ~0u, mask = 0, who = 0, end = 0, kind = shape;
  int last = -2;
  auto flush = [&] {
    if (who != 0) f(block, static_cast<uint16_t>(mask), who, kind);
  };
  EachLane(lanes, [&](int l) {
    uint32_t at = offsets[l];
    for (uint32_t left = bytes; left != 0;) {
      uint32_t in = at % 16, n = std::min(left, 16 - in);
      uint32_t piece = ((1u << n) - 1) << in;
      if (at / 16 == block && at == end && who != 0) {
        mask |= piece;
        who |= 1u << l;
        if (l != last + 1 || kind == Mark::kShared) kind = Mark::kIrregular;
      } else if (at / 16 == block && piece == mask && who != 0) {
        const bool one = (who & (who - 1)) == 0;
        kind = one || kind == Mark::kShared ? Mark::kShared : Mark::kIrregular;
        who |= 1u << l;  // all lanes the same bytes
      } else {
        flush();
        block = at / 16, mask = piece, who = 1u << l, kind = shape;
      }
      last = l;
      at += n, end = at, left -= n;
    }
  });
  flush();
}

uint32_t SiteOf(const Touch& t, uint32_t shape) {
  uint32_t s = (t.pc & Mark::kPcMask) | shape << Mark::kShapeShift;
  if (t.atomic || t.order != Order::kWeak) {
    s |= Mark::kStrong;
    if (t.scope != Scope::kCta) s |= Mark::kWide;
    if (t.scope == Scope::kGpu) s |= Mark::kGpu;
    if (t.is_volatile) s |= Mark::kVolatile;
  }
  return s;
}

// Strong accesses of one proxy whose scopes include each other are no race.
bool MorallyStrong(const Mark& a, const Mark& b, bool same_cta, bool same_cluster) {
  if (!a.strong() || !b.strong() || a.async() != b.async()) return false;
  if (same_cta) return true;
  uint32_t need = same_cluster ? Mark::kWide : Mark::kGpu;
  return (a.site & need) != 0 && (b.site & need) != 0;
}

// Lanes that touch bytes of global memory side by side, or all the same ones.
struct Run {
  uint64_t begin = 0, end = 0;
  uint32_t bytes = 0;  // of a lane
  uint32_t lanes = 0;
  bool shared = false;  // all lanes the same bytes
  bool regular = true;  // no lane is left out between two

  bool Adds(uint64_t at, uint32_t n, int lane, bool write) {
    if (lanes == 0) return false;
    const bool one = (lanes & (lanes - 1)) == 0;
    if (at == begin && end == at + n && (one || shared)) {
      shared = true;
      lanes |= 1u << lane;
      return true;
    }
    if (shared || at != end || (write && at % 16 == 0)) return false;
    regular = regular && (lanes >> (lane - 1) & 1) != 0;
    end = at + n;
    lanes |= 1u << lane;
    return true;
  }
  uint32_t Shape(uint32_t n) const {
    if ((lanes & (lanes - 1)) == 0) return 0;
    return shared ? Mark::kShared : regular && n <= 16 ? Log2(n) : Mark::kIrregular;
  }
  // What the mark says of the block of 16 bytes at an address.
  Mark In(Mark m, uint64_t block) const {
    const uint64_t lo = std::max(block, begin), hi = std::min(block + 16, end);
    if (shared || !regular || bytes > 16 || (lanes & (lanes - 1)) == 0 || lo >= hi ||
        (lo - begin) % bytes != 0) {
      return m;
    }
    const auto first = static_cast<uint32_t>(__builtin_ctz(lanes) + (lo - begin) / bytes);
    const auto count = static_cast<uint32_t>((hi - lo + bytes - 1) / bytes);
    m.lanes = ((count == 32 ? 0 : 1u << count) - 1) << first;
    m.bytes = static_cast<uint16_t>(((1u << (hi - block)) - 1) & ~((1u << (lo - block)) - 1));
    return m;
  }
};

}  // namespace

std::string SharedName(uint32_t rank, size_t block, uint16_t bytes, bool named) {
  size_t begin = block * 16 + static_cast<size_t>(__builtin_ctz(bytes));
  size_t end = block * 16 + 32 - static_cast<size_t>(__builtin_clz(uint32_t{bytes}));
  std::string s = fmt::format("shared [{}, {})", begin, end);
  return named ? s + fmt::format(" of rank {}", rank) : s;
}

void Judge::SharedAccess(const Touch& t, uint32_t rank, const uint32_t* offsets, uint32_t bytes) {
  if (rank != RankOf(t.warp)) {
    CheckPeer(t.warp, t.lanes, t.pc, rank);
    UsePeer(t.warp, rank, {t.lanes, t.pc, warps_[t.warp].agent.epoch()});
  }
  SharedShadow& shadow = shared_[rank];
  Agent& agent = warps_[t.warp].agent;
  for (LaneGroup& g : agent.groups()) {
    uint32_t lanes = t.lanes & g.lanes;
    if (lanes == 0) continue;
    Clock& known = scoped_ ? g.view.scoped : g.view.generic;
    const Epoch* clock = known.Dense(components_.size());
    Side side{t.warp, 1, &g, false};
    Mark m;
    m.epoch = agent.epoch();
    m.component = agent.self();
    Gather(lanes, offsets, bytes, [&](uint32_t block, uint16_t mask, uint32_t who, uint32_t shape) {
      m.lanes = who;
      m.site = SiteOf(t, shape);
      m.bytes = mask;
      Block& b = shadow.at(block);
      if (b.barrier != 0 && ((b.barrier & 1 && mask & 0xff) || (b.barrier & 2 && mask & 0xff00)))
        OpaqueTouched(rank, block, m, t.write, side);
      if ((!t.write || t.atomic) && (b.init & mask) != mask)
        Fresh(SharedName(rank, block, static_cast<uint16_t>(mask & ~b.init), scoped_), m, side);
      auto clash = [&](const Mark& old, bool old_writes) {
        Clash(rank, block, {old, shape_.number, old_writes}, {m, shape_.number, t.write}, side);
      };
      if (t.write) {
        b.layout = 0;
        shadow.Write(block, m, clock, clash);
      } else {
        shadow.Read(block, m, clock, clash);
      }
    });
  }
  if (t.write && t.is_volatile && !t.atomic) agent.Tick();
}

// Lanes that parted at a wait fence what they wrote at different times: the warp as a whole is
// behind its first fence only, each lane behind its own. A warpgroup's operation may read what all
// of its warps know to be ordered.
bool Judge::LanesOrderedForAll(const Mark& old, const Side& side) const {
  for (uint32_t w = side.warp; w < side.warp + side.warps; ++w)
    for (const LaneGroup& g : warps_[w].agent.groups()) {
      const Clock& clock = side.async ? g.view.async : scoped_ ? g.view.scoped : g.view.generic;
      if (old.epoch > clock.At(old.component) && !LanesOrdered(old, clock)) return false;
    }
  return true;
}

void Judge::Clash(uint32_t rank, size_t block, const Half& before, const Half& after,
                  const Side& side) {
  const Mark &old = before.mark, &now = after.mark;
  const bool old_writes = before.writes, now_writes = after.writes;
  const ComponentInfo& c = components_[old.component];
  const Agent& agent = warps_[side.warp].agent;
  bool own = !old.async() && old.component == agent.self() && side.warps == 1;
  if (own && SameLane(old, now, old_writes) && (!side.async || old.epoch <= side.group->fenced))
    return;
  if (side.warps == 1) {
    const View& view = side.group->view;
    if (LanesOrdered(old, side.async ? view.async : scoped_ ? view.scoped : view.generic)) return;
  } else if (LanesOrderedForAll(old, side)) {
    return;
  }
  bool warp = c.kind == ComponentInfo::Kind::kWarp;
  bool same_cta = !warp || RankOf(c.owner) == RankOf(side.warp);
  // Lanes of one instruction that write one place: undefined which wins, and meant so.
  if (own && old.epoch == now.epoch && old.pc() == now.pc() && old_writes == now_writes) return;
  if (MorallyStrong(old, now, same_cta, true)) {
    if (own && (old.site & now.site & Mark::kVolatile) != 0)
      Lockstep(old, now, side);
    else if (!own && old_writes && !now_writes)
      Hearsay(SharedName(rank, block, old.bytes, scoped_), {old, shape_.number}, now, side, false);
    return;
  }
  uint16_t both = old.bytes & now.bytes;
  Conflict(SharedName(rank, block, both != 0 ? both : now.bytes, scoped_), before, after, side,
           false);
}

// No race by the letter, since volatile accesses are strong; but nothing orders them, and since
// Volta lanes need not run together. What warp-synchronous code of older days leans on.
void Judge::Lockstep(const Mark& old, const Mark& now, const Side& side) {
  if (!launch_->First(Rule::kM1, now.pc(), old.pc())) return;
  Finding f = Begin(Rule::kM1, now.pc(), side.warp, now.lanes);
  f.severity = Severity::kPortability;
  f.message = fmt::format(
      "{} and lanes {:#x} of its warp hand values over by volatile accesses of shared memory, as "
      "if "
      "they ran in lockstep",
      Who(side.warp, now.lanes), old.lanes);
  f.missing = "a `bar.warp.sync` between the two";
  f.fix =
      "put `__syncwarp()`, `bar.warp.sync`, between the accesses: a read into a register, the "
      "barrier, the write, the barrier";
  launch_->Say(std::move(f), now.pc(), old.pc());
}

// Volatile accesses are strong, so this is no race by the letter. But the warp has seen a later
// write by the same agent, and without fences nothing says that the earlier one is there, too: the
// flag may come before the data.
void Judge::Hearsay(const std::string& memory, const GlobalMark& old, const Mark& now,
                    const Side& side, bool global) {
  Epoch& heard = warps_[side.warp].heard[{old.cluster, old.mark.component}];
  const bool older = old.mark.epoch < heard;
  heard = std::max(heard, old.mark.epoch);
  if (!older || (old.mark.site & now.site & Mark::kVolatile) == 0) return;
  const Rule rule = global ? Rule::kM2 : Rule::kM1;
  if (!launch_->First(rule, now.pc(), old.mark.pc())) return;
  Finding f = Begin(rule, now.pc());
  f.severity = Severity::kPortability;
  f.accesses[0] = Describe(now, shape_.number, false, memory);
  f.accesses.push_back(Describe(old.mark, old.cluster, true, memory));
  f.message = fmt::format(
      "{} reads {} after it saw a later write by {}, and no fences order the earlier write before "
      "this read: it may find what was there before",
      Actor(now, shape_.number), memory, Actor(old.mark, old.cluster));
  f.missing = "a fence between the two writes, and one between the two reads";
  f.fix = "put `__threadfence()`, `fence.acq_rel.gpu`, on both sides, or release and acquire";
  launch_->Say(std::move(f), now.pc(), old.mark.pc());
}

void Judge::GlobalAccess(const Touch& t, const uint64_t* addresses, uint32_t bytes) {
  if (t.write)
    ++launch_->global_writes;
  else if (t.order != Order::kWeak)
    ++strong_loads_, strong_load_pc_ = t.pc;
  Agent& agent = warps_[t.warp].agent;
  for (LaneGroup& g : agent.groups()) {
    uint32_t lanes = t.lanes & g.lanes;
    if (lanes == 0) continue;
    const Epoch* clock = g.view.generic.Dense(components_.size());
    Side side{t.warp, 1, &g, false};
    GlobalMark m;
    m.cluster = shape_.number;
    m.mark.epoch = agent.epoch();
    m.mark.component = agent.self();
    auto ordered = [&](const GlobalMark& old) {
      return old.cluster == shape_.number && old.mark.epoch <= clock[old.mark.component];
    };
    Run run;
    auto clash = [&](const GlobalMark& old, bool old_writes, uint64_t at) {
      GlobalClash(at, old, old_writes, t.write ? m.mark : run.In(m.mark, at), t.write, side);
    };
    auto piece = [&] {
      if (run.lanes == 0) return;
      m.mark.lanes = run.lanes;
      m.mark.site = SiteOf(t, run.Shape(bytes));
      const uint64_t length = run.end - run.begin;
      if (t.write)
        launch_->global.Write(run.begin, length, m, ordered, clash);
      else
        launch_->global.Read(run.begin, length, m, ordered, clash,
                             [&](uint64_t at) { Fresh(launch_->place(at), m.mark, side); });
    };
    // Runs of lanes side by side; writes keep the block of each lane apart, so that bytes stay with
    // their lanes.
    EachLane(lanes, [&](int l) {
      const uint64_t at = addresses[l];
      if (run.Adds(at, bytes, l, t.write)) return;
      piece();
      run = {at, at + bytes, bytes, 1u << l};
    });
    piece();
    // What a strong write says comes after what was written before it.
    if (t.write && t.order != Order::kWeak && !t.atomic) agent.Tick();
  }
}

bool Judge::OrderedForeign(const GlobalMark& old, const Side& side) const {
  if (side.group == nullptr) return false;
  const View* known = side.group->view.Of(old.cluster);
  if (known == nullptr) return false;
  const Clock& clock = side.async ? known->async_global : known->generic;
  if (old.mark.epoch <= clock.At(old.mark.component)) return true;
  if (old.mark.lanes == 0) return false;
  for (uint32_t lanes = old.mark.lanes; lanes != 0; lanes &= lanes - 1) {
    auto it = launch_->lanes.find({old.cluster, old.mark.component, __builtin_ctz(lanes)});
    if (it == launch_->lanes.end() || clock.At(it->second) < old.mark.epoch) return false;
  }
  return true;
}

void Judge::GlobalClash(uint64_t address, const GlobalMark& old, bool old_writes, const Mark& now,
                        bool now_writes, const Side& side) {
  bool here = old.cluster == shape_.number;
  bool same_cta = false;
  if (here) {
    const ComponentInfo& c = components_[old.mark.component];
    const Agent& agent = warps_[side.warp].agent;
    bool own = !old.mark.async() && old.mark.component == agent.self();
    if (own && SameLane(old.mark, now, old_writes) &&
        (!side.async || old.mark.epoch <= side.group->fenced_global))
      return;
    if (own && old.mark.epoch == now.epoch && old.mark.pc() == now.pc() && old_writes == now_writes)
      return;
    // Every lane of a warp stores the same box: libraries do, hardware that has one copy engine for
    // all of them makes one copy of it.
    if (c.kind == ComponentInfo::Kind::kBulkWrite && c.owner == side.warp && old_writes &&
        now_writes && (side.twins & old.mark.lanes) != 0 && old.mark.pc() == now.pc() &&
        old.mark.epoch == now.epoch)
      return;
    const Clock& clock = side.async ? side.group->view.async_global : side.group->view.generic;
    if (LanesOrdered(old.mark, clock)) return;
    same_cta = c.kind != ComponentInfo::Kind::kWarp || RankOf(c.owner) == RankOf(side.warp);
  } else if (OrderedForeign(old, side)) {
    return;
  }
  if (MorallyStrong(old.mark, now, same_cta, here)) {
    if (old_writes && !now_writes && !side.async)
      Hearsay(launch_->place(address), old, now, side, true);
    return;
  }
  Conflict(launch_->place(address), {old.mark, old.cluster, old_writes},
           {now, shape_.number, now_writes}, side, true);
}

}  // namespace tilec::runtime::judge
