// A schedule in microseconds: iterative modulo scheduling with backtracking, for one initiation
// interval and one division of ops among roles. Finds, never refutes: no answer means nothing.
//
// Ops are placed one by one, those with the least freedom first, each as early or as late as keeps
// values short-lived. Where no slot is free the op takes one by force and those in its way are
// placed again (Rau, MICRO-27, with the lifetime-sensitive placement of Huff, PLDI'93). What then
// overflows a memory or a register file is repaired by moving single ops.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/graph.h"
#include "scheduler/lives.h"
#include "scheduler/modulo_line.h"
#include "scheduler/needs.h"

namespace tilec::scheduler {

struct ModuloProblem {
  const Graph* graph = nullptr;
  RoleOffer offer;
  std::vector<int> group;  // by op
  bool roles = true;       // false: no issue, no transfer, no registers
  bool registers = true;
};

class ModuloScheduler {
 public:
  ModuloScheduler(ModuloProblem problem, int64_t ii);
  // False: a circle of dependences is longer than II allows; nothing can be found.
  bool Possible() const { return possible_; }
  // Attempt `seed` (the same seed gives the same answer): a placement that satisfies all laws but
  // pins and liveness.
  std::optional<Placement> Run(uint64_t seed);
  // A placement that keeps dependences, units and issue, with single ops moved so that values live
  // shorter: for whoever found it without a look at registers and memory.
  std::vector<int64_t> Mend(const std::vector<int64_t>& cycles);

 private:
  static constexpr int64_t kNone = INT64_MIN / 4;  // no cycle
  struct Conflict {                                // on a resource of one instance
    int op;
    int64_t mine, theirs;
  };
  struct OnLine {  // use of a resource of one instance
    int line;
    int64_t cycles;
  };
  struct Shared {  // use of a resource of several instances
    int resource;
    int64_t cycles;
  };
  struct User {  // of a resource of several instances, in the order of ops
    int op;
    int64_t cycles;
  };
  struct Window {
    int64_t early, late;
    bool from_early;  // search from the early end
  };

  void BuildPaths();
  void BuildConflicts();
  int64_t& Path(int i, int j) { return path_[static_cast<size_t>(i) * n_ + j]; }
  // Mostly of differences within a period: no division then.
  int64_t Mod(int64_t a) const {
    if (a >= 0 && a < ii_) return a;
    return a < 0 && a >= -ii_ ? a + ii_ : FloorMod(a, ii_);
  }
  double Noise();

  int Pick();
  Window WindowOf(int v);
  // The same by gaps, where v is not placed and shares no resource of several instances; nothing
  // else knows of lines.
  std::optional<int64_t> GapFrom(int v, int64_t from, int64_t to) const;
  std::optional<int64_t> FlushGap(int v, const Window& window);
  // How far to move v from t, forwards or backwards, to be free of what it meets; 0: free.
  int64_t Jump(int v, int64_t t, bool forward);
  bool Free(int v, int64_t t);
  std::optional<int64_t> FreeSlot(int v, int64_t from, int64_t to);
  std::optional<int64_t> FlushSlot(int v, const Window& window);
  bool MeetsNear(int64_t t);
  void Put(int v, int64_t t);
  void Place(int v, int64_t t);
  void Evict(int v);
  void Bound(int v, int by);
  void Force(int v, int64_t t);
  bool PlaceAll();
  struct Badness {
    int64_t overflow = 0, life = 0;
    bool operator<(const Badness& o) const {
      return overflow != o.overflow ? overflow < o.overflow : life < o.life;
    }
  };
  Badness Judge() const;
  void Improve();

  const ModuloProblem problem_;
  const Graph& graph_;
  const int n_;
  const int64_t ii_;
  bool possible_ = true;
  std::vector<GraphEdge> edges_;            // delays with transfers
  std::vector<std::vector<int>> in_, out_;  // edges by op
  std::vector<int64_t> path_, path_to_;     // from an op to all others; to it from all others
  std::vector<int64_t> depth_, height_;
  int64_t critical_ = 0;
  std::vector<std::vector<Conflict>> conflicts_;
  std::vector<Line> lines_;              // of resources of one instance: who is placed
  std::vector<std::vector<OnLine>> on_;  // by op
  bool lined_ = true;                    // no op is on a line twice
  std::vector<std::vector<Shared>> shared_;
  struct There {  // a user that is placed, counted from where another is tried
    int64_t start, cycles, step;
  };
  std::vector<There> there_;  // of one resource, in Jump
  struct Near {               // what is placed and takes turns with an op
    int64_t phase, mine, theirs;
  };
  std::vector<Near> near_;                // in FlushSlot; who was in the way last comes first
  std::vector<std::vector<User>> users_;  // the same, by resource
  std::vector<int64_t> capacity_;         // by resource of several instances
  std::vector<bool> tight_;               // ops of a nearly full resource of one instance
  std::vector<bool> late_;                // by default as late as possible

  // What is placed next: the op with the least freedom; or from the start of the critical path
  // (height) or from its end (depth).
  enum class Order { kSlack, kHeight, kDepth };
  Order order_ = Order::kSlack;
  uint64_t random_ = 0;
  std::vector<double> bias_;
  std::vector<int64_t> t_, last_;
  std::vector<int64_t> phase_;  // of t_ in a period, where placed
  std::vector<uint8_t> placed_;
  // What the ops that are placed leave to each op: cycles from `from_` to `until_`.
  std::vector<int64_t> from_, until_;
  std::vector<int> evicted_;  // since the two were last right
  Lives lives_;               // of t_, while single ops move
};

}  // namespace tilec::scheduler
