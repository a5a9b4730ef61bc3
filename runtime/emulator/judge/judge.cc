// Setup, names of things, and findings.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilec::runtime::judge {

Judge::Judge(LaunchJudge* launch, const ClusterShape& shape)
    : launch_(launch), shape_(shape), scoped_(shape.ctas.size() > 1) {
  size_t n = shape_.ctas.size() * shape_.warps_per_cta;
  warps_.resize(n);
  shared_.resize(shape_.ctas.size());
  tensor_.resize(shape_.ctas.size());
  sc_cta_.resize(shape_.ctas.size());
  live_warps_.assign(shape_.ctas.size(), shape_.warps_per_cta);
  if (scoped_) peers_.resize(n * shape_.ctas.size());
  left_.resize(shape_.ctas.size());
  met_.resize(shape_.ctas.size());
  for (size_t r = 0; r < shape_.ctas.size(); ++r) shared_[r].Start(shape_.ctas[r].smem_bytes);
  for (uint32_t w = 0; w < n; ++w) {
    Component self = NewComponent(ComponentInfo::Kind::kWarp, w, 0);
    warps_[w].agent.Start(self, shape_.lanes[w % shape_.warps_per_cta],
                          [this, w](int l) { return LaneComponent(w, l); });
    if (launch_->loaded != nullptr) warps_[w].loading.resize(launch_->loaded->count);
    if (launch_->registers != nullptr) warps_[w].tags.tags.resize(launch_->registers->count);
  }
}

Component Judge::NewComponent(ComponentInfo::Kind kind, uint32_t owner, uint32_t value) {
  // 65535 is reached only by programs with tens of thousands of barriers; they share the last.
  if (components_.size() == 0xffff) return 0xfffe;
  components_.push_back({kind, owner, value});
  return static_cast<Component>(components_.size() - 1);
}

Component Judge::LaneComponent(uint32_t warp, int lane) {
  Component c = NewComponent(ComponentInfo::Kind::kLane, warp, static_cast<uint32_t>(lane));
  launch_->lanes[{shape_.number, warps_[warp].agent.self(), lane}] = c;
  return c;
}

std::string Judge::Who(uint32_t warp, uint32_t lanes) const {
  const ClusterShape::Cta& cta = shape_.ctas[RankOf(warp)];
  std::string s = fmt::format("CTA ({},{},{}), warp {}", cta.id[0], cta.id[1], cta.id[2],
                              warp % shape_.warps_per_cta);
  if (const std::string role = RoleOf(warp); !role.empty()) s += fmt::format(" ({})", role);
  if (lanes == 0 || lanes == ~0u) return s;
  if ((lanes & (lanes - 1)) == 0) return s + fmt::format(", lane {}", __builtin_ctz(lanes));
  return s + fmt::format(", lanes {:#x}", lanes);
}

Finding Judge::Begin(Rule rule, uint32_t pc) {
  Finding f;
  f.rule = rule;
  f.severity = Def(rule).severity;
  f.entry = launch_->entry;
  f.seed = launch_->seed;
  Access at;
  at.site = launch_->site(pc);
  at.pc = pc, at.cluster = shape_.number;
  f.accesses.push_back(std::move(at));
  return f;
}

Finding Judge::Begin(Rule rule, uint32_t pc, uint32_t warp, uint32_t lanes) {
  Finding f = Begin(rule, pc);
  f.accesses[0].who = Who(warp, lanes);
  f.accesses[0].role = RoleOf(warp);
  f.accesses[0].warp = warp;
  f.accesses[0].turn = TurnOf(warp, pc, ~Epoch{0});
  return f;
}

std::string Judge::RoleOf(uint32_t warp) const {
  return launch_->role ? launch_->role(warp % shape_.warps_per_cta) : "";
}

std::string Judge::WarpName(uint32_t warp) const {
  const std::string role = RoleOf(warp);
  return Who(warp) + (role.empty() ? "" : " (" + role + ")");
}

std::string Judge::BarrierName(uint32_t offset) const {
  const std::string name = launch_->object ? launch_->object(offset, offset + 8) : "";
  return fmt::format("the mbarrier at shared offset {}{}", offset,
                     name.empty() ? "" : " (" + name + ")");
}

