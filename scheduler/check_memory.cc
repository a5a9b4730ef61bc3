// What values need while they live, in the steady state: registers of their role and of the launch,
// columns of tensor memory, slots of rings and the shared memory that those take.
//
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "ir/isa.h"
#include "scheduler/checker.h"

namespace tilec::scheduler {

using ir::isa::kLeastQuota;
using ir::isa::kMostQuota;
using ir::isa::kQuotaStep;
using ir::isa::kWarpgroupWarps;

// Instances of v's value live at a cycle, in the steady state: those defined minus those ended.
int64_t ScheduleChecker::Live(int v, int64_t at) const {
  return Floor(at - t_[v], ii_) - Floor(at - t_[v] - life_[v], ii_);
}

void ScheduleChecker::Registers() {
  const int roles = static_cast<int>(s_.roles.size());
  report_.role_regs.assign(roles, 0);
  std::vector<int> peak(roles, -1);
  for (int at = 0; at < n_; ++at) {  // live counts peak at definitions
    int64_t live = 0;
    for (int v = 0; v < n_; ++v)
      if (role_[v] == role_[at] && g_.ops[v].regs > 0) live += g_.ops[v].regs * Live(v, t_[at]);
    if (live > report_.role_regs[role_[at]]) {
      report_.role_regs[role_[at]] = live;
      peak[role_[at]] = at;
    }
  }
  int64_t pool_used = 0, groups = 0, narrow_warps = 0, narrow_quota = 0;
  for (int r = 0; r < roles; ++r) {
    const int64_t need = report_.role_regs[r];
    const std::string where = peak[r] < 0 ? std::string() : fmt::format(" at {}", Name(peak[r]));
    if (need > g_.machine.max_regs_per_thread)
      Fail("registers",
           fmt::format("role {} holds {} registers per thread{}, more than {}", RoleName(r), need,
                       where, g_.machine.max_regs_per_thread),
           {peak[r]});
    int64_t quota = s_.roles[r].regs;
    if (quota == 0) {
      quota = std::max(kLeastQuota, Ceil(need, kQuotaStep) * kQuotaStep);
    } else {
      if (quota % kQuotaStep != 0 || quota < kLeastQuota || quota > kMostQuota)
        Fail("registers", fmt::format("the quota {} of role {} is not a multiple of {} in {}…{}",
                                      quota, RoleName(r), kQuotaStep, kLeastQuota, kMostQuota));
      if (need > quota)
        Fail("registers",
             fmt::format("role {} holds {} registers per thread{}, more than its quota {}",
                         RoleName(r), need, where, quota),
             {peak[r]});
    }
    if (s_.roles[r].warps % kWarpgroupWarps == 0) {
      pool_used += quota * (s_.roles[r].warps / kWarpgroupWarps);
      groups += s_.roles[r].warps / kWarpgroupWarps;
    } else {
      narrow_warps += s_.roles[r].warps;
      narrow_quota = std::max(narrow_quota, quota);
    }
  }
  const int64_t narrow_groups = Ceil(narrow_warps, kWarpgroupWarps);
  groups += narrow_groups;
  pool_used += narrow_groups * narrow_quota;
  if (groups == 0) return;
  const int64_t each =
      g_.machine.registers / (groups * kWarpgroupWarps * 32) / kQuotaStep * kQuotaStep;
  if (pool_used > each * groups)
    Fail("register-pool",
         fmt::format("the quotas of {} warpgroups add up to {} registers per thread, and a launch "
                     "of that size has {}",
                     groups, pool_used, each * groups));
}

void ScheduleChecker::TensorMemory() {
  for (int at = 0; at < n_; ++at) {
    if (g_.ops[at].tmem_columns == 0) continue;
    int64_t live = 0;
    for (int v = 0; v < n_; ++v)
      if (g_.ops[v].tmem_columns > 0) live += g_.ops[v].tmem_columns * Live(v, t_[at]);
    if (live <= report_.tmem_columns) continue;
    report_.tmem_columns = live;
    if (live > g_.machine.tmem_columns)
      Fail("tmem",
           fmt::format("{} columns of tensor memory are live at {}, more than {}", live, Name(at),
                       g_.machine.tmem_columns),
           {at});
  }
}

void ScheduleChecker::Channels() {
  depth_.assign(n_, 0);
  for (const ir::Channel& channel : s_.channels) {
    const int v = g_.FindOp(channel.value);
    if (v < 0) {
      Fail("ring", fmt::format("a channel carries {}, which is not in the graph", channel.value));
      continue;
    }
    const char* medium = g_.ops[v].smem_bytes > 0     ? "smem"
                         : g_.ops[v].tmem_columns > 0 ? "tmem"
                                                      : "reg";
    if (channel.medium != medium)
      Fail("ring",
           fmt::format("the channel of {} is in {}, its value in {}", Name(v), channel.medium,
                       medium),
           {v});
    if (depth_[v] != 0) Fail("ring", fmt::format("{} has two channels", Name(v)), {v});
    depth_[v] = channel.depth;
    if (channel.depth < 1 || channel.depth * ii_ < life_[v])
      Fail("ring",
           fmt::format("a value of {} lives {} cycles, longer than {} slots of {} cycles", Name(v),
                       life_[v], channel.depth, ii_),
           {v});
  }
  for (int v = 0; v < n_; ++v) {
    const GraphOp& op = g_.ops[v];
    bool crosses = false, by_register = false;
    for (const GraphEdge& e : g_.edges)
      if (e.from == v && e.kind != EdgeKind::kOrder && Cross(e)) {
        crosses = true;
        by_register = by_register || e.kind == EdgeKind::kRegister;
      }
    const bool needed = op.smem_bytes > 0 || (op.tmem_columns > 0 ? crosses : by_register);
    if (needed && depth_[v] == 0) Fail("ring", fmt::format("{} has no channel", Name(v)), {v});
    if (op.smem_bytes > 0)
      report_.smem_bytes += depth_[v] * (op.smem_bytes + g_.machine.barrier_bytes);
  }
  if (report_.smem_bytes > g_.machine.smem_bytes)
    Fail("smem", fmt::format("the rings take {} bytes of shared memory, more than {}",
                             report_.smem_bytes, g_.machine.smem_bytes));
}

}  // namespace tilec::scheduler
