// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/resources.h"

#include "ir/isa.h"

#include <algorithm>
#include <map>

namespace tilec::ir::warp_check {
namespace {

Finding Say(const Program& p, OpId at, std::string message) {
  Finding f;
  f.def = &kWarpResource;
  if (at.valid()) f.at = p.fn.ops[at].at;
  f.message = std::move(message);
  return f;
}

// Registers are dealt out by warpgroups; setmaxnreg may only move what the launch has given.
std::optional<Finding> Registers(const Program& p, const WarpCheckOptions& options) {
  const int64_t warps = p.fn.launch.warps;
  const int64_t groups = (warps + 3) / 4;
  const int64_t beside = std::max<int64_t>(1, p.fn.launch.ctas_per_sm);
  const int64_t cap = options.target->RegistersAtLaunch(isa::kWarpgroupWarps * groups * beside);
  std::vector<int64_t> regs(static_cast<size_t>(groups), 0);
  bool any = false;
  for (const RoleInfo& role : p.roles) {
    if (!role.op.valid()) continue;
    const Op& op = p.fn.ops[role.op];
    any = any || op.i("regs") > 0;
    for (int64_t w = op.i("first_warp"); w < op.i("first_warp") + op.i("warps"); ++w) {
      int64_t& r = regs[static_cast<size_t>(w / 4)];
      r = std::max(r, op.i("regs"));
    }
  }
  if (!any) return std::nullopt;
  int64_t sum = 0;
  for (int64_t r : regs) sum += r ? r : cap;
  if (sum <= cap * groups) return std::nullopt;
  return Say(p, {},
             fmt::format("the roles want {} registers per thread of {} warpgroups; the launch "
                         "gives {} to each, {} in all",
                         sum, groups, cap, cap * groups));
}

// A named barrier counts the threads of one role.
std::optional<Finding> NamedBarriers(const Program& p, const WarpCheckOptions& options) {
  std::map<int64_t, std::pair<int64_t, int64_t>> warps_of;  // [first, end) by id
  for (const RoleInfo& role : p.roles) {
    int64_t first = 0, warps = p.fn.launch.warps;
    if (role.op.valid()) {
      first = p.fn.ops[role.op].i("first_warp");
      warps = p.fn.ops[role.op].i("warps");
    }
    if (warps == 1) continue;  // one warp synchronises without a barrier
    std::optional<Finding> found;
    auto visit = [&](OpId id) {
      const Op& op = p.fn.ops[id];
      if (found) return;
      if (op.kind == OpKind::kTurn) {
        const std::pair<int64_t, int64_t> who(-1 - first, warps);  // nobody else's
        for (int64_t group = 0; group < warps / isa::kWarpgroupWarps; ++group)
          if (!warps_of.try_emplace(op.i("id") + group, who).second &&
              warps_of[op.i("id") + group] != who)
            found = Say(p, id,
                        fmt::format("named barrier {} orders turns, and something else",
                                    op.i("id") + group));
        if (op.i("id") + warps / isa::kWarpgroupWarps > options.target->limits.named_barriers)
          found = Say(p, id,
                      fmt::format("turns need a barrier beyond the last, {}",
                                  options.target->limits.named_barriers - 1));
      }
      if (op.kind != OpKind::kCtaSync) return;
      const int64_t parts = op.i("parts", 1), each = warps / parts;
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t barrier = op.i("id") + part;
        const std::pair<int64_t, int64_t> who(first + part * each, first + (part + 1) * each);
        const auto [it, fresh] = warps_of.try_emplace(barrier, who);
        if (!fresh && it->second != who)
          found =
              Say(p, id,
                  fmt::format("named barrier {} is used by warps [{}, {}) and by warps [{}, {})",
                              barrier, it->second.first, it->second.second, who.first, who.second));
      }
    };
    for (OpId id : p.fn.blocks[role.body].ops) {
      if (p.fn.ops[id].kind == OpKind::kRole) continue;
      visit(id);
      for (BlockId region : p.fn.ops[id].regions) WalkOps(p.fn, region, visit);
    }
    if (found) return found;
  }
  const int64_t most = options.target->limits.named_barriers;
  if (static_cast<int64_t>(warps_of.size()) <= most) return std::nullopt;
  return Say(p, {}, fmt::format("{} named barriers; a CTA has {}", warps_of.size(), most));
}

std::optional<Finding> SharedMemory(const Program& p, const WarpCheckOptions& options) {
  if (p.fn.launch.smem_bytes > options.target->limits.smem_bytes)
    return Say(p, {},
               fmt::format("{} B of shared memory; a CTA has {} B", p.fn.launch.smem_bytes,
                           options.target->limits.smem_bytes));
  // Barriers lie apart from each other and from everything that is written.
  std::map<int64_t, int64_t> barriers;  // begin -> end
  std::optional<Finding> found;
  for (const auto& [v, slot] : p.first_slot) {
    const Op& op = *p.fn.def(v);
    barriers[op.i("offset")] = op.i("offset") + 8 * p.fn.type(v).depth;
  }
  if (barriers.size() != p.first_slot.size()) return Say(p, {}, "two barriers share their bytes");
  int64_t end = -1;
  for (const auto& [begin, stop] : barriers) {
    if (begin < end) return Say(p, {}, "two barriers share their bytes");
    end = stop;
  }
  auto meets = [&](int64_t begin, int64_t stop) {
    for (const auto& [b, e] : barriers)
      if (b < stop && begin < e) return true;
    return false;
  };
  for (const auto& [v, b] : p.buffers)
    if (meets(b.offset, b.offset + b.depth * b.slot_bytes))
      return Say(p, p.fn.values[v].def, "a buffer lies over a barrier");
  return found;
}

}  // namespace

std::optional<Finding> CheckResources(const Program& p, const WarpCheckOptions& options) {
  if (p.stray.valid()) {
    Finding f =
        Say(p, p.stray,
            fmt::format("`{}` stands after the roles", Info(p.fn.ops[p.stray].kind).mnemonic));
    f.def = &kWarpForm;
    return f;
  }
  if (p.unordered.valid()) {
    Finding f = Say(p, p.unordered,
                    fmt::format("nothing orders this `{}` and the copies that combine with the "
                                "same tensor",
                                Info(p.fn.ops[p.unordered].kind).mnemonic));
    f.def = &kWarpForm;
    return f;
  }
  if (auto f = Registers(p, options)) return f;
  if (auto f = NamedBarriers(p, options)) return f;
  if (auto f = CheckTurns(p)) return f;
  return SharedMemory(p, options);
}

}  // namespace tilec::ir::warp_check
