// When are two states the same? When everything that can still matter is: where roles stand, which
// accesses are known to whom (as order, not as counts), counters up to their period, positions
// relative to the slowest role in the loop. Two states of one key have the same futures, so the
// second need not be walked: that closes the induction over trip counts.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>

#include "ir/warp_check/machine.h"
#include "ir/warp_check/naming.h"

namespace tilec::ir::warp_check {
namespace {

// Numbers in a row: most are small and take one byte, the others nine.
class Text {
 public:
  template <typename T>
  void operator()(T v) {
    const auto wide = static_cast<int64_t>(v);
    if (out_.size() < size_ + kMost) out_.resize(2 * out_.size() + kMost);
    char* const at = out_.data() + size_;
    if (wide >= -kShort && wide < kShort - 1) {
      *at = static_cast<char>(wide);
      ++size_;
      return;
    }
    *at = kLong;
    std::memcpy(at + 1, &wide, 8);
    size_ += kMost;
  }
  std::string Take() { return out_.resize(size_), std::move(out_); }
  void Expect(size_t bytes) { out_.resize(bytes + kMost); }

 private:
  static constexpr int64_t kShort = 128;
  static constexpr size_t kMost = 9;
  static constexpr char kLong = 127;
  std::string out_;
  size_t size_ = 0;  // written
};

}  // namespace

// Atoms of a form, and of what they are made of, that only one role can compute.
const std::vector<int32_t>& Machine::PrivatesOf(int32_t form) {
  if (const auto it = privates_of_.find(form); it != privates_of_.end()) return it->second;
  std::set<int32_t> found;
  for (const auto& [atom, c] : terms_.form(form)) {
    if (terms_.atom(atom).kind == Atom::Kind::kPrivate) found.insert(atom);
    for (const Scalar& arg : terms_.atom(atom).args)
      for (int32_t inner : PrivatesOf(arg.form)) found.insert(inner);
  }
  return privates_of_[form] = {found.begin(), found.end()};
}

// How far each ring has turned: its slowest counter counts as zero (rings.h).
struct Machine::Turning {
  std::vector<int64_t> turned;          // by group
  std::vector<int32_t> slots, regions;  // in the order of the key
  std::vector<int32_t> slot_name;       // of a barrier: its place in that order
  std::vector<int64_t> slot_phase;      // phases that count as none
  std::vector<int> slot_group;          // -1: phases matter by parity only

  Turning(const Machine& m, const State& s) {
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
};

// No op that the role has still to execute before the value is made anew reads it.
bool Machine::Dead(const Role& r, ValueId v) const {
  const OpId def = fn_.values[v].def;
  if (!def.valid()) return false;
  for (const Frame& f : r.frames)
    if (f.block == fn_.ops[def].block)
      return f.next >= 0 && last_use_[static_cast<size_t>(v.index)] < f.next - 1;
  return false;
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

struct Machine::Writer {
  Machine& m;
  State& s;
  Naming name;
  const Turning turn;
  Text out;
  Clock common;  // what every role knows
  // Who may know more than that stands in the order of the key. Barriers that say nothing but what
  // whoever waits for them knows say the same: one row of all components stands for them.
  static constexpr int kNothing = -1;  // of a row: no more than all know
  std::vector<int32_t> rows;           // what is known, row by row
  std::vector<uint64_t> members;       // of each row: a bit for each who knows that, in `words`
  size_t words = 0, known_by = 0;      // of one set of bits; who may know so far
  // Counts between the same two that somebody knows are known to the same: to a set.
  struct Set {
    int32_t above, most;  // counts n with above < n <= most
    int64_t number;       // in the order of the key
    size_t first;         // its bits
  };
  std::vector<std::vector<Set>> sets;  // by component
  std::vector<uint64_t> bits;          // of all sets
  int64_t written_sets = 0;
  bool by_number = true;  // sets that were written before are written as their numbers
  std::vector<char> live;          // by atom that nobody else can recompute: part of something
  std::vector<char> lives;         // by form: its atoms are marked
  std::vector<Clock> of_waiting;   // what all roles know that wait for some mbarrier
  std::vector<size_t> waiting_of;  // by mbarrier: which of these

  Writer(Machine& machine, State& state)
      : m(machine), s(state), name(m.p_, m.terms_, state), turn(m, state) {}

  Moment Write() {
    common = KnownToAll({});
    FindClocks();
    out.Expect(m.key_bytes_);
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
    const auto number = [&](std::string text) {
      return m.texts_.try_emplace(std::move(text), static_cast<int32_t>(m.texts_.size()) + 1)
          .first->second;
    };
    std::vector<Text> told(static_cast<size_t>(m.apart()));
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
        Text text;
        std::swap(out, text);
        by_number = false;
        out(i), WriteRecord(record);
        by_number = true;
        std::swap(out, text);
        moment.slots[at].records.push_back(number(text.Take()));
        used[at] = 1;
      }
    }
    moment.key = out.Take();
    m.key_bytes_ = std::max(m.key_bytes_, moment.key.size());
    for (size_t a = 0; a < told.size(); ++a) {
      Moment::Slot& slot = moment.slots[a];
      if (used[a]) slot.told = number(told[a].Take());
      std::sort(slot.records.begin(), slot.records.end());
    }
    return moment;
  }

