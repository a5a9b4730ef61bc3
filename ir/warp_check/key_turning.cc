// Where the key of a state begins to count the slots of rings, so that states which differ by whole
// turns are one.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/key.h"

#include <algorithm>

namespace tilec::ir::warp_check {

Machine::Turning::Turning(const Machine& m, const State& s) {
  const Program& p = m.p_;
  for (const RingGroup& g : m.rings_.groups) {
    int64_t least = INT64_MAX;
    for (const Role& r : s.roles) {
      if (r.ended || !r.started) continue;
      for (ValueId c : g.counters)
        if (const auto it = r.counters.find(c.index); it != r.counters.end())
          least = std::min(least, it->second);
    }
    turned.push_back(least == INT64_MAX ? 0 : least);
  }
  for (int i = 0; i < p.slots(); ++i) slots.push_back(i);
  for (int i = 0; i < p.regions(); ++i) regions.push_back(i);
  slot_phase.assign(slots.size(), 0);
  slot_group.assign(slots.size(), -1);
  for (size_t g = 0; g < m.rings_.groups.size(); ++g) {
    const RingGroup& group = m.rings_.groups[g];
    const int64_t d = group.depth, t = turned[g], first = ((t % d) + d) % d;
    for (ValueId mbar : group.mbars) {
      const int base = p.first_slot.at(mbar);
      for (int64_t k = 0; k < d; ++k) {
        const auto slot = static_cast<int32_t>(base + (first + k) % d);
        slots[static_cast<size_t>(base + k)] = slot;
        slot_phase[static_cast<size_t>(slot)] = (t + k - (first + k) % d) / d;
        slot_group[static_cast<size_t>(slot)] = static_cast<int>(g);
      }
    }
    for (ValueId v : group.buffers) {
      const Buffer& b = p.buffers.at(v);
      const auto [begin, end] = p.RegionsOf(b.offset, b.offset + b.slot_bytes);
      const int each = end - begin;
      for (int64_t k = 0; d > 1 && k < d; ++k)
        for (int i = 0; i < each; ++i)
          regions[static_cast<size_t>(begin + k * each + i)] =
              static_cast<int32_t>(begin + (first + k) % d * each + i);
    }
  }
  slot_name.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i)
    slot_name[static_cast<size_t>(slots[i])] = static_cast<int32_t>(i);
}

}  // namespace tilec::ir::warp_check
