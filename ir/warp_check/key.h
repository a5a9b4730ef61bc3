// What the key of a state is written with: numbers in a row, how far rings have turned, and who
// writes it.
// Included by the files that define it: key.cc, key_known.cc, key_decided.cc, key_parts.cc,
// key_turning.cc.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ir/warp_check/machine.h"
#include "ir/warp_check/naming.h"

namespace tilec::ir::warp_check {

// Numbers in a row: most are small and take one byte, the others nine.
class KeyText {
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
      : m(machine), s(state), name(m.p_, m.terms_, state), turn(m, state) {}
  Moment Write();

 private:
  // Counts between the same two that somebody knows are known to the same: to a set.
  struct Set {
    int32_t above, most;  // counts n with above < n <= most
    int64_t number;       // in the order of the key
    size_t first;         // its bits
  };

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
  Naming name;
  const Turning turn;
  KeyText out;
  Clock common;  // what every role knows
  // Who may know more than that stands in the order of the key. Barriers that say nothing but what
  // whoever waits for them knows say the same: one row of all components stands for them.
  static constexpr int kNothing = -1;  // of a row: no more than all know
  std::vector<int32_t> rows;           // what is known, row by row
  std::vector<uint64_t> members;       // of each row: a bit for each who knows that, in `words`
  size_t words = 0, known_by = 0;      // of one set of bits; who may know so far
  std::vector<std::vector<Set>> sets;  // by component
  std::vector<uint64_t> bits;          // of all sets
  int64_t written_sets = 0;
  bool by_number = true;    // sets that were written before are written as their numbers
  std::vector<char> live;   // by atom that nobody else can recompute: part of something
  std::vector<char> lives;  // by form: its atoms are marked
};

}  // namespace tilec::ir::warp_check
