// What is said where a walk ends badly: of the op that fails, of roles that wait for each other, of
// what is left in flight.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/machine.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace tilec::ir::warp_check {

std::string Machine::OpName(OpId id) const {
  return id.valid() ? Info(fn_.ops[id].kind).mnemonic : "?";
}

std::string Machine::RoleOf(int component) const {
  const auto role = static_cast<size_t>(OwnerOf(component));
  return role < p_.roles.size() ? p_.roles[role].name : "?";
}

Step Machine::Fail(const DiagDef& def, const Op& op, std::string message) {
  Finding f;
  f.def = &def;
  f.at = op.at;
  f.message = fmt::format("role `{}`, `{}`: {}", p_.roles[static_cast<size_t>(role_)].name,
                          Info(op.kind).mnemonic, message);
  for (size_t r = 1; r < s_->roles.size(); ++r) {
    std::string turns;
    for (const Frame& frame : s_->roles[r].frames)
      if (frame.turns > 0) turns += fmt::format("{}{}", turns.empty() ? "" : ", ", frame.turns);
    if (!turns.empty())
      f.notes.push_back(
          fmt::format("role `{}` is in turn {} of its loops", p_.roles[r].name, turns));
  }
  finding_ = std::move(f);
  return Step::kFailed;
}

void Machine::ReportDeadlock(State& state) {
  s_ = &state;
  std::vector<std::string> waits;
  bool first = true;
  for (size_t i = 0; i < state.roles.size(); ++i) {
    if (state.roles[i].ended || !state.roles[i].stuck.valid()) continue;
    role_ = static_cast<int>(i);
    const OpId id = state.roles[i].stuck;
    who_ = me().frames.back().who;
    const Op& op = fn_.ops[id];
    const int slot = BarrierOf(op, op.operands[0], SlotOperand(op, fn_));
    if (slot < 0) return;  // BarrierOf has reported
    const Barrier& b = state.barriers[static_cast<size_t>(slot)];
    std::string lacks = fmt::format("{} of {} arrivals", b.arrived, b.count);
    if (b.expected || b.delivered)
      lacks += fmt::format(" and {} of {} bytes", b.delivered, b.expected);
    const std::string text = fmt::format("role `{}` waits for {}, which has {}", p_.roles[i].name,
                                         p_.BarrierName(slot), lacks);
    if (first) {
      Fail(b.expected != b.delivered && b.arrived == b.count ? kWarpBytes : kWarpDeadlock, op,
           fmt::format("nothing will end this wait for {}, which has {}", p_.BarrierName(slot),
                       lacks));
      first = false;
    } else {
      waits.push_back(text);
    }
  }
  if (finding_) finding_->notes.insert(finding_->notes.end(), waits.begin(), waits.end());
}

// Nothing is left in flight.
bool Machine::CheckEnd(State& state) {
  s_ = &state;
  for (size_t i = 0; i < state.roles.size(); ++i) {
    role_ = static_cast<int>(i);
    const Role& r = state.roles[i];
    if (!r.flights.empty()) {
      Fail(kWarpOpenEnd, fn_.ops[r.flights[0].op], "the role ends without awaiting this product");
      return false;
    }
    for (const Region& region : state.regions)
      for (const Record& record : region.records)
        if (record.proxy == Proxy::kThreadCopy && record.slot < 0 &&
            record.component / 2 == static_cast<int>(i)) {
          Fail(kWarpOpenEnd, fn_.ops[record.op],
               "no cp_arrive follows: nobody learns that this copy has landed");
          return false;
        }
    if (r.uncommitted) {
      Fail(kWarpOpenEnd, fn_.ops[fn_.blocks[fn_.body].ops.back()],
           "the role ends without committing its last product");
      return false;
    }
    if (!r.bulk.empty()) {
      for (const Region& region : state.regions)
        for (const Record& record : region.records)
          if (record.proxy == Proxy::kCopyOut && record.end < 0) {
            Fail(kWarpOpenEnd, fn_.ops[record.op],
                 "the role ends while this copy may still read shared memory");
            return false;
          }
    }
  }
  for (int slot = 0; slot < p_.slots(); ++slot) {
    const Barrier& b = state.barriers[static_cast<size_t>(slot)];
    const Op& op = fn_.ops[b.last.valid() ? b.last : fn_.blocks[fn_.body].ops.back()];
    role_ = b.last_role;
    if (b.arrived || b.expected || b.delivered) {
      Fail(kWarpOpenEnd, op,
           fmt::format("the kernel ends with {} of {} arrivals and {} of {} bytes at {}", b.arrived,
                       b.count, b.delivered, b.expected, p_.BarrierName(slot)));
      return false;
    }
    if (!b.carried_bytes && !b.came_by_commit) continue;
    if (!Seen(slot)) {
      Fail(kWarpOpenEnd, op,
           fmt::format("the kernel ends while {} to {} may be under way",
                       b.carried_bytes ? "copies" : "the arrival of a commit",
                       p_.BarrierName(slot)));
      return false;
    }
  }
  return true;
}

}  // namespace tilec::ir::warp_check
