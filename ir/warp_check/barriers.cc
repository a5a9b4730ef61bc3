// mbarriers: phases, arrivals, bytes, and parities that mean what they should.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

int Machine::BarrierOf(const Op& op, ValueId mbar, ValueId slot) {
  const auto it = p_.first_slot.find(mbar);
  if (it == p_.first_slot.end()) {
    Fail(kWarpForm, op, "its barrier is not an allocation");
    return -1;
  }
  int64_t number = 0;
  if (!SlotNumber(op, slot, fn_.type(mbar).depth, &number)) return -1;
  const int barrier = it->second + static_cast<int>(number);
  return Ready(op, barrier) ? barrier : -1;
}

// Initialised, and everybody who uses it knows.
bool Machine::Ready(const Op& op, int slot) {
  const Barrier& b = s_->barriers[static_cast<size_t>(slot)];
  if (b.ready && b.init_fence >= 0 &&
      Knows()[static_cast<size_t>(b.init_component)] >= b.init_fence)
    return true;
  Fail(kWarpPhase, op,
       fmt::format("{} {}", p_.BarrierName(slot),
                   !b.ready           ? "was never initialised"
                   : b.init_fence < 0 ? "was initialised, but no fence_mbar_init followed"
                                      : "was initialised, but no barrier stands in between"));
  return false;
}

Step Machine::Init(OpId id) {
  const Op& op = fn_.ops[id];
  const auto it = p_.first_slot.find(op.operands[0]);
  if (it == p_.first_slot.end()) return Fail(kWarpForm, op, "its barrier is not an allocation");
  if (who_ != Who::kElected)
    return Fail(kWarpForm, op, "more than one thread would initialise this barrier");
  for (int64_t i = 0; i < fn_.type(op.operands[0]).depth; ++i) {
    Barrier& b = s_->barriers[static_cast<size_t>(it->second + i)];
    if (b.ready)
      return Fail(
          kWarpPhase, op,
          fmt::format("{} is initialised twice", p_.BarrierName(it->second + static_cast<int>(i))));
    b.ready = true;
    b.count = op.i("count");
    b.init_component = Mine();
    b.init_fence = -1;
  }
  return Step::kDone;
}

// bytes < 0: a plain arrive.
Step Machine::Arrive(OpId id, int64_t bytes) {
  const Op& op = fn_.ops[id];
  const int slot = BarrierOf(op, op.operands[0], SlotOperand(op, fn_));
  if (slot < 0) return Step::kFailed;
  const int64_t warps = p_.roles[static_cast<size_t>(role_)].warps;
  const int64_t arrivals = who_ == Who::kElected ? 1 : who_ == Who::kWarps ? warps : 32 * warps;
  return ArriveTelling(id, slot, arrivals, bytes, Told());
}

Step Machine::ArriveTelling(OpId id, int slot, int64_t arrivals, int64_t bytes, Clock told) {
  const Op& op = fn_.ops[id];
  Barrier& b = s_->barriers[static_cast<size_t>(slot)];
  if (Knows()[static_cast<size_t>(SlotComponent(slot))] != b.phase)
    return Fail(kWarpArrivals, op,
                fmt::format("it may arrive at {} before the phase before is complete",
                            p_.BarrierName(slot)));
  if (b.arrived + arrivals > b.count)
    return Fail(kWarpArrivals, op,
                fmt::format("{} arrivals meet {}, which waits for {} more of {}", arrivals,
                            p_.BarrierName(slot), b.count - b.arrived, b.count));
  b.arrived += arrivals;
  if (bytes >= 0) b.expected += bytes * arrivals;
  b.last = id;
  b.last_role = role_;
  b.arriving = op_lists_.With(b.arriving, id);
  if (trace) b.filling.push_back(static_cast<int>(trace->size()) - 1);
  TellOfOneSlot(told, slot);
  Join(b.pending, told);
  return TryComplete(op, slot) ? Step::kDone : Step::kFailed;
}

// An arrival by copies tells that they have landed, and of what threads did nothing. That a role
// which only copies has come so far is no more than that: there is nothing else it did, and what
// the engine copies for it is done with a phase of its own.
void Machine::ForgetThreads(Barrier& b) const {
  const auto other = [&](const Record& r) {
    return r.component / 2 == b.last_role && !IsCopyIn(r.proxy);
  };
  const bool only_copies =
      std::none_of(s_->regions.begin(), s_->regions.end(), [&](const Region& region) {
        return std::any_of(region.records.begin(), region.records.end(), other);
      });
  for (size_t role = 0; role < p_.roles.size(); ++role)
    if (!only_copies || static_cast<int>(role) != b.last_role)
      for (const int c : {2 * static_cast<int>(role), 2 * static_cast<int>(role) + 1})
        Advance(b.done, c, 0);
}

