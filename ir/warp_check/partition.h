// Which values and loops of a warp program are the same in all roles: classes that are refined
// until nothing tells members apart.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/warp_check/agreement.h"

namespace tilec::ir::warp_check {

using Words = std::vector<int64_t>;

// Numbers for texts: equal texts, equal numbers, in the order in which they come.
class Numbers {
 public:
  int64_t Of(Words text) {
    return all_.try_emplace(std::move(text), static_cast<int64_t>(all_.size()) + 1).first->second;
  }
  size_t size() const { return all_.size(); }
  void Clear() { all_.clear(); }

 private:
  struct Hash {
    size_t operator()(const Words& text) const {
      uint64_t h = text.size();
      for (const int64_t word : text)
        h = (h ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
      return static_cast<size_t>(h);
    }
  };
  std::unordered_map<Words, int64_t, Hash> all_;
};

inline bool IsControl(OpKind kind) {
  return IsLoop(kind) || kind == OpKind::kIf || kind == OpKind::kElect;
}

// The coarsest congruence of scalars and loops.
class Partition {
 public:
  explicit Partition(const Program& p);

  int64_t ValueClass(ValueId v) const { return value_[static_cast<size_t>(Plain(v).index)]; }
  int64_t LoopClass(OpId id) const { return loop_[static_cast<size_t>(id.index)]; }
  // The loop around which a branch stands that asks for its first iteration, or invalid.
  OpId Guarded(OpId branch) const;
  // The loop whose first iteration a branch asks for, from around it or from behind, or invalid.
  OpId AsksOf(OpId branch) const;

 private:
  void FindBehind(OpId loop);
  void ForgetBehindElsewhere();
  ValueId Plain(ValueId v) const;
  ValueId ResultOfGuarded(ValueId v) const;
  bool Same(ValueId a, ValueId b) const;
  bool Guards(const Op& branch, const Op& loop) const;

  ValueId Yield(BlockId block, size_t i) const {
    return fn_.ops[fn_.blocks[block].ops.back()].operands[i];
  }
  size_t Refine();
  int64_t Path(BlockId block, OpId loop = {});
  ValueId Given(ValueId v);
  Words MadeOrGiven(ValueId v);
  Words Carried(OpId id, size_t i, int64_t what) const;
  Words Made(ValueId v);
  bool Computed(const Op& op, Words& text) const;

  const Program& p_;
  const Function& fn_;
  std::vector<ValueId> scalars_;
  std::vector<OpId> loops_;
  std::map<OpId, OpId> guarded_, behind_;  // by branch
  std::vector<int64_t> value_, loop_;
  Numbers paths_;
};

}  // namespace tilec::ir::warp_check
