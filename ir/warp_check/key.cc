// When are two states the same? When everything that can still matter is: where roles stand, which
// accesses are known to whom (as order, not as counts), counters up to their period, positions
// relative to the slowest role in the loop. Two states of one key have the same futures, so the
// second need not be walked: that closes the induction over trip counts.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/key.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tilec::ir::warp_check {

// Marks where the role stands.
void Machine::Stand(const Role& r) {
  for (const int32_t block : stands_in_) standing_[static_cast<size_t>(block)] = -1;
  stands_in_.clear();
  for (const Frame& f : r.frames) {
    standing_[static_cast<size_t>(f.block.index)] = f.next;
    stands_in_.push_back(f.block.index);
  }
}

// No op that the role has still to execute before the value is made anew reads it.
bool Machine::Dead(int32_t value) const {
  const int32_t home = home_[static_cast<size_t>(value)];
  return home >= 0 &&
         last_use_[static_cast<size_t>(value)] < standing_[static_cast<size_t>(home)] - 1;
}

// Accesses that every role which may touch the same memory knows to be over order nothing any more.
void Machine::Prune() {
  for (size_t at = 0; at < s_->regions.size(); ++at)
    std::erase_if(s_->regions[at].records, [&](const Record& record) {
      // What is known of tensor memory is not what is known of the rest.
      if (static_cast<int>(at) >= p_.first_tensor_region()) return false;
      if (record.proxy == Proxy::kGeneric && record.fence < 0) return false;
      if (record.proxy == Proxy::kThreadCopy) return false;  // the other proxy never knows of it
      for (size_t i = 1; i < s_->roles.size(); ++i) {
        const Role& r = s_->roles[i];
        if (r.ended || !p_.touches[i][at]) continue;
        if (!Known(record, r.all)) return false;
        if (record.proxy == Proxy::kGeneric &&
            r.all[static_cast<size_t>(ClockOf(record))] < record.fence)
          return false;
      }
      return s_->roles[0].ended;
    });
}

Moment Machine::Writer::Write() {
  common = KnownToAll({});
  kept.Clear(common.size());
  FindClocks();
  if (m.agreed)
    for (const int64_t part : m.AgreedKey()) out(part);
  else
    WriteKnown();
  for (const char handed : s.handed) out(handed);
  for (size_t i = 0; i < s.roles.size(); ++i) {
    out(s.roles[i].started), out(s.roles[i].ended);
    if (s.roles[i].started && !s.roles[i].ended) WriteRole(i);
  }
  for (int32_t slot : turn.slots) WriteArrivals(slot);
  // What was done to a slot that is told apart is not part of the key. Slots and regions stand
  // where the key begins to count, and so does the number of what is told apart.
  Moment moment;
  std::vector<KeyText>& told = kept.told;
  told.resize(static_cast<size_t>(m.apart()));
  for (KeyText& text : told) text.Clear();
  std::vector<char> used(told.size(), 0);
  moment.slots.resize(told.size());
  for (size_t i = 0; i < turn.slots.size(); ++i) {
    const int of = m.ApartOfSlot(static_cast<int>(i));
    if (!m.OfRing(of)) {
      WriteTold(turn.slots[i]);
      continue;
    }
    std::swap(out, told[static_cast<size_t>(of)]);
    by_number = false;  // such texts are compared one by one
    WriteTold(turn.slots[i]);
    by_number = true;
    std::swap(out, told[static_cast<size_t>(of)]);
    used[static_cast<size_t>(of)] |= !m.Fresh(s.barriers[static_cast<size_t>(turn.slots[i])]);
  }
  for (size_t i = 0; i < turn.regions.size(); ++i) {
    const Region& r = s.regions[static_cast<size_t>(turn.regions[i])];
    moment.written.push_back(r.written);
    const int of = m.ApartOfRegion(static_cast<int>(i));
    if (!m.OfRing(of)) {
      WriteRecords(r);
      continue;
    }
    const auto at = static_cast<size_t>(of);
    for (const Record& record : r.records) {
      kept.record.Clear();
      std::swap(out, kept.record);
      by_number = false;
      out(i), WriteRecord(record);
      by_number = true;
      std::swap(out, kept.record);
      moment.slots[at].records.push_back(m.texts_.Of(kept.record.text()));
      used[at] = 1;
    }
  }
  moment.key = out.Take();
  for (size_t a = 0; a < told.size(); ++a) {
    Moment::Slot& slot = moment.slots[a];
    if (used[a]) slot.told = m.texts_.Of(told[a].text());
    std::sort(slot.records.begin(), slot.records.end());
  }
  return moment;
}

Moment Machine::Key(State& state) {
  s_ = &state;
  EmptyReleased();
  Prune();
  if (agreed) SimplifyFilled();
  return Writer(*this, state).Write();
}

}  // namespace tilec::ir::warp_check
