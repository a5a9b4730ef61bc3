// Who knows of which accesses, in the key of a state: of a count only who knows it matters, so
// counts of two states may differ where their order does not.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/key.h"

#include <algorithm>
#include <vector>

namespace tilec::ir::warp_check {

int Machine::Writer::TensorComponent(const Record& r) const {
  const int role = r.component / 2;
  return r.proxy == Proxy::kTensorProduct ? m.ProductsOf(role) : m.AccessesOf(role);
}

// Roles, then what barriers hand on.
void Machine::Writer::FindClocks() {
  const size_t roles = s.roles.size();
  const size_t most = 2 * (roles + turn.slots.size()) + (HasTensors() ? 3 * roles : 0) + 1;
  words = (most + 63) / 64;
  for (const Role& r : s.roles)
    if (r.started && !r.ended)
      for (const Clock* clock : {&r.all, &r.elected}) Knows(RowOf(*clock, common, kNothing));
  std::vector<Clock> of_waiting;  // what all roles know that wait for some mbarrier
  std::vector<int> waiting_rows;
  for (const std::vector<char>& waits : m.waiting_) {
    of_waiting.push_back(KnownToAll(waits));
    waiting_rows.push_back(RowOf(of_waiting.back(), common, kNothing));
  }
  for (int32_t slot : turn.slots) {
    const Barrier& b = s.barriers[static_cast<size_t>(slot)];
    const auto mbar = static_cast<size_t>(m.p_.mbar_of_slot[static_cast<size_t>(slot)]);
    const size_t waiting = m.waiting_of_[mbar];
    Knows(RowOf(b.pending, common, kNothing));
    Knows(RowOf(b.done, of_waiting[waiting], waiting_rows[waiting]));
  }
}

// A row of what is known to whoever knows `anyway` already, which is row `anyway_row`.
int Machine::Writer::RowOf(const Clock& clock, const Clock& anyway, int anyway_row) {
  if (!clock.AnyAbove(anyway)) return anyway_row;
  const size_t first = rows.size();
  rows.resize(first + clock.size());
  int32_t* const row = rows.data() + first;
  const int32_t *const more = clock.counts(), *const all = anyway.counts();
  for (size_t c = 0; c < clock.size(); ++c) row[c] = std::max(more[c], all[c]);
  members.resize(members.size() + words, 0);
  return static_cast<int>(first / clock.size());
}

// Who has waited for the last phase, of what is counted beyond what all know.
void Machine::Writer::Seen(const Clock& seen) {
  if (!seen.AnyAbove(common)) return;
  constexpr size_t kAtOnce = 16;
  const int32_t *const counts = seen.counts(), *const all = common.counts();
  for (size_t first = 0; first < seen.size(); first += kAtOnce) {
    const size_t end = std::min(first + kAtOnce, seen.size());
    uint32_t any = 0;  // (most say no more)
    for (size_t c = first; c < end; ++c) any |= counts[c] > all[c] ? 1u : 0u;
    for (size_t c = first; any != 0 && c < end; ++c)
      if (counts[c] > all[c])
        out(m.ComponentOf(static_cast<int>(c))), Count(static_cast<int>(c), counts[c]);
  }
}

// The next who may know more than all do knows this row.
void Machine::Writer::Knows(int row) {
  const size_t at = known_by++;
  if (row == kNothing) return;
  members[static_cast<size_t>(row) * words + at / 64] |= uint64_t{1} << at % 64;
}

Clock Machine::Writer::KnownToAll(const std::vector<char>& which) const {
  Clock known(static_cast<size_t>(m.components()));
  int32_t* const all = known.Write();
  std::fill_n(all, known.size(), INT32_MAX);
  const std::vector<int32_t> nothing_known(known.size(), 0);
  for (size_t i = 0; i < s.roles.size(); ++i) {
    const Role& r = s.roles[i];
    if (r.ended || (!which.empty() && !which[i])) continue;
    const char* const heeds = m.heeds_.empty() ? nullptr : m.heeds_[i].data();
    for (const Clock* clock : {&r.all, &r.elected}) {
      const bool nothing = !r.started || clock->zero();
      const int32_t* const knows = nothing ? nothing_known.data() : clock->counts();
      if (!heeds)
        for (size_t c = 0; c < known.size(); ++c) all[c] = std::min(all[c], knows[c]);
      else
        for (size_t c = 0; c < known.size(); ++c)
          all[c] = heeds[c] ? std::min(all[c], knows[c]) : all[c];
    }
    for (const Clock* seen : {&r.tensor_all, &r.tensor_elected})
      for (size_t c = FirstOfTensors(); c < known.size(); ++c)
        all[c] = std::min(all[c], seen->empty() ? 0 : (*seen)[c]);
  }
  return known;
}

// Of a count only who knows it matters: clocks are compared with counts, never with each other,
// and what is counted later nobody knows yet. What all roles know does not matter, nor what a
// complete phase says to roles that know it. (What arrivals of the next have said is compared
// with waits for the last, so it matters by itself.)
void Machine::Writer::Count(int component, int32_t n) {
  const auto c = static_cast<size_t>(component);
  out(n < 0 ? -1 : n <= common[c] ? 0 : 1);
  if (n <= common[c]) return;
  std::vector<Set>& of = sets[c];
  auto set = std::find_if(of.begin(), of.end(),
                          [&](const Set& one) { return one.above < n && n <= one.most; });
  if (set == of.end()) {
    if (of.empty()) kept.with_sets.push_back(c);
    of.push_back(WhoKnows(component, n));
    set = of.end() - 1;
  }
  if (by_number) {
    const bool fresh = set->number < 0;
    if (fresh) set->number = written_sets++;
    out(set->number);
    if (!fresh) return;
  }
  out.Bits(&bits[set->first], words);
}

// A bit for each who may know it.
Machine::Writer::Set Machine::Writer::WhoKnows(int component, int32_t n) {
  const auto c = static_cast<size_t>(component);
  Set set{INT32_MIN, INT32_MAX, -1, bits.size()};
  bits.resize(bits.size() + words, 0);
  const auto knows = [&](int32_t known) {
    if (known < n)
      set.above = std::max(set.above, known);
    else
      set.most = std::min(set.most, known);
    return known >= n;
  };
  const size_t each = common.size(), all = rows.size() / each;
  const uint64_t* who = members.data();
  uint64_t* const known_to = bits.data() + set.first;
  const int32_t* known = rows.data() + c;
  for (size_t row = 0; row < all; ++row, known += each, who += words)
    if (knows(*known))
      for (size_t i = 0; i < words; ++i) known_to[i] |= who[i];
  size_t at = known_by;
  const auto put = [&](bool is_known) {
    bits[set.first + at / 64] |= static_cast<uint64_t>(is_known) << at % 64;
    ++at;
  };
  // Of tensor memory also who has seen it behind a fence, and what its role would tell by now.
  for (size_t i = 0; i < s.roles.size() && HasTensors(); ++i) {
    const Role& r = s.roles[i];
    const bool of_tensors = c >= FirstOfTensors();
    for (const Clock* seen : {&r.tensor_all, &r.tensor_elected})
      put(of_tensors && !seen->empty() && knows((*seen)[c]));
    put(component == m.AccessesOf(static_cast<int>(i)) && knows(r.fenced));
  }
  // The parts of a role have met since.
  put(knows(s.roles[static_cast<size_t>(m.OwnerOf(component))].parts_met));
  return set;
}

}  // namespace tilec::ir::warp_check