void Judge::Executes(uint32_t warp, uint32_t pc, int lane) {
  constexpr size_t kMost = 1 << 16;         // epochs remembered of one instruction …
  constexpr uint64_t kMostOfAll = 1 << 26;  // … and of all; findings beyond count too few
  WarpState& w = warps_[warp];
  ++w.acts;
  if (launch_->trace != nullptr)
    launch_->Happens({0, warp, shape_.number, pc, static_cast<uint8_t>(lane), false},
                     [&] { return WarpName(warp); });
  // Lanes that act one after another do so in ascending order: still the same time.
  const bool same = w.turn_pc == pc && lane > w.turn_lane;
  w.turn_pc = pc, w.turn_lane = lane;
  if (same) return;
  const size_t place = launch_->PlaceOf(pc);
  if (place >= w.turns.size()) w.turns.resize(place + 1);
  std::vector<Turns>& turns = w.turns[place];
  const Epoch now = w.agent.epoch();
  if (!turns.empty() && turns.back().epoch == now)
    ++turns.back().count;
  else if (turns.size() < kMost && ++launch_->turns < kMostOfAll)
    turns.push_back({now, turns.empty() ? 1 : turns.back().count + 1});
}

uint64_t Judge::TurnOf(uint32_t warp, uint32_t pc, Epoch epoch) const {
  const WarpState& w = warps_[warp];
  const size_t place = launch_->PlaceOf(pc);
  if (place >= w.turns.size()) return 0;
  const std::vector<Turns>& turns = w.turns[place];
  auto after = std::upper_bound(turns.begin(), turns.end(), epoch,
                                [](Epoch e, const Turns& t) { return e < t.epoch; });
  return after == turns.begin() ? 0 : (after - 1)->count;
}

void Judge::Hint(Rule rule, const Act& by, std::string message, std::string fix) {
  Say(rule, Def(rule).severity, by, std::move(message), std::move(fix));
}

void Judge::Say(Rule rule, Severity severity, const Act& by, std::string message, std::string fix) {
  if (!launch_->First(rule, by.pc, 0)) return;
  Finding f = Begin(rule, by.pc, by.warp, by.lanes);
  f.severity = severity;
  f.message = std::move(message);
  f.fix = std::move(fix);
  launch_->Say(std::move(f), by.pc, 0);
}

// "warp 3 of CTA …" or the asynchronous operation behind a mark.
std::string Judge::Actor(const Mark& m, uint64_t cluster) const {
  if (cluster != shape_.number) return fmt::format("cluster {}", cluster);
  const ComponentInfo& c = components_[m.component];
  switch (c.kind) {
    case ComponentInfo::Kind::kWarp:
    case ComponentInfo::Kind::kInit: return Who(c.owner, m.lanes);
    case ComponentInfo::Kind::kLane: return Who(c.owner, 1u << c.value);
    case ComponentInfo::Kind::kBarrier:
      return fmt::format("the copy that completes phase {} of {}", m.epoch - 1,
                         BarrierName(c.value));
    case ComponentInfo::Kind::kBulkRead:
    case ComponentInfo::Kind::kBulkWrite:
      return fmt::format("bulk group {} of {}", m.epoch - 1, Who(c.owner, 1u << c.value));
    case ComponentInfo::Kind::kCpAsync:
      return fmt::format("cp.async group {} of {}", m.epoch - 1, Who(c.owner));
    case ComponentInfo::Kind::kWgmma:
      return fmt::format("wgmma group {} of warpgroup {}", m.epoch - 1, c.value);
    case ComponentInfo::Kind::kNamed: return fmt::format("barrier {}", c.value);
    case ComponentInfo::Kind::kTensor:
      return fmt::format("tcgen05 operation {} of {}", m.epoch, Who(c.owner, 1u << c.value));
    case ComponentInfo::Kind::kTensorLoad:
      return fmt::format("tcgen05.ld {} of {}", m.epoch, Who(c.owner));
    case ComponentInfo::Kind::kTensorStore:
      return fmt::format("tcgen05.st {} of {}", m.epoch, Who(c.owner));
  }
  return "";
}

