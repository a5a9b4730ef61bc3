// What the key of a state is written with: numbers in a row, how far rings have turned, and who
// writes it.
// Included by the files that define it: key.cc, key_known.cc, key_decided.cc, key_parts.cc,
// key_turning.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ir/warp_check/machine.h"
#include "ir/warp_check/naming.h"

namespace tilec::ir::warp_check {

// How far each ring has turned: its slowest counter counts as zero (rings.h).
struct Machine::Turning {
  std::vector<int64_t> turned;          // by group
  std::vector<int32_t> slots, regions;  // in the order of the key
  std::vector<int32_t> slot_name;       // of a barrier: its place in that order
  std::vector<int64_t> slot_phase;      // phases that count as none
  std::vector<int> slot_group;          // -1: phases matter by parity only

  Turning(const Machine& m, const State& s);
};

// The key of one state. Who knows what stands in it as order, what was decided as far as it can
// still be asked, the rest as it is.
class Machine::Writer {
 public:
  Writer(Machine& machine, State& state)
      : m(machine),
        s(state),
        kept(machine.key_memory_),
        name(m.p_, m.terms_, state, kept.names),
        turn(m, state) {}
  Moment Write();

 private:
  using Set = KnowingSet;

  // Components of tensor memory stand behind all others.
  bool HasTensors() const { return !m.p_.tensor_columns.empty(); }
  size_t FirstOfTensors() const {
    return static_cast<size_t>(HasTensors() ? m.ProductsOf(0) : m.components());
  }
  bool OfTensors(const Record& r) const {
    return r.proxy == Proxy::kTensorProduct || r.proxy == Proxy::kTensorAccess;
  }

  // key_known.cc
  int TensorComponent(const Record& r) const;
  void FindClocks();
  int RowOf(const Clock& clock, const Clock& anyway, int anyway_row);
  void Knows(int row);
  void Seen(const Clock& seen);
  Clock KnownToAll(const std::vector<char>& which) const;
  void Count(int component, int32_t n);
  Set WhoKnows(int component, int32_t n);

  // key_decided.cc
  void WriteKnown();
  void Lives(const Scalar& scalar);
  bool Gone(int32_t form);

  // key_parts.cc
  void WriteRole(size_t i);
  void WriteTensors(size_t i);
  void WriteControl(const Role& r);
  void WriteProducts(const Role& r);
  void WriteArrivals(int32_t slot);
  void WriteTold(int32_t slot);
  void WriteRecords(const Region& region);
  void WriteRecord(const Record& r);

  Machine& m;
  State& s;
  KeyMemory& kept;
  Naming name;
  const Turning turn;
  KeyText& out = kept.out;
  Clock common;  // what every role knows
  // Who may know more than that stands in the order of the key. Barriers that say nothing but what
  // whoever waits for them knows say the same: one row of all components stands for them.
  static constexpr int kNothing = -1;               // of a row: no more than all know
  std::vector<int32_t>& rows = kept.rows;           // what is known, row by row
  std::vector<uint64_t>& members = kept.members;    // by row: who knows that, a bit for each
  size_t words = 0, known_by = 0;                   // of one set of bits; who may know so far
  std::vector<std::vector<Set>>& sets = kept.sets;  // by component
  std::vector<uint64_t>& bits = kept.bits;          // of all sets
  int64_t written_sets = 0;
  bool by_number = true;  // sets that were written before are written as their numbers
  // By atom nobody else can recompute, in which state it was part of something; by form, in which
  // state its atoms were marked.
  std::vector<uint32_t>&live = kept.live, &lives = kept.lives;
};

}  // namespace tilec::ir::warp_check