  // Components of tensor memory stand behind all others.
  bool HasTensors() const { return !m.p_.tensor_columns.empty(); }
  size_t FirstOfTensors() const {
    return static_cast<size_t>(HasTensors() ? m.ProductsOf(0) : m.components());
  }
  bool OfTensors(const Record& r) const {
    return r.proxy == Proxy::kTensorProduct || r.proxy == Proxy::kTensorAccess;
  }
  int TensorComponent(const Record& r) const {
    const int role = r.component / 2;
    return r.proxy == Proxy::kTensorProduct ? m.ProductsOf(role) : m.AccessesOf(role);
  }

  // Roles, then what barriers hand on.
  void FindClocks() {
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
    sets.resize(common.size());
  }

  // A row of what is known to whoever knows `anyway` already, which is row `anyway_row`.
  int RowOf(const Clock& clock, const Clock& anyway, int anyway_row) {
    if (!clock.AnyAbove(anyway)) return anyway_row;
    const size_t first = rows.size();
    rows.resize(first + clock.size());
    for (size_t c = 0; c < clock.size(); ++c) rows[first + c] = std::max(clock[c], anyway[c]);
    members.resize(members.size() + words, 0);
    return static_cast<int>(first / clock.size());
  }

  // The next who may know more than all do knows this row.
  void Knows(int row) {
    const size_t at = known_by++;
    if (row == kNothing) return;
    members[static_cast<size_t>(row) * words + at / 64] |= uint64_t{1} << at % 64;
  }

