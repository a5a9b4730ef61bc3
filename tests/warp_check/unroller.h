// Walks a warp program with numbers for its parameters and notes what each role does: one event for
// each signal, wait, copy and access.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/warp_check/core_tiles.h"
#include "tests/warp_check/unrolled.h"

namespace tilec::ir {

class Unroller {
 public:
  Unroller(const Function& fn, const std::map<ValueId, int64_t>& params, uint64_t seed,
           BlockId met);

  // The way alone, by ops that steer it.
  Way Follow(const Steering& steering);
  Unrolled Run();

 private:
  using Number = std::optional<int64_t>;
  void FindBarriers();
  void FindTensors();
  std::optional<Number> MadeUp(ValueId v);

  void TooLong() { made_.ok = false, way_.too_long = true; }
  void Visit(BlockId block) { ++way_.executed[static_cast<size_t>(block.index)]; }
  void Walk(BlockId block, Who who);

  Number Get(ValueId v) const {
    return v.valid() ? env_[static_cast<size_t>(v.index)] : std::nullopt;
  }
  int64_t Sure(ValueId v);
  const std::vector<ValueId>& Yields(BlockId block) const {
    return fn_.ops[fn_.blocks[block].ops.back()].operands;
  }
  void Pass(const std::vector<ValueId>& from, size_t first_from, const std::vector<ValueId>& to,
            size_t first_to);
  void Structure(const Op& op, Who who);
  Event& Add(What what, Who who, OpId id);
  bool In(int64_t number, const Type& ring);
  int Barrier(ValueId mbar, ValueId slot);
  void Bytes(Event& e, ValueId buffer, ValueId slot, const Op* box = nullptr);
  void Touch(OpId id, Who who, ValueId buffer, ValueId slot, bool write);
  void Columns(OpId id, Who who, What what);
  void Scratch(OpId id);
  static bool ReachesOtherCtas(const Op& op);
  void Exchange(OpId id);
  void Steer(const Op& op);
  void Compute(const Op& op);
  void Do(OpId id, Who who);

  Number& Env(ValueId v) { return env_[static_cast<size_t>(v.index)]; }

  int64_t Cta() const { return seed_ / 4 % 2 == 0 ? 0 : static_cast<int64_t>(seed_ / 8 % 24); }
  Number Evaluate(const Op& op);

  Unrolled made_;
  const Function& fn_;
  uint64_t seed_;
  BlockId met_;
  const Steering* steering_ = nullptr;  // null: all ops
  Way way_;
  int64_t visits_ = 0;
  int warps_ = 0;  // of the role
  std::vector<Event>* out_ = nullptr;
  std::vector<Number> env_;       // by value; nothing: not known
  std::vector<int64_t> numbers_;  // of one op
  std::map<ValueId, int64_t> counters_;
  std::map<ValueId, int> first_;
  std::map<ValueId, int64_t> tensors_;
  std::vector<OpId> unread_;            // reductions whose barrier is the next one's
  std::map<ValueId, ValueId> made_up_;  // scalars that are handed over: what they are
  std::map<ValueId, int64_t> times_;    // … and how often each was made or read
  CoreTiles core_;
};

// The tensor that threads touch with an op (invalid: none), and how.
ValueId TouchedTensor(const Op& op, bool* write);

}  // namespace tilec::ir
