// One state of the walk: where every role stands, what every role knows of the others, what was
// done to every piece of shared memory. Plain data that is copied where control may go two ways.
//
// Knowledge is a vector clock. Component 2·r counts what all threads of role r have done, 2·r + 1
// what its elected thread has done, and the last ones the phases each barrier has completed. That a
// copy or a product is done is known to whoever knows the phase or the wait that says so; nothing
// is ever concluded from timing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/warp_check/clock.h"
#include "ir/warp_check/flat_map.h"
#include "ir/warp_check/terms.h"

namespace tilec::ir::warp_check {

// kThreadCopy: cp.async, which is done with a phase as copies in are, and of the generic proxy.
// kTensorProduct: products that complete at an mbarrier, in shared and in tensor memory;
// kTensorAccess: loads and stores of tensor memory by threads.
enum class Proxy : uint8_t {
  kGeneric,
  kProduct,
  kCopyIn,
  kThreadCopy,
  kCopyOut,
  kTensorProduct,
  kTensorAccess
};
inline bool IsCopyIn(Proxy proxy) { return proxy == Proxy::kCopyIn || proxy == Proxy::kThreadCopy; }
inline bool IsGeneric(Proxy proxy) {
  return proxy == Proxy::kGeneric || proxy == Proxy::kThreadCopy;
}
enum class Who : uint8_t { kAll, kElected, kWarps };  // the threads that execute an op

// An access to a piece of shared memory that later accesses must come after.
struct Record {
  Proxy proxy = Proxy::kGeneric;
  bool write = false;
  int component = 0;              // whose count n, end and fence are
  int apart = -1;                 // the slot whose clocks count it (apart.cc)
  int32_t n = 0;                  // when it was issued
  int32_t end = -1;               // products, copies out: the wait that ended it
  int32_t fence = -1;             // generic: the first fence.proxy.async after it
  int32_t slot = -1, phase = -1;  // copies in: complete with this phase of this barrier
  int32_t flight = -1;            // products, copies out: which
  OpId op;
};

struct Region {
  bool written = false;
  int32_t tile = -1;  // of columns: the number of the tile that they were written as
  std::vector<Record> records;
};

// Lists of ops, by number; 0 is the empty one. (For WarpOpUse only: a state says which arrivals
// completed a phase without a vector for each barrier.)
class OpLists {
 public:
  int32_t With(int32_t list, OpId op) {
    const auto [it, fresh] = longer_.try_emplace({list, op.index}, 0);
    if (fresh) {
      all_.push_back({list, op});
      it->second = static_cast<int32_t>(all_.size());
    }
    return it->second;
  }
  int32_t Before(int32_t list) const { return all_[static_cast<size_t>(list) - 1].first; }
  OpId Last(int32_t list) const { return all_[static_cast<size_t>(list) - 1].second; }

 private:
  std::vector<std::pair<int32_t, OpId>> all_;             // a list and the op behind it
  FlatMap<std::pair<int32_t, int32_t>, int32_t> longer_;  // the same, as numbers
};

struct Barrier {
  bool ready = false;
  int32_t init_component = 0, init_fence = -1;
  int64_t count = 0;
  int32_t phase = 0;  // being filled; all before are complete
  int64_t arrived = 0, expected = 0, delivered = 0;
  bool carried_bytes = false;   // the last complete phase
  bool by_commit = false;       // some arrival of this phase comes from products
  bool came_by_commit = false;  // likewise of the last complete one
  OpId last;                    // the op that arrived last, for reports
  int last_role = 0;
  int32_t arriving = 0, arrived_ops = 0;  // of this phase and the last; lists of OpLists
  std::vector<int> filling, filled;       // likewise as events of a trace
  Clock pending, done;
  Clock seen;  // waits for the last complete phase, which the next one may not overtake
};

// A tile on its way through the tensor core.
struct CoreTile {
  enum Kind : uint8_t { kPlain, kFenced, kFlying } kind = kPlain;
  int32_t id = 0;  // which fence, which product
};

struct Flight {
  int32_t id = 0, group = -1;  // group -1: not committed
  std::vector<int32_t> held;   // fenced register operands it reads
  OpId op;
  int event = -1;  // of a trace
};

struct Frame {
  BlockId block;
  int next = 0;  // index into the block's ops; -1: the loop's condition is due
  OpId op;       // whose region this is
  int region = 0;
  Who who = Who::kAll;
  Scalar position, end;  // of a for
  int32_t frame_atom = -1;
  Scalar length;             // end - lo, symbolic part
  std::vector<Scalar> init;  // of a for: what it carries into its first iteration, if it steers
  int64_t turns = 0;
  bool low = false;  // an early iteration: positions mean their numbers
};

// Which question: of Agreement, in which iteration of its context, about which iteration.
struct AgreedQuestion {
  int32_t question = -1;  // -1: none
  int64_t n = 0, j = 0;
};

// What was answered on the way through one op: is form > threshold?
struct Answered {
  int32_t form = 0;
  int64_t threshold = 0;
  bool yes = false;
};

struct Role {
  bool started = false, ended = false;
  std::vector<Frame> frames;
  int32_t now = 0;
  Clock all, elected;               // known to every thread; to the elected one
  FlatMap<int32_t, Scalar> env;     // by value
  FlatMap<int32_t, CoreTile> core;  // by value
  FlatMap<int32_t, int64_t> counters;
  std::vector<Flight> flights;
  int32_t commits = 0, ids = 0;
  std::vector<std::pair<int32_t, OpId>> syncs, fences;  // the latest; for WarpOpUse only
  FlatMap<int32_t, OpId> counted;                       // by counter: not read since; likewise
  std::vector<std::pair<int32_t, int32_t>> bulk;        // copies out: (id, group or -1)
  int32_t bulk_commits = 0;
  // Of tensor memory: products issued, accesses by threads, those of them behind which a fence
  // stands, whether a product was not committed, and what was known at the last fence after.
  int32_t products = 0, accesses = 0, fenced = 0;
  bool uncommitted = false;
  Clock tensor_all, tensor_elected;
  int32_t parts_met = -1;  // when the threads of each part of the role met among themselves
  FlatMap<std::pair<int32_t, int>, int64_t> runs;  // loops begun, by length form and site
  OpId stuck;                                      // the wait it stands at,
  int32_t stuck_slot = 0, stuck_phase = 0;         // for the end of this phase of this barrier
  bool undecided = false;     // it stands at a question nobody has answered yet:
  int32_t question_form = 0;  // is form > threshold?
  int64_t question_threshold = 0;
  bool question_negated = false;    // a yes means that what the op asks does not hold
  AgreedQuestion agreed_question;   // or this one
  std::vector<int64_t> iterations;  // begun so far, by loop of Agreement
  // Whatever else is forgotten: an op that asks twice goes on only with both answers at hand.
  std::vector<Answered> answered;
};

struct Bounds {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
};

struct Trips {
  int64_t lo = 0, hi = INT64_MAX;
};

struct State {
  std::vector<Role> roles;
  std::vector<Barrier> barriers;
  std::vector<Region> regions;
  FlatMap<int32_t, Bounds> known;      // what was decided of a form
  FlatMap<int64_t, int64_t> privates;  // executions so far, by role and op
  std::vector<char> handed;            // by Program::hands: put, and not taken yet
  // With Machine::agreed: how many iterations there are, by question and iteration of its context.
  // Of a branch: one if its condition holds, else none.
  FlatMap<std::pair<int32_t, int64_t>, Trips> agreed;
};

}  // namespace tilec::ir::warp_check