// What must be waited for until the operation behind a mark is over.
std::string Judge::CompletionOf(const Mark& m) const {
  const ComponentInfo& c = components_[m.component];
  switch (c.kind) {
    case ComponentInfo::Kind::kBarrier:
      return fmt::format("a successful wait on phase {} (parity {}) of {}", m.epoch - 1,
                         (m.epoch - 1) & 1, BarrierName(c.value));
    case ComponentInfo::Kind::kBulkRead:
      return fmt::format("`cp.async.bulk.wait_group.read` by {} for its group {}",
                         Who(c.owner, 1u << c.value), m.epoch - 1);
    case ComponentInfo::Kind::kBulkWrite:
      return fmt::format("`cp.async.bulk.wait_group` by {} for its group {}",
                         Who(c.owner, 1u << c.value), m.epoch - 1);
    case ComponentInfo::Kind::kCpAsync:
      return fmt::format("`cp.async.wait_group` by {} for its group {}", Who(c.owner), m.epoch - 1);
    case ComponentInfo::Kind::kWgmma:
      return fmt::format("`wgmma.wait_group` by warpgroup {} for its group {}", c.value,
                         m.epoch - 1);
    case ComponentInfo::Kind::kTensor:
      return fmt::format(
          "a `tcgen05.commit` by {} behind it, and a wait on the mbarrier it arrives "
          "at",
          Who(c.owner, 1u << c.value));
    case ComponentInfo::Kind::kTensorLoad:
      return fmt::format("`tcgen05.wait::ld` by {}", Who(c.owner));
    case ComponentInfo::Kind::kTensorStore:
      return fmt::format("`tcgen05.wait::st` by {}", Who(c.owner));
    case ComponentInfo::Kind::kWarp:
    case ComponentInfo::Kind::kLane:
    case ComponentInfo::Kind::kNamed:
    case ComponentInfo::Kind::kInit: break;
  }
  return "";
}

Access Judge::Describe(const Mark& m, uint64_t cluster, bool writes,
                       const std::string& memory) const {
  Access a;
  a.who = Actor(m, cluster);
  a.what = fmt::format("{}{}{}", m.strong() ? "atomically " : "", writes ? "writes" : "reads",
                       m.async() ? " (async proxy)" : "");
  a.memory = memory;
  a.site = launch_->site(m.pc());
  a.pc = m.pc(), a.cluster = cluster;
  if (cluster != shape_.number) return a;
  const ComponentInfo& c = components_[m.component];
  if (c.kind == ComponentInfo::Kind::kWarp) {
    a.role = RoleOf(c.owner);
    a.warp = c.owner;
    a.turn = TurnOf(c.owner, m.pc(), m.epoch);
  } else if (c.kind == ComponentInfo::Kind::kBarrier) {
    a.turn = m.epoch;  // of its slot
  } else if (c.kind == ComponentInfo::Kind::kBulkRead ||
             c.kind == ComponentInfo::Kind::kBulkWrite || c.kind == ComponentInfo::Kind::kCpAsync) {
    a.role = RoleOf(c.owner);
    a.warp = c.owner;
  }
  return a;
}

bool Judge::LanesOrdered(const Mark& m, const Clock& clock) const {
  const ComponentInfo& c = components_[m.component];
  if (c.kind != ComponentInfo::Kind::kWarp || m.lanes == 0) return false;
  const Agent& agent = warps_[c.owner].agent;
  for (uint32_t lanes = m.lanes; lanes != 0; lanes &= lanes - 1) {
    Component lane = agent.lane(__builtin_ctz(lanes));
    if (lane == 0 || clock.At(lane) < m.epoch) return false;
  }
  return true;
}

bool Judge::GenericOrdered(const Mark& old, const Mark& now, const Side& side, bool scoped) const {
  for (uint32_t w = side.warp; w < side.warp + side.warps; ++w) {
    const Agent& agent = warps_[w].agent;
    if (!old.async() && old.component == agent.self() && side.warps == 1 && SameLane(old, now))
      continue;
    for (const LaneGroup& g : agent.groups()) {
      if (side.group != nullptr ? &g != side.group : false) continue;
      const Clock& clock = scoped ? g.view.scoped : g.view.generic;
      if (old.epoch > clock.At(old.component) && !LanesOrdered(old, clock)) return false;
    }
  }
  return true;
}

void Judge::Fresh(const std::string& memory, const Mark& now, const Side& side) {
  if (!launch_->First(Rule::kM6, now.pc(), 0)) return;
  Finding f = Begin(Rule::kM6, now.pc());
  f.accesses[0] = Describe(now, shape_.number, false, memory);
  f.message =
      fmt::format("{} reads {}, which nobody has written", Who(side.warp, now.lanes), memory);
  f.fix = "write the bytes before they are read, or do not read beyond what was written";
  launch_->Say(std::move(f), now.pc(), 0);
}

void Judge::OpaqueTouched(uint32_t rank, size_t block, const Mark& now, bool writes,
                          const Side& side) {
  if (!launch_->First(Rule::kM7, now.pc(), 0)) return;
  std::string memory = fmt::format("shared [{}, {})", block * 16, block * 16 + 16);
  if (scoped_) memory += fmt::format(" of rank {}", rank);
  Finding f = Begin(Rule::kM7, now.pc());
  f.accesses[0] = Describe(now, shape_.number, writes, memory);
  f.message = fmt::format("{} {} bytes of a live mbarrier", Who(side.warp, now.lanes),
                          writes ? "writes" : "reads");
  f.fix = "keep mbarriers apart from data, or `mbarrier.inval` them first";
  launch_->Say(std::move(f), now.pc(), 0);
}

