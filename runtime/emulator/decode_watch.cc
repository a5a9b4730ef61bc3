// What only a checked launch asks of a program: which instructions touch registers that wgmma works
// on, and which branches depend on a relaxed load without a fence behind them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/emulator/decode.h"
#include "runtime/emulator/handlers.h"
#include "runtime/emulator/judge_hooks.h"

namespace tilec::runtime::emulator {

void Decoder::WatchRegisters() {
  using Kind = judge::RegisterUse::Kind;
  const Handler mov = AluHandler(AluOp::kMov, Type::kB32, {});
  std::vector<uint8_t> watched(vregs_.size());
  std::vector<std::pair<uint32_t, uint32_t>> copies;  // from, to
  bool any = false;
  // Of a wgmma: is list entry `at` of its accumulators, or of its fragment?
  auto in_list = [&](uint32_t list, int32_t at) {
    return at > static_cast<int32_t>(list) && at <= static_cast<int32_t>(list + p_->lists[list]);
  };
  std::map<uint32_t, std::pair<int64_t, int64_t>> movs;  // instruction → from, to
  for (const RegUse& u : uses_) {
    const Inst& i = p_->code[u.inst];
    if (i.run == RunWgmma && u.field >= 8) {
      watched[u.vreg] = 1;
      any = true;
    } else if (i.run == mov && u.field < 2) {
      auto& m = movs.emplace(u.inst, std::make_pair(-1, -1)).first->second;
      (u.field == 0 ? m.second : m.first) = u.vreg;
    }
  }
  if (!any) return;
  for (const auto& [inst, m] : movs)
    if (m.first >= 0 && m.second >= 0)
      copies.emplace_back(static_cast<uint32_t>(m.first), static_cast<uint32_t>(m.second));
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [from, to] : copies)
      if (watched[from] && !watched[to]) watched[to] = 1, changed = true;
  }
  judge::RegisterMap& map = p_->watched;
  std::vector<uint32_t> number(vregs_.size());
  for (size_t r = 0; r < watched.size(); ++r)
    if (watched[r]) number[r] = map.count++;
  std::vector<std::vector<judge::RegisterUse>> per(p_->code.size());
  for (const RegUse& u : uses_) {
    if (!watched[u.vreg]) continue;
    const Inst& i = p_->code[u.inst];
    auto add = [&](Kind kind) { per[u.inst].push_back({number[u.vreg], kind}); };
    auto m = movs.find(u.inst);
    if (i.run == RunWgmma && u.field >= 8) {
      bool fragment =
          i.o[1] != 0 && p_->wgmma[i.imm].a_in_registers && in_list(i.o[1], u.field - 8);
      add(fragment ? Kind::kFragment : Kind::kAccumulator);
    } else if (m != movs.end() && m->second.first >= 0 &&
               watched[static_cast<size_t>(m->second.first)] && u.field < 2) {
      if (u.field == 0)
        add(Kind::kCopyTo);
      else
        per[u.inst].insert(per[u.inst].begin(), {number[u.vreg], Kind::kCopyFrom});
    } else {
      add(u.def ? Kind::kWrite : Kind::kRead);
    }
  }
  map.first.resize(p_->code.size() + 1);
  for (size_t k = 0; k < per.size(); ++k) {
    map.first[k] = static_cast<uint32_t>(map.uses.size());
    map.uses.insert(map.uses.end(), per[k].begin(), per[k].end());
  }
  map.first[per.size()] = static_cast<uint32_t>(map.uses.size());
}

namespace {

// Following the code from `pc`: does a memory access come before a fence, barrier or acquire?
bool AccessBeforeFence(const Program& p, size_t pc) {
  constexpr size_t kFar = 64;
  for (size_t k = pc; k < p.code.size() && k < pc + kFar; ++k) {
    const Inst& i = p.code[k];
    bool access = i.run == RunLd || i.run == RunSt || i.run == RunAtom;
    if (access) return OrderOf(i) == judge::Order::kWeak || OrderOf(i) == judge::Order::kRelaxed;
    if (i.run == RunSync && static_cast<SyncKind>(i.u[0]) == SyncKind::kThreadFence)
      return (i.u[1] & 1) == 0;
    if (i.run == RunBra || i.run == RunRet || i.run == RunBar || i.run == RunClusterWait ||
        i.run == RunCall || i.run == RunReturn)
      return false;
  }
  return false;
}

}  // namespace

void Decoder::FindUnfencedControls() {
  constexpr uint32_t kNear = 16;
  std::multimap<uint32_t, const RegUse*> at;  // by instruction
  bool any = false;
  for (const Inst& i : p_->code)
    any = any || (i.run == RunLd && OrderOf(i) == judge::Order::kRelaxed);
  if (!any) return;
  for (const RegUse& u : uses_) at.emplace(u.inst, &u);
  // The register that `inst` defines from `from` (any, if negative); −1: none.
  auto defined = [&](uint32_t inst, int64_t from) -> int64_t {
    int64_t result = -1;
    bool uses = from < 0;
    for (auto [it, end] = at.equal_range(inst); it != end; ++it) {
      if (it->second->def) result = it->second->vreg;
      if (it->second->use && it->second->vreg == from) uses = true;
    }
    return uses ? result : -1;
  };
  for (uint32_t load = 0; load < p_->code.size(); ++load) {
    const Inst& i = p_->code[load];
    if (i.run != RunLd || OrderOf(i) != judge::Order::kRelaxed) continue;
    int64_t value = defined(load, -1), condition = -1;
    for (uint32_t k = load + 1; k < p_->code.size() && k < load + kNear; ++k) {
      const Inst& next = p_->code[k];
      if (next.run == RunBra) {
        bool depends = false;
        for (auto [it, end] = at.equal_range(k); it != end; ++it)
          depends = depends || (it->second->field == 7 && it->second->vreg == condition);
        if (!depends) break;
        bool back = next.imm <= load;
        if (AccessBeforeFence(*p_, k + 1) || (!back && AccessBeforeFence(*p_, next.imm)))
          p_->unfenced_controls.push_back(load);
        break;
      }
      if (int64_t r = defined(k, value); r >= 0 && vregs_[static_cast<size_t>(r)].bits == 1)
        condition = r;
    }
  }
}

}  // namespace tilec::runtime::emulator
