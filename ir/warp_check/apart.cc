// Slots apart: of what was done to a slot of a ring, and of the phases of its barriers, these
// barriers tell, and those of other slots and rings tell nothing.
//
// Whoever fills a slot has waited for the empty barrier of that slot, whoever reads it for the full
// one. What the barriers of another slot say of it is never needed, but it is part of the state:
// which of the last slots of one ring each empty barrier of the other knows to be free says in
// which order both were released, and of one ring it says which slots were released together. With
// branches in between every order occurs. So each role has one clock more for each slot, and an
// arrival at a barrier of a slot tells that one.
//
// To know less is to fail wherever who knows more fails (docs/proofs.md), so a proof is a proof.
// Where it is none, the walk is made again with all that is told.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/warp_check/machine.h"

namespace tilec::ir::warp_check {

// Before the walk begins. False: there are no rings.
bool Machine::TellApart() {
  if (rings_.groups.empty() || !p_.tensor_columns.empty()) return false;
  apart_of_slot_.assign(static_cast<size_t>(p_.slots()), -1);
  apart_of_region_.assign(static_cast<size_t>(p_.regions()), -1);
  const auto mark = [&](const Buffer& b, int64_t slot, int a) {
    const int64_t at = b.offset + slot * b.slot_bytes;
    const auto [begin, end] = p_.RegionsOf(at, at + b.slot_bytes);
    for (int i = begin; i < end; ++i) apart_of_region_[static_cast<size_t>(i)] = a;
  };
  for (size_t g = 0; g < rings_.groups.size(); ++g) {
    const RingGroup& group = rings_.groups[g];
    if (group.depth <= 1) continue;
    const auto first = static_cast<int>(ring_apart_.size());
    ring_apart_.insert(ring_apart_.end(), static_cast<size_t>(group.depth), static_cast<int>(g));
    for (ValueId mbar : group.mbars) {
      ring_of_[mbar] = static_cast<int>(g);
      for (int k = 0; k < group.depth; ++k)
        apart_of_slot_[static_cast<size_t>(p_.first_slot.at(mbar) + k)] = first + k;
    }
    for (ValueId v : group.buffers) {
      ring_of_[v] = static_cast<int>(g);
      for (int k = 0; k < group.depth; ++k) mark(p_.buffers.at(v), k, first + k);
    }
  }
  // What has one slot is one more: which of its barriers belong together nothing says.
  const auto rest = static_cast<int>(rings_.groups.size());
  for (const auto& [mbar, slot] : p_.first_slot)
    if (fn_.type(mbar).depth == 1)
      ring_of_[mbar] = rest, apart_of_slot_[static_cast<size_t>(slot)] = apart();
  for (const auto& [v, b] : p_.buffers)
    if (b.depth == 1 && b.over.empty() && p_.HasBytesAlone(v))
      ring_of_[v] = rest, mark(b, 0, apart());
  ring_apart_.push_back(rest);
  FindMeetings();
  return true;
}

// Is it a slot of a ring, which another slot may stand for?
bool Machine::OfRing(int apart_of) const {
  return apart_of >= 0 &&
         ring_apart_[static_cast<size_t>(apart_of)] < static_cast<int>(rings_.groups.size());
}

// Where threads of a role meet, each learns what the others did. Of a ring it matters to a role
// whose elected thread speaks for all at the ring's barriers, or that writes the ring's buffers.
// Otherwise it would only say of each slot whether the role has met since it was read.
void Machine::FindMeetings() {
  const size_t rings = rings_.groups.size() + 1;
  using Marks = std::vector<std::vector<char>>;  // by role, by ring
  Marks takes_part(p_.roles.size(), std::vector<char>(rings, 0));
  meets_for_ = takes_part;
  const auto note = [&](const auto& self, Marks& marks, size_t role, ValueId object) -> void {
    if (const auto it = p_.buffers.find(object); it != p_.buffers.end())
      for (ValueId under : it->second.over) self(self, marks, role, under);
    if (const auto it = ring_of_.find(object); it != ring_of_.end())
      marks[role][static_cast<size_t>(it->second)] = 1;
  };
  for (size_t role = 0; role < p_.roles.size(); ++role) {
    const auto walk = [&](const auto& self, BlockId block, bool elected) -> void {
      for (OpId id : fn_.blocks[block].ops) {
        const Op& op = fn_.ops[id];
        if (op.kind == OpKind::kRole) continue;  // on their own
        const bool reads = op.kind == OpKind::kMbarWait || op.kind == OpKind::kSmemLoad ||
                           op.kind == OpKind::kMma || op.kind == OpKind::kSimtDot;
        const bool arrives = op.kind == OpKind::kMbarArrive;
        for (ValueId v : op.operands) note(note, takes_part, role, v);
        if (!reads && (elected || !arrives))
          for (ValueId v : op.operands) note(note, meets_for_, role, v);
        const bool one = op.kind == OpKind::kElect && op.s("scope") != "warp";
        for (BlockId region : op.regions) self(self, region, elected || one);
      }
    };
    walk(walk, p_.roles[role].body, false);
  }
  // Of a slot only the roles that take part in its ring know, and only they have to.
  heeds_.assign(p_.roles.size(), std::vector<char>(static_cast<size_t>(components()), 1));
  for (size_t role = 0; role < p_.roles.size(); ++role)
    for (int a = 0; a < apart(); ++a) {
      if (takes_part[role][static_cast<size_t>(ring_apart_[static_cast<size_t>(a)])]) continue;
      for (int c = 0; c < 2 * static_cast<int>(p_.roles.size()); ++c)
        heeds_[role][static_cast<size_t>(ClockOf(c, a))] = 0;
      for (int slot = 0; slot < p_.slots(); ++slot)
        if (ApartOfSlot(slot) == a) heeds_[role][static_cast<size_t>(SlotComponent(slot))] = 0;
    }
}

int Machine::ApartOfRegion(int region) const {
  return ring_apart_.empty() ? -1 : apart_of_region_[static_cast<size_t>(region)];
}

int Machine::ApartOfSlot(int slot) const {
  return ring_apart_.empty() ? -1 : apart_of_slot_[static_cast<size_t>(slot)];
}

bool Machine::MeetsFor(int role, int apart) const {
  const auto ring = static_cast<size_t>(ring_apart_[static_cast<size_t>(apart)]);
  return meets_for_[static_cast<size_t>(role)][ring] != 0;
}

// All clocks of one component of a role: its own, and that of each slot.
void Machine::Advance(Clock& clock, int component, int32_t now) const {
  int32_t* const counts = clock.Write();
  counts[component] = now;
  if (apart() > 0) std::fill_n(counts + ClockOf(component, 0), apart(), now);
}

void Machine::TellOfOneSlot(Clock& told, int slot) const {
  const int one = ApartOfSlot(slot);
  if (one < 0) return;
  int32_t* const counts = told.Write();
  for (int c = 0; c < 2 * static_cast<int>(p_.roles.size()); ++c) {
    const int32_t told_of_it = counts[ClockOf(c, one)];
    std::fill_n(counts + ClockOf(c, 0), apart(), 0);
    counts[ClockOf(c, one)] = told_of_it;
  }
  for (int other = 0; other < p_.slots(); ++other)
    if (const int a = ApartOfSlot(other); a >= 0 && a != one) counts[SlotComponent(other)] = 0;
}

// Nothing was done with it yet.
bool Machine::Fresh(const Barrier& b) const {
  return b.phase == 0 && !b.arrived && !b.expected && !b.delivered &&
         !b.seen.AnyAbove(Clock(b.seen.size()));
}

// A slot that was used stands for one that was not, if its barriers are as far: there are accesses
// to come after and waits to come before, and what its barriers tell is of them alone. One that was
// read stands for one that was released unread: there is more to come after.
bool Moment::Covers(const Moment& other) const {
  for (size_t i = 0; i < written.size(); ++i)
    if (written[i] && !other.written[i]) return false;
  for (size_t a = 0; a < slots.size(); ++a) {
    const Slot &mine = slots[a], &theirs = other.slots[a];
    if (theirs.told == 0) continue;
    const bool more = std::includes(mine.records.begin(), mine.records.end(),
                                    theirs.records.begin(), theirs.records.end());
    if (mine.told != theirs.told || !more) return false;
  }
  return true;
}

// A slot that was read and released holds nothing any more: who reads it again has to wait until it
// is filled. That asks for more than has to be, and lets such a slot stand for a fresh one.
void Machine::EmptyReleased() {
  for (size_t i = 0; i < s_->regions.size(); ++i) {
    const int of = ApartOfRegion(static_cast<int>(i));
    Region& region = s_->regions[i];
    if (!OfRing(of) || !region.written) continue;
    for (int slot = 0; slot < p_.slots(); ++slot) {
      if (ApartOfSlot(slot) != of) continue;
      const Clock& done = s_->barriers[static_cast<size_t>(slot)].done;
      for (const Record& r : region.records) {
        const bool other = r.slot != slot;
        if (other && (r.write ? IsCopyIn(r.proxy) : true) && Known(r, done)) region.written = false;
      }
    }
  }
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
      // Products that complete at a barrier count by themselves; their thread is past its wait.
      const auto by_barrier = [](const Record& r) { return r.proxy == Proxy::kTensorProduct; };
      bool any = false;
      for (const Record& r : region.records) {
        if (!reads(r)) continue;
        any = true;
        if (by_barrier(r)) continue;
        const auto clock = static_cast<size_t>(ClockOf(r.component, ApartOfSlot(filled.slot)));
        if (full.seen[clock] > 0) full.seen.Raise(clock, over(r));
      }
      const auto slot = static_cast<size_t>(SlotComponent(filled.slot));
      if (!any) continue;
      const auto simplify = [&](Clock& clock) {
        if (clock[slot] != full.phase) return;
        const bool learned =
            std::any_of(region.records.begin(), region.records.end(), [&](const Record& r) {
              if (!reads(r)) return false;
              if (by_barrier(r)) return Known(r, clock);
              return over(r) >= 0 && clock[static_cast<size_t>(ClockOf(r))] >= over(r);
            });
        if (!learned) clock.Set(slot, full.phase - 1);
      };
      for (Barrier& b : s_->barriers) {
        simplify(b.pending);
        if (&b != &full) simplify(b.done);
      }
    }
}

}  // namespace tilec::ir::warp_check
