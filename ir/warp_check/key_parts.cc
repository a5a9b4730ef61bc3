// The parts of a state in its key: where each role stands and what it holds, its products in
// flight, barriers, and what was done to memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "ir/warp_check/key.h"

#include <algorithm>
#include <map>

namespace tilec::ir::warp_check {

void Machine::Writer::WriteRole(size_t i) {
  const Role& r = s.roles[i];
  for (const Answered& a : r.answered)
    out(-9), out(name.OfForm(a.form)), out(a.threshold + name.Shift(a.form)), out(a.yes);
  WriteControl(r);
  WriteProducts(r);
  // Nobody comes back to a loop of iterations that all have left, or of a length that is gone.
  s.roles[i].runs.EraseIf([&](const auto& run) {
    return name.Stale(run.first.first) || (!m.agreed && Gone(run.first.first));
  });
  for (const auto& [loop, begun] : r.runs) {
    if (name.Done(loop.first, m.terms_)) continue;
    int64_t least = begun;
    for (size_t other = 1; other < s.roles.size(); ++other)
      if (name.TakesPart(other, loop.second))
        least = std::min(least, name.Begun(other, loop.first, loop.second));
    out(name.OfForm(loop.first)), out(loop.second), out(begun - least);
  }
  if (HasTensors()) WriteTensors(i);
}

// What the role would tell of tensor memory.
void Machine::Writer::WriteTensors(size_t i) {
  const Role& r = s.roles[i];
  const int role = static_cast<int>(i);
  out(-10), out(r.uncommitted);
  Count(m.ProductsOf(role), r.products);
  Count(m.AccessesOf(role), r.accesses), Count(m.AccessesOf(role), r.fenced);
}

void Machine::Writer::WriteControl(const Role& r) {
  const Function& fn = m.fn_;
  for (const Frame& f : r.frames) {
    out(f.block.index), out(f.next);
    if (!f.op.valid() || fn.ops[f.op].kind != OpKind::kFor || m.agreed) continue;
    out(f.low), out(f.turns > 0);
    out(name.OfForm(f.position.form));
    out(f.frame_atom < 0 ? f.position.add : f.position.add - name.Base(f.frame_atom));
    out(name.Of(f.end));
    if (f.frame_atom >= 0) out(name.OfAtom(f.frame_atom));
  }
  m.Stand(r);
  for (const auto& [v, scalar] : r.env) {
    if (m.Dead(v)) continue;
    out(v);
    const int32_t count = m.count_of_[static_cast<size_t>(v)];
    const auto made = count < 0 ? r.env.end() : r.env.find(count);
    if (made != r.env.end()) {
      const int group = m.rings_.of_count.at(count);
      out(made->second.add - turn.turned[static_cast<size_t>(group)]);
    } else {
      out(name.Of(scalar));
    }
  }
  for (const auto& [counter, value] : r.counters) {
    if (const auto g = m.rings_.of_counter.find(counter); g != m.rings_.of_counter.end()) {
      out(counter), out(value - turn.turned[static_cast<size_t>(g->second)]);
      continue;
    }
    const auto it = m.p_.period.find(ValueId(counter));
    const int64_t period = it == m.p_.period.end() ? 0 : it->second;
    out(counter), out(period > 0 ? ((value % period) + period) % period : value);
  }
}

void Machine::Writer::WriteProducts(const Role& r) {
  std::map<int32_t, int64_t> numbers;  // of products and fenced operands
  for (const Flight& f : r.flights) {
    out(-7), out(f.group < 0 ? -1 : r.commits - f.group);
    numbers.try_emplace(f.id, static_cast<int64_t>(numbers.size()) + 1);
    for (int32_t held : f.held) {
      numbers.try_emplace(held, static_cast<int64_t>(numbers.size()) + 1);
      out(numbers[held]);
    }
  }
  for (const auto& [v, tile] : r.core) {
    // Like one that nothing is known of. (Which CTAs stay was chosen by what was proved with it.)
    if (m.agreed && tile.kind == CoreTile::kPlain) continue;
    const auto it = numbers.find(tile.id);
    out(v), out(tile.kind), out(it == numbers.end() ? 0 : it->second);
  }
  out(-8);
  for (const auto& [copy, group] : r.bulk) out(group < 0 ? -1 : r.bulk_commits - group);
}

void Machine::Writer::WriteArrivals(int32_t slot) {
  const Barrier& b = s.barriers[static_cast<size_t>(slot)];
  const auto at = static_cast<size_t>(slot);
  out(b.ready), out(turn.slot_group[at] < 0 ? b.phase & 1 : b.phase - turn.slot_phase[at]);
  out(b.arrived), out(b.expected), out(b.delivered);
  Count(b.init_component, b.init_fence);
}

void Machine::Writer::WriteTold(int32_t slot) {
  const Barrier& b = s.barriers[static_cast<size_t>(slot)];
  const int component = m.SlotComponent(slot);
  out((b.carried_bytes || b.came_by_commit) && !m.Seen(slot)), out(b.by_commit);
  Count(component, b.phase), Count(component, b.phase - 1);
  Seen(b.seen);
  out(-4);
}

void Machine::Writer::WriteRecords(const Region& region) {
  if (region.tile >= 0) out(region.tile);
  for (const Record& r : region.records) WriteRecord(r);
  out(-3);
}

void Machine::Writer::WriteRecord(const Record& r) {
  out(r.proxy), out(r.write), out(r.component), out(r.apart >= 0);
  out(r.slot < 0 ? -1 : turn.slot_name[static_cast<size_t>(r.slot)]);
  if (IsCopyIn(r.proxy) && r.slot < 0) {
    out(-1);
  } else if (IsCopyIn(r.proxy)) {
    Count(m.SlotComponent(r.slot), r.phase + 1);
  } else if (OfTensors(r)) {
    Count(TensorComponent(r), r.n);
  } else {
    Count(m.ClockOf(r), r.proxy == Proxy::kGeneric ? r.n : r.end);
    Count(m.ClockOf(r), r.fence);
  }
  int64_t flight = -1;  // which of its role's products or copies in flight
  if (r.flight >= 0 && r.end < 0) {
    const Role& owner = s.roles[static_cast<size_t>(r.component / 2)];
    for (size_t f = 0; f < owner.flights.size(); ++f)
      if (owner.flights[f].id == r.flight) flight = static_cast<int64_t>(f);
    for (size_t f = 0; f < owner.bulk.size(); ++f)
      if (owner.bulk[f].first == r.flight) flight = static_cast<int64_t>(f);
  }
  out(flight);
}

}  // namespace tilec::ir::warp_check
