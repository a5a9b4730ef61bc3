// One execution of a warp program, warp by warp: who knows what of whom when a byte is touched
// again. Far less than the verifier proves, and by other code, without symbols and without moments
// that are taken for one.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/text.h"
#include "tests/warp_check/executions.h"
#include "tests/warp_check/unrolled.h"

namespace tilec::ir {

constexpr int64_t kLanes = int64_t{1} << 41;  // where columns of the first quarter of lanes begin
constexpr int64_t kQuarter = 1 << 12;         // … and of the next one, behind it

// A warp's clock counts what every warp has done, as far as this one knows, then the phases that
// every barrier has completed; and again for every warp its products that are complete, its
// accesses of tensor memory behind a fence, and how far it has come, whatever it touched on the
// way.
using Clock = std::vector<int64_t>;

inline void Join(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

class Play {
 public:
  Play(const Function& fn, const Unrolled& code);

  // "", or what is wrong.
  std::string Run();

 private:
  struct Record {
    What what;
    bool write = false;
    size_t warp = 0;
    int64_t time = -1;   // of its warp, when it is done; -1: not known to be
    int64_t phase = -1;  // copies in
    int barrier = -1;
    OpId op;
    int64_t turn = 0;    // of its warp: how many-th event
    int64_t number = 0;  // of its warp's products, or accesses of columns
    int64_t lo = 0, hi = 0;
  };
  struct Flight {
    size_t record;
    int64_t group = -1;
  };
  struct Warp {
    int role = -1;
    size_t next = 0;
    bool synced = false;              // has come to the sync it stands at
    Clock all, one;                   // what all its threads know; what its elected one does
    Clock all_columns, one_columns;   // … did at the last fence behind a synchronisation
    int64_t issued = 0, told = 0;     // products that complete at a barrier; until the last commit
    int64_t touched = 0, fenced = 0;  // accesses of columns; in front of the last fence
    std::vector<Flight> products, copies;
    std::vector<size_t> copied;  // records of copies by threads, until the arrival that follows
    int64_t product_groups = 0, copy_groups = 0;
  };
  struct Barrier {
    int64_t count = -1, phase = 0, arrived = 0, expected = 0, delivered = 0;
    bool by_product = false;  // some arrival of its last phase
    Clock pending;
    std::vector<Clock> done;
    std::map<size_t, int64_t> seen;  // by warp: when it saw the phase before
  };
  struct Sync {
    int come = 0, gone = 0;
    Clock told;
  };

  Warp& me() { return warps_[at_]; }
  Clock& Knows() { return who_ == Who::kElected ? me().one : me().all; }
  int64_t Now() { return me().one[at_]; }
  void Tick();
  size_t PhaseOf(int barrier) const { return warps_.size() + static_cast<size_t>(barrier); }
  size_t ProductsOf(size_t warp) const { return warps_.size() + barriers_.size() + warp; }
  size_t AccessesOf(size_t warp) const { return ProductsOf(warps_.size() + warp); }
  size_t PastOf(size_t warp) const { return AccessesOf(warps_.size() + warp); }
  Clock Told();
  std::string Name(OpId op) const { return fmt::format("`{}`", PrintOp(fn_, op)); }
  bool Fault(std::string text);
  const Event* Next();
  bool InCommon() { return me().next < code_.common.size(); }
  bool First();
  bool Step();
  bool Meet(const Event&);
  bool Wait(const Event& e);
  void Arrive(const Event& e, int64_t arrivals, const Clock& told);
  void Tell(const Event& e);
  void Copied(const Event& e);
  void Fence(bool after);
  void Complete(const Event& e);
  bool Done(const Record& r, const Event& e);
  void AccessColumns(Event e, int64_t number);
  size_t Access(const Event& e);
  void Execute(const Event& e);

  const Function& fn_;
  const Unrolled& code_;
  std::vector<Warp> warps_;
  std::vector<Barrier> barriers_;
  std::vector<Sync> syncs_;
  std::vector<Record> records_;
  std::vector<size_t> live_;
  size_t at_ = 0;
  Who who_ = Who::kAll;
  std::string fault_;
};

}  // namespace tilec::ir
