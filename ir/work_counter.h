// Walks a tile function with the numbers of one call and counts what it has to do: bytes, products,
// operations.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/count_work.h"
#include "support/expr.h"

namespace tilec::ir {

class WorkCounter {
 public:
  using Scalar = std::optional<int64_t>;
  WorkCounter(const Function& fn, const Bindings& names, const Target& target,
              const CountOptions& options);
  WorkCount Run();

 private:
  static constexpr size_t kMaxCountedRank = 6;
  // The part of a tile that is inside its tensors.
  using Extents = std::array<int64_t, kMaxCountedRank>;
  // What an op looks up or finds out once.
  struct Known {
    uint64_t at = 0;  // of changes_ when its tiles' extents were found
    double arithmetic = 0;
    // Of an access; `moved`: where its bytes count, or a product's operations.
    const std::vector<int64_t>*dims = nullptr, *sizes = nullptr;
    const std::string* modes = nullptr;
    double bytes = 0;
    double* moved = nullptr;
  };
  double Again() const;
  bool Tile(ValueId v) const { return fn_.type(v).is_tile() && !fn_.type(v).shape.empty(); }
  void Set(ValueId v, Scalar s) { scalars_[static_cast<size_t>(v.index)] = s; }
  const Scalar& At(ValueId v) const { return scalars_[static_cast<size_t>(v.index)]; }
  const Extents& Of(ValueId v) const { return extents_[static_cast<size_t>(v.index)]; }
  void SetOf(ValueId v, const Extents& e);
  Extents Whole(ValueId v) const;
  double Count(ValueId v) const;
  double Least(int32_t tensor, double moved) const;
  bool Steer(ValueId v) const { return steering_[static_cast<size_t>(v.index)]; }
  void FindSteering();
  std::vector<ValueId> Yielded(BlockId region) const;
  std::map<int32_t, std::vector<ValueId>> Carried() const;

  void RunBlock(BlockId block) {
    for (OpId id : fn_.blocks[block].ops) RunOp(id);
  }
  void Copy(ValueId from, ValueId to);
  void TakeYield(BlockId region, size_t leading, const std::vector<ValueId>& targets);
  void RunOp(OpId id);
  void RunParallel(const Op& op);
  void RunFor(OpId id, const Op& op);
  bool Steers(const Op& loop) const;
  void RunWhile(const Op& op);
  void RunIf(const Op& op);
  static int64_t Inside(int64_t start, int64_t n, int64_t end);
  void RunLoad(const Op& op, Known& known);
  void RunStore(const Op& op, Known& known);
  void RunDot(const Op& op, Known& known);
  double RunTile(const Op& op, ValueId v);
  void Reshape(ValueId from, Extents& e, ValueId to);
  Scalar EvalScalar(const Op& op) const;
  void LookUp(const Op& op, std::map<int32_t, double>& moved, DType dtype, Known* known);

  const Function& fn_;
  const double cached_bytes_;  // what L2 keeps of a tensor between reads
  const double sms_;
  const bool edges_;
  std::vector<Scalar> scalars_;
  std::vector<Extents> extents_;
  uint64_t changes_ = 1;  // of extents
  std::vector<Known> known_;
  std::map<int32_t, std::vector<int64_t>> dims_;  // of tensors
  std::vector<bool> steering_;  // by value
  std::map<int32_t, double> loaded_, stored_;
  double weight_ = 1;
  WorkCount out_;
};

}  // namespace tilec::ir
