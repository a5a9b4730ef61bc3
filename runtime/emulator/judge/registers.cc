// W1 and W2.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/judge/registers.h"

#include <fmt/format.h>

#include "runtime/emulator/judge/judge.h"

namespace tilec::runtime::judge {

void Judge::SetRegisters(uint32_t warp, uint32_t pc, uint32_t count) {
  warps_[warp].set_registers.emplace_back(pc, count);
}

// All warps of a warpgroup must have executed the same setmaxnreg.
void Judge::CompareRegisters(uint32_t rank) {
  for (uint32_t w = 0; w < shape_.warps_per_cta; ++w) {
    uint32_t warp = rank * shape_.warps_per_cta + w;
    const auto& mine = warps_[warp].set_registers;
    const auto& others = warps_[warp - w % 4].set_registers;
    if (mine == others) continue;
    uint32_t pc = others.size() > mine.size() ? others.back().first : mine.back().first;
    if (!launch_->First(Rule::kR1, pc, 0)) continue;
    Finding f = Begin(Rule::kR1, pc);
    f.message = fmt::format(
        "{} executed other setmaxnreg instructions than the first warp of its "
        "warpgroup",
        Who(warp));
    f.fix = "let all four warps of the warpgroup execute it";
    launch_->Say(std::move(f), pc, 0);
  }
}

void Judge::WgmmaFence(uint32_t warp) { ++warps_[warp].tags.fences; }

void Judge::Registers(uint32_t warp, uint32_t pc, uint32_t lanes) {
  const RegisterMap& map = *launch_->registers;
  WarpState& w = warps_[warp];
  const RegisterTag* from = nullptr;
  for (uint32_t k = map.first[pc]; k < map.first[pc + 1]; ++k) {
    const RegisterUse& use = map.uses[k];
    RegisterTag& tag = w.tags.tags[use.reg];
    bool write = use.kind == RegisterUse::Kind::kWrite;
    switch (use.kind) {
      case RegisterUse::Kind::kAccumulator:
      case RegisterUse::Kind::kFragment: continue;  // WgmmaRegisters
      case RegisterUse::Kind::kCopyFrom: from = &tag; continue;
      case RegisterUse::Kind::kCopyTo:
        if (from != nullptr) tag = *from;
        continue;
      case RegisterUse::Kind::kRead:
      case RegisterUse::Kind::kWrite: break;
    }
    Epoch busy = write ? std::max(tag.written, tag.reading) : tag.written;
    if (busy > w.wgmma_retired) {
      if (launch_->First(Rule::kW2, pc, tag.wgmma_pc)) {
        Finding f = Begin(Rule::kW2, pc, warp, lanes);
        f.accesses[0].what = write ? "writes a register" : "reads a register";
        Access other;
        other.who = fmt::format("wgmma group {}", busy - 1);
        other.what = tag.written == busy ? "accumulates into it" : "reads it as a fragment of A";
        other.site = launch_->site(tag.wgmma_pc);
        f.accesses.push_back(std::move(other));
        f.message = fmt::format("a register of wgmma group {} is {} while the group is in flight",
                                busy - 1, write ? "written" : "read");
        f.missing = fmt::format("`wgmma.wait_group` for group {}", busy - 1);
        f.fix = "put `wgmma.wait_group.sync.aligned 0;` before the access";
        launch_->Say(std::move(f), pc, tag.wgmma_pc);
      }
      tag.written = tag.reading = 0;
    }
    tag.touched = w.tags.fences + 1;
    tag.touch_pc = pc;
  }
}

void Judge::WgmmaRegisters(const AsyncOp& op, uint32_t shape) {
  const RegisterMap& map = *launch_->registers;
  if (map.first.empty()) return;
  for (uint32_t warp = op.warp; warp < op.warp + op.warps; ++warp) {
    WarpState& w = warps_[warp];
    uint32_t fences = w.tags.fences;
    const RegisterTag* bad = nullptr;
    bool by_wgmma = false;
    for (uint32_t k = map.first[op.pc]; k < map.first[op.pc + 1]; ++k) {
      const RegisterUse& use = map.uses[k];
      bool fragment = use.kind == RegisterUse::Kind::kFragment;
      if (!fragment && use.kind != RegisterUse::Kind::kAccumulator) continue;
      RegisterTag& tag = w.tags.tags[use.reg];
      if (tag.touched == fences + 1 || fences == 0) bad = &tag;
      // Another wgmma works on it: the same shape may chain accumulators, nothing else may.
      bool chains = !fragment && tag.shape == shape;
      if (tag.chained == fences + 1 && !chains && tag.written > w.wgmma_retired)
        bad = &tag, by_wgmma = true;
      if (bad != nullptr) break;
    }
    if (bad != nullptr && launch_->First(Rule::kW1, op.pc, 0)) {
      Finding f = Begin(Rule::kW1, op.pc, warp);
      f.accesses[0].what = "uses registers";
      if (fences != 0 || bad->touched != 0) {
        Access other;
        other.who = Who(warp);
        other.what = by_wgmma ? "works on one of them" : "accesses one of them";
        other.site = launch_->site(by_wgmma ? bad->wgmma_pc : bad->touch_pc);
        f.accesses.push_back(std::move(other));
      }
      f.message = fences == 0
                      ? "the first wgmma of the warp has no `wgmma.fence` before it"
                      : "a register of this wgmma was accessed since the last `wgmma.fence`";
      f.missing = "`wgmma.fence` between the access and the wgmma";
      f.fix = "put `wgmma.fence.sync.aligned;` before the wgmma";
      launch_->Say(std::move(f), op.pc, 0);
    }
    for (uint32_t k = map.first[op.pc]; k < map.first[op.pc + 1]; ++k) {
      const RegisterUse& use = map.uses[k];
      RegisterTag& tag = w.tags.tags[use.reg];
      if (use.kind == RegisterUse::Kind::kFragment) {
        tag.reading = op.epoch;
        tag.wgmma_pc = op.pc;
      } else if (use.kind == RegisterUse::Kind::kAccumulator) {
        tag.written = op.epoch;
        tag.chained = fences + 1;
        tag.shape = shape;
        tag.wgmma_pc = op.pc;
      }
    }
  }
}

}  // namespace tilec::runtime::judge
