// A cluster as one program of all its CTAs' roles, so that the walk sees what they do to each
// other.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "ir/matrix_unit.h"
#include "ir/warp_check/cluster.h"

namespace tilec::ir::warp_check {

class Unfolder {
 public:
  Unfolder(const Function& fn, Unfold how);
  OneCta Run();

 private:
  using Map = std::map<ValueId, ValueId>;
  void Made(OpId id, OpId origin);
  ValueId At(ValueId v, int64_t cta) const;
  int64_t Cluster() const { return from_.launch.cluster; }
  OpId Add(OpId id, BlockId block, int64_t cta, int64_t to, Attrs attrs, int64_t told = -1);
  ValueId TensorAddress(ValueId address, OpId id, BlockId block, int64_t cta, int64_t to);
  bool LeftOut(const Op& op) const;
  void ArriveAtAll(OpId id, ValueId slot, Builder& b);
  void Exchange(OpId id, BlockId block, int64_t cta);
  void ReadLate(BlockId block, int64_t cta);
  bool OfPair(OpId id, BlockId block, int64_t cta);
  void Copy(OpId id, BlockId block, int64_t cta);
  static void Set(Attrs* attrs, std::string_view name, AttrValue value);
  static void Drop(Attrs* attrs, std::string_view name) {
    std::erase_if(*attrs, [&](const auto& attr) { return attr.first == name; });
  }

  const Function& from_;
  const Unfold how_;
  const bool alone_;
  const int64_t ctas_;
  std::vector<Map> maps_;              // by CTA
  std::set<ValueId> exchanged_;        // buffers and barriers of warp_cluster_reduce
  std::map<ValueId, int64_t> pushed_;  // barriers of what is pushed: warps of the role
  OneCta out_;
  std::vector<OpId> read_late_;  // exchanges whose buffers others read until their role ends
  bool roles_ = false;
};

}  // namespace tilec::ir::warp_check