bool Machine::TryComplete(const Op& op, int slot) {
  Barrier& b = s_->barriers[static_cast<size_t>(slot)];
  if (b.arrived < b.count) return true;
  if (b.delivered > b.expected) {
    Fail(kWarpBytes, op,
         fmt::format("{} expects {} bytes, and its boxes bring {} and more", p_.BarrierName(slot),
                     b.expected, b.delivered));
    return false;
  }
  if (b.delivered < b.expected) return true;
  // Whoever waited for the phase before must be past that wait: else it would see the wrong parity.
  for (size_t c = 0; b.seen.AnyAbove(b.pending); ++c)
    if (b.seen[c] > b.pending[c]) {
      Fail(kWarpPhase, op,
           fmt::format("{} may complete a phase while role `{}` still waits for the one before",
                       p_.BarrierName(slot), RoleOf(static_cast<int>(c))));
      return false;
    }
  b.arrived_ops = b.arriving;
  b.arriving = 0;
  b.filled = std::move(b.filling);
  b.filling.clear();
  b.done = b.pending;
  const bool copies = p_.by_copies.count(p_.slot_mbar[static_cast<size_t>(slot)]) > 0;
  if (copies) ForgetThreads(b);
  ++b.phase;
  completed_ = true;
  b.done.Set(static_cast<size_t>(SlotComponent(slot)), b.phase);
  b.carried_bytes = b.expected > 0 || copies;
  b.came_by_commit = b.by_commit;
  b.by_commit = false;
  b.arrived = b.expected = b.delivered = 0;
  b.pending.Clear();
  b.seen.Clear();
  return true;
}

// Somebody knows that its last complete phase is.
bool Machine::Seen(int slot) const {
  return std::any_of(s_->roles.begin(), s_->roles.end(), [&](const Role& r) {
    return r.elected[static_cast<size_t>(SlotComponent(slot))] >=
           s_->barriers[static_cast<size_t>(slot)].phase;
  });
}

// The phase meant follows from what the waiting threads know, not from when they come.
Step Machine::Wait(OpId id) {
  const Op& op = fn_.ops[id];
  const int slot = BarrierOf(op, op.operands[0], SlotOperand(op, fn_));
  if (slot < 0) return Step::kFailed;
  const Scalar parity = Get(op.operands[1]);
  if (!parity.constant()) return Fail(kWarpForm, op, "its parity does not follow from counters");
  if (who_ == Who::kWarps) return Fail(kWarpForm, op, "one thread of each warp waits alone");
  Barrier& b = s_->barriers[static_cast<size_t>(slot)];
  const auto mine = static_cast<size_t>(SlotComponent(slot));
  const int32_t known = Knows()[mine];  // phases complete, for certain
  if ((known & 1) == (parity.add & 1)) {
    if (b.phase == known) {
      me().stuck = id;
      me().stuck_slot = slot;
      me().stuck_phase = b.phase;
      return Step::kBlocked;
    }
    if (b.phase > known + 1)
      return Fail(kWarpPhase, op,
                  fmt::format("{} may be two phases further when this wait asks for parity {}",
                              p_.BarrierName(slot), parity.add));
  } else if (b.phase != known) {
    return Fail(kWarpPhase, op,
                fmt::format("parity {} of {} is that of a phase long complete, and the next may "
                            "complete at any time",
                            parity.add, p_.BarrierName(slot)));
  }
  me().stuck = OpId();
  Tick();
  if (b.phase > 0) {
    Use(id).needed = true;
    if (trace) trace->back().after = b.filled;
    for (int32_t list = b.arrived_ops; list != 0; list = op_lists_.Before(list))
      Use(op_lists_.Last(list)).needed = true;
  }
  for (Clock* clock : {&me().all, &me().elected}) {
    if (clock == &me().all && who_ == Who::kElected) continue;
    if (b.phase > 0) Join(*clock, b.done);
  }
  // The threads of one warp move together, so a one-warp role has passed when its elected one has.
  const bool one = p_.roles[static_cast<size_t>(role_)].warps == 1;
  const int clock = ClockOf(one ? 2 * role_ + 1 : Mine(), ApartOfSlot(slot));
  b.seen.Raise(static_cast<size_t>(clock), me().now);
  return Step::kDone;
}

}  // namespace tilec::ir::warp_check
