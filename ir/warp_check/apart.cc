// Rings apart: of what was done to a ring's buffers, and of its phases, a ring's own barriers tell,
// and those of other rings tell nothing.
//
// Whoever fills a slot has waited for the empty barrier of that slot, whoever reads it for the full
// one. What the barriers of another ring say of the slot is never needed, but it is part of the
// state: which of the last slots of one ring each empty barrier of the other knows to be free says
// in which order both were released, and with branches between them every order occurs. So each
// role has one clock more for each ring, and an arrival at a barrier of a ring tells its own.
//
// To know less is to fail wherever who knows more fails (docs/proofs.md), so a proof is a proof.
// Where it is none, the walk is made again with all that is told.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

// Before the walk begins. False: there are no two rings.
bool Machine::TellApart() {
  if (rings_.groups.size() < 2 || !p_.tensor_columns.empty()) return false;
  ring_of_slot_.assign(static_cast<size_t>(p_.slots()), -1);
  ring_of_region_.assign(static_cast<size_t>(p_.regions()), -1);
  for (size_t g = 0; g < rings_.groups.size(); ++g) {
    const RingGroup& group = rings_.groups[g];
    for (ValueId mbar : group.mbars)
      for (int64_t k = 0; k < fn_.type(mbar).depth; ++k)
        ring_of_slot_[static_cast<size_t>(p_.first_slot.at(mbar) + k)] = static_cast<int>(g);
    for (ValueId v : group.buffers) {
      const Buffer& b = p_.buffers.at(v);
      if (b.depth <= 1) continue;  // its bytes may be those of another (rings.cc)
      const auto [first, end] = p_.RegionsOf(b.offset, b.offset + b.depth * b.slot_bytes);
      for (int i = first; i < end; ++i) ring_of_region_[static_cast<size_t>(i)] = static_cast<int>(g);
    }
  }
  rings_apart_ = static_cast<int>(rings_.groups.size());
  FindMeetings();
  return true;
}

// Where threads of a role meet, each learns what the others did. Of a ring it matters to a role
// whose elected thread speaks for all at the ring's barriers, or that writes the ring's buffers.
// Otherwise it would only say of each slot whether the role has met since it was read.
void Machine::FindMeetings() {
  const auto rings = static_cast<size_t>(rings_apart_);
  meets_for_.assign(p_.roles.size(), std::vector<char>(rings, 0));
  const auto note = [&](size_t role, ValueId object) {
    for (size_t g = 0; g < rings; ++g) {
      const RingGroup& group = rings_.groups[g];
      for (const std::vector<ValueId>* members : {&group.mbars, &group.buffers})
        if (std::count(members->begin(), members->end(), object)) meets_for_[role][g] = 1;
    }
  };
  for (size_t role = 0; role < p_.roles.size(); ++role) {
    const auto walk = [&](const auto& self, BlockId block, bool elected) -> void {
      for (OpId id : fn_.blocks[block].ops) {
        const Op& op = fn_.ops[id];
        if (op.kind == OpKind::kRole) continue;  // on their own
        const bool reads = op.kind == OpKind::kMbarWait || op.kind == OpKind::kSmemLoad ||
                           op.kind == OpKind::kMma || op.kind == OpKind::kSimtDot;
        const bool arrives = op.kind == OpKind::kMbarArrive;
        if (!reads && (elected || !arrives))
          for (ValueId v : op.operands) note(role, v);
        const bool one = op.kind == OpKind::kElect && op.s("scope") != "warp";
        for (BlockId region : op.regions) self(self, region, elected || one);
      }
    };
    walk(walk, p_.roles[role].body, false);
  }
}

int Machine::RingOfRegion(int region) const {
  return rings_apart_ ? ring_of_region_[static_cast<size_t>(region)] : -1;
}

int Machine::RingOfSlot(int slot) const {
  return rings_apart_ ? ring_of_slot_[static_cast<size_t>(slot)] : -1;
}

bool Machine::MeetsFor(int role, int ring) const {
  return meets_for_[static_cast<size_t>(role)][static_cast<size_t>(ring)] != 0;
}

// All clocks of one component of a role: its own, and that of each ring.
void Machine::Advance(Clock& clock, int component, int32_t now) const {
  clock[static_cast<size_t>(component)] = now;
  for (int g = 0; g < rings_apart_; ++g) clock[static_cast<size_t>(ClockOf(component, g))] = now;
}

void Machine::TellOfOneRing(Clock& told, int slot) const {
  const int ring = RingOfSlot(slot);
  if (ring < 0) return;
  for (int c = 0; c < 2 * static_cast<int>(p_.roles.size()); ++c)
    for (int g = 0; g < rings_apart_; ++g)
      if (g != ring) told[static_cast<size_t>(ClockOf(c, g))] = 0;
  for (int other = 0; other < p_.slots(); ++other)
    if (RingOfSlot(other) >= 0 && RingOfSlot(other) != ring)
      told[static_cast<size_t>(SlotComponent(other))] = 0;
}

// What others learn while a slot is being read depends on how the reader came by, and does not
// matter: the slot is filled again by somebody who knows that the reading is over. So as long as a
// barrier does not say that, it is taken not to say either that the slot was full; and who waited
// for the slot to be full is taken to be past that wait when the reading is over. Both ask for
// more than has to be, and make states equal that differ in nothing else.
void Machine::SimplifyFilled() {
  for (const Region& region : s_->regions)
    for (const Record& filled : region.records) {
      if (filled.proxy != Proxy::kCopyIn || filled.slot < 0) continue;
      Barrier& full = s_->barriers[static_cast<size_t>(filled.slot)];
      const auto over = [](const Record& r) { return r.proxy == Proxy::kGeneric ? r.n : r.end; };
      const auto reads = [](const Record& r) { return !r.write && r.proxy != Proxy::kCopyIn; };
      bool any = false;
      for (const Record& r : region.records) {
        if (!reads(r)) continue;
        const int clock = ClockOf(r.component, RingOfSlot(filled.slot));
        int32_t& waited = full.seen[static_cast<size_t>(clock)];
        if (waited > 0) waited = std::max(waited, over(r));
        any = true;
      }
      const auto slot = static_cast<size_t>(SlotComponent(filled.slot));
      const auto simplify = [&](Clock& clock) {
        const bool learned =
            std::any_of(region.records.begin(), region.records.end(), [&](const Record& r) {
              return reads(r) && over(r) >= 0 && clock[static_cast<size_t>(ClockOf(r))] >= over(r);
            });
        if (any && !learned && clock[slot] == full.phase) clock[slot] = full.phase - 1;
      };
      for (Barrier& b : s_->barriers) {
        simplify(b.pending);
        if (&b != &full) simplify(b.done);
      }
    }
}

}  // namespace tilec::ir::warp_check