  Clock KnownToAll(const std::vector<char>& which) const {
    Clock known(static_cast<size_t>(m.components()));
    int32_t* const all = known.Write();
    std::fill_n(all, known.size(), INT32_MAX);
    for (size_t i = 0; i < s.roles.size(); ++i) {
      const Role& r = s.roles[i];
      if (r.ended || (!which.empty() && !which[i])) continue;
      const char* const heeds = m.heeds_.empty() ? nullptr : m.heeds_[i].data();
      for (const Clock* clock : {&r.all, &r.elected})
        for (size_t c = 0; c < known.size(); ++c)
          if (!heeds || heeds[c]) all[c] = std::min(all[c], r.started ? (*clock)[c] : 0);
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
  void Count(int component, int32_t n) {
    const auto c = static_cast<size_t>(component);
    out(n < 0 ? -1 : n <= common[c] ? 0 : 1);
    if (n <= common[c]) return;
    std::vector<Set>& of = sets[c];
    auto set = std::find_if(of.begin(), of.end(), [&](const Set& one) {
      return one.above < n && n <= one.most;
    });
    if (set == of.end()) {
      of.push_back(WhoKnows(component, n));
      set = of.end() - 1;
    }
    if (by_number) {
      const bool fresh = set->number < 0;
      if (fresh) set->number = written_sets++;
      out(set->number);
      if (!fresh) return;
    }
    for (size_t i = 0; i < words; ++i) out(bits[set->first + i]);
  }

  // A bit for each who may know it.
  Set WhoKnows(int component, int32_t n) {
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
    for (size_t row = 0; row * common.size() < rows.size(); ++row)
      if (knows(rows[row * common.size() + c]))
        for (size_t i = 0; i < words; ++i) bits[set.first + i] |= members[row * words + i];
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

  // What was decided, as far as it can still be asked.
  void WriteKnown() {
    for (const Role& r : s.roles)
      if (!r.ended)
        for (const auto& [v, scalar] : r.env)
          if (!m.Dead(r, ValueId(v))) Lives(scalar);
    std::vector<std::tuple<uint64_t, int64_t, int64_t>> known;
    for (auto it = s.known.begin(); it != s.known.end();) {
      if (name.Stale(it->first) || name.Done(it->first, m.terms_) || Gone(it->first)) {
        it = s.known.erase(it);
        continue;
      }
      int64_t step = 0;  // of the loops it speaks of
      for (const auto& [atom, c] : m.terms_.form(it->first))
        if (m.terms_.atom(atom).kind == Atom::Kind::kFrame)
          step = std::max(step, name.StepOf(m.terms_.atom(atom)) * std::abs(c));
      const bool framed = step > 0;
      const int64_t shift = name.Shift(it->first), old = -4 * step - shift - m.LagOf(it->first);
      Bounds& b = it->second;
      // Of long past questions less is remembered than was answered: whoever still asks may hear
      // either. (A bound that counts as another one in the key alone would hide what differs.)
      if (framed && b.lo < old) b.lo = INT64_MIN;
      if (framed && b.hi < old) b.hi = old;
      // Far off, a late iteration hears its own answers (Machine::none_fits is for sizes alone).
      const auto far = [](int64_t bound) { return bound >= kFarOff || bound <= -kFarOff; };
      if (!framed && far(b.lo)) b.lo = INT64_MIN;
      if (!framed && far(b.hi)) b.hi = INT64_MAX;
      if (b.lo == INT64_MIN && b.hi == INT64_MAX) {
        it = s.known.erase(it);
        continue;
      }
      known.emplace_back(name.OfForm(it->first), b.lo == INT64_MIN ? b.lo : b.lo + shift,
                         b.hi == INT64_MAX ? b.hi : b.hi + shift);
      ++it;
    }
    std::sort(known.begin(), known.end());
    out(known.size());
    for (const auto& [form, lo, hi] : known) out(form), out(lo), out(hi);
    for (const Role& r : s.roles)
      for (const Frame& f : r.frames) {
        for (const Scalar& scalar : f.init) Lives(scalar);
        Lives(f.position), Lives(f.end), Lives(f.length);
      }
  }

  void Lives(const Scalar& scalar) {
    if (scalar.constant()) return;
    const auto form = static_cast<size_t>(scalar.form);
    if (form >= lives.size()) lives.resize(form + 1, 0);
    if (lives[form]) return;
    lives[form] = 1;
    for (const int32_t atom : m.PrivatesOf(scalar.form)) {
      const auto at = static_cast<size_t>(atom);
      if (at >= live.size()) live.resize(at + 1, 0);
      live[at] = 1;
    }
  }
  // Nothing that is left is made of what it is made of, so nothing like it will be made again.
  bool Gone(int32_t form) {
    const std::vector<int32_t>& used = m.PrivatesOf(form);
    return std::any_of(used.begin(), used.end(), [&](int32_t atom) {
      return static_cast<size_t>(atom) >= live.size() || !live[static_cast<size_t>(atom)];
    });
  }

  void WriteRole(size_t i) {
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
  void WriteTensors(size_t i) {
    const Role& r = s.roles[i];
    const int role = static_cast<int>(i);
    out(-10), out(r.uncommitted);
    Count(m.ProductsOf(role), r.products);
    Count(m.AccessesOf(role), r.accesses), Count(m.AccessesOf(role), r.fenced);
  }

  void WriteControl(const Role& r) {
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
    for (const auto& [v, scalar] : r.env) {
      if (m.Dead(r, ValueId(v))) continue;
      out(v);
      const auto count = m.rings_.count_of.find(v);
      const auto made =
          count == m.rings_.count_of.end() ? r.env.end() : r.env.find(count->second.index);
      if (made != r.env.end()) {
        const int group = m.rings_.of_count.at(count->second.index);
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

  void WriteProducts(const Role& r) {
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

  void WriteArrivals(int32_t slot) {
    const Barrier& b = s.barriers[static_cast<size_t>(slot)];
    const auto at = static_cast<size_t>(slot);
    out(b.ready), out(turn.slot_group[at] < 0 ? b.phase & 1 : b.phase - turn.slot_phase[at]);
    out(b.arrived), out(b.expected), out(b.delivered);
    Count(b.init_component, b.init_fence);
  }

  void WriteTold(int32_t slot) {
    const Barrier& b = s.barriers[static_cast<size_t>(slot)];
    const int component = m.SlotComponent(slot);
    out((b.carried_bytes || b.came_by_commit) && !m.Seen(slot)), out(b.by_commit);
    Count(component, b.phase), Count(component, b.phase - 1);
    const size_t seen = b.seen.AnyAbove(common) ? b.seen.size() : 0;
    for (size_t c = 0; c < seen; ++c)
      if (const auto clock = static_cast<int>(c); b.seen[c] > common[c])
        out(m.ComponentOf(clock)), Count(clock, b.seen[c]);
    out(-4);
  }

  void WriteRecords(const Region& region) {
    if (region.tile >= 0) out(region.tile);
    for (const Record& r : region.records) WriteRecord(r);
    out(-3);
  }

  void WriteRecord(const Record& r) {
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
};

Moment Machine::Key(State& state) {
  s_ = &state;
  EmptyReleased();
  Prune();
  if (agreed) SimplifyFilled();
  return Writer(*this, state).Write();
}

}  // namespace tilec::ir::warp_check