bool Judge::ReadAhead(const Mark& copy, const Mark& read) const {
  const ComponentInfo& c = components_[copy.component];
  const ComponentInfo& reader = components_[read.component];
  if (c.kind != ComponentInfo::Kind::kBarrier) return false;
  auto it = barriers_.find(uint64_t{c.owner} << 32 | c.value);
  if (it == barriers_.end()) return false;
  if (copy.epoch == it->second.base + 1) return true;  // nothing was there to be read
  uint32_t first = reader.owner, warps = 1;
  if (reader.kind == ComponentInfo::Kind::kWgmma)
    first = reader.owner * shape_.warps_per_cta + reader.value * 4, warps = 4;
  else if (reader.kind != ComponentInfo::Kind::kWarp)
    return false;
  Epoch known = 0;
  for (uint32_t w = first; w < first + warps && w < warps_.size(); ++w)
    for (const LaneGroup& g : warps_[w].agent.groups())
      known = std::max(known, g.view.async.At(copy.component));
  return known + 1 < copy.epoch;
}

// An unordered pair, by what kind of pair it is.
void Judge::Conflict(const std::string& memory, const Half& before, const Half& after,
                     const Side& side, bool global) {
  const Mark &old = before.mark, &now = after.mark;
  const uint64_t old_cluster = before.cluster;
  const bool old_writes = before.writes, now_writes = after.writes;
  bool here = old_cluster == shape_.number;
  bool old_completes = here && !CompletionOf(old).empty();
  bool generic_path = here && GenericOrdered(old, now, side, false);
  Rule rule = global ? Rule::kM2 : Rule::kM1;
  std::string missing, fix;
  if (!side.async && !global && generic_path) {
    rule = Rule::kM3;
    missing = "a release and an acquire whose scopes include the other CTA";
    fix = "say `.release.cluster` and `.acquire.cluster`";
  } else if (side.async && generic_path && (!old.async() || old_completes)) {
    rule = old_writes ? Rule::kP1 : Rule::kP2;
    missing = "a `fence.proxy.async` between the two";
    fix = fmt::format("add `fence.proxy.async{};` after the {} and before the barrier that follows",
                      global ? ".global" : ".shared::cta", old_writes ? "write" : "read");
  } else if (old_completes && now_writes && !old_writes) {
    rule = Rule::kA1;
    missing = CompletionOf(old) + ", seen by " + Actor(now, shape_.number);
    fix = "wait for the operation, then let the warp that overwrites wait for that";
  } else if (old_completes) {
    rule = Rule::kA2;
    missing = CompletionOf(old) + ", seen by " + Who(side.warp, side.async ? 0 : now.lanes);
    fix = "wait for the operation before this access";
  } else {
    bool same_warp = here && components_[old.component].owner == side.warp &&
                     components_[old.component].kind == ComponentInfo::Kind::kWarp;
    missing = same_warp ? "a synchronisation of the warp's lanes between the two"
              : here    ? "a barrier, or a release and an acquire, between the two"
                        : "a release at gpu scope after the first and an acquire before the second";
    fix = same_warp ? "add `bar.warp.sync 0xffffffff;` between the two"
          : here    ? "add a barrier that both warps take part in between the two"
                    : "let the CTAs write different bytes, use atomics, or order them by a flag";
  }
  if (here && now.async() && now_writes && !old_writes && ReadAhead(now, old)) {
    missing = CompletionOf(now) + ", before the read by " + Actor(old, old_cluster);
    fix = "wait for the copy before the bytes are read";
  }
  if (!launch_->First(rule, now.pc(), old.pc())) return;
  Finding f = Begin(rule, now.pc());
  if (rule == Rule::kM3 && !old_writes) f.severity = Severity::kPortability;
  f.accesses[0] = Describe(now, shape_.number, now_writes, memory);
  f.accesses.push_back(Describe(old, old_cluster, old_writes, memory));
  f.message = fmt::format("{} {} {} without being ordered after the {} by {}",
                          Actor(now, shape_.number), now_writes ? "writes" : "reads", memory,
                          old_writes ? "write" : "read", Actor(old, old_cluster));
  f.missing = std::move(missing);
  f.fix = std::move(fix);
  launch_->Say(std::move(f), now.pc(), old.pc());
}

}  // namespace tilec::runtime::judge
