// What a placement needs (needs.h), kept up to date while ops move one at a time: modulo scheduling
// tries thousands of moves, and what one of them changes is the life of the op, those of the values
// that it reads, and what is alive when it issues. The numbers are those of Measure, to the unit.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/graph.h"
#include "scheduler/needs.h"

namespace tilec::scheduler {

class Lives {
 public:
  // `graph` has no routes: the division into roles has decided them (routes.h).
  Lives(const Graph& graph, int64_t ii, const RoleOffer& offer, bool roles, std::vector<int> group);

  // All ops anew.
  void Set(const std::vector<int64_t>& cycles);
  // Op v alone.
  void Move(int v, int64_t cycle);

  int64_t PeakRegisters(int group) const;
  int64_t RegistersOfPool() const;  // Σ of quotas over warpgroups
  int64_t pool() const { return pool_; }
  int64_t smem_bytes() const { return smem_bytes_; }
  int64_t TmemColumns() const;
  // Σ over value edges of the cycles from producer to reader, by the size of the value.
  int64_t weighted_life() const { return weighted_life_; }
  int groups() const { return static_cast<int>(members_.size()); }

 private:
  struct Life {
    int64_t slot = 0, periods = 0, rest = 0;  // of its definition; of its length
  };
  // Instances of v alive at slot `at`.
  int64_t Alive(int v, int64_t at) const {
    const int64_t since = at - life_[v].slot;
    return life_[v].periods + ((since < 0 ? since + ii_ : since) < life_[v].rest ? 1 : 0);
  }
  void Measure(int v);                       // its life and its ring
  void Count(int v, int64_t sign, int but);  // v's instances where others issue
  void CountAt(int e);                       // all instances where e issues
  int64_t Depth(int v) const;
  int64_t Weighted(int v) const;  // edges of v to other ops

  const Graph& graph_;
  const int64_t ii_;
  const bool roles_;
  const RoleOffer offer_;
  const int load_warps_;
  const std::vector<int> group_;
  std::vector<std::vector<int>> members_;  // by group: ops whose values are in registers
  std::vector<int> in_tmem_;
  std::vector<bool> used_;                      // groups
  std::vector<int64_t> pinned_depth_, weight_;  // by op
  std::vector<std::vector<int>> out_, in_;      // value edges by op
  std::vector<std::vector<int>> touched_;       // by op: itself and what it reads, each once
  std::vector<int64_t> cycle_;
  std::vector<Life> life_;
  std::vector<int64_t> regs_, tmem_;  // alive when the op issues
  int64_t pool_ = 0, smem_bytes_ = 0, weighted_life_ = 0;
};

}  // namespace tilec::scheduler
