// A warp program with numbers for its parameters, laid out straight: what each role does with
// barriers, shared memory, tensor memory and tensors that it reads and writes, in order.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

enum class What {
  kInit,     // a barrier: `number` arrivals
  kArrive,   // likewise; expects `bytes`
  kWait,     // for parity `number`
  kSync,     // of the role
  kTouch,    // bytes by threads
  kCopyIn,   // bytes, signalled by a barrier
  kCpAsync,  // bytes that threads copy, done with the arrival that follows:
  kCpDone,   // at a barrier, when all such copies so far are
  kProduct,  // reads bytes
  kCopyOut,  // likewise
  kCommit,   // products, or copies out
  kAwait,    // until `number` groups are left
  // Products that complete at a barrier, and tensor memory.
  kIssue,      // one such product; what it touches follows
  kByProduct,  // bytes or columns
  kByThreads,  // columns
  kTell,       // a barrier, when all products so far are complete
  kFence,      // `number` 1: behind the last synchronisation; 0: in front of the next
};
enum class Who { kAll, kElected, kWarps };

struct Event {
  What what;
  Who who;
  OpId op;
  int barrier = -1;
  int64_t number = 0, bytes = 0;
  int64_t lo = 0, hi = 0;
  bool write = false, copies = false;
  bool tensor = false;   // in global memory, taken for one byte: writes are of different elements
  bool columns = false;  // lo and hi are columns: of all lanes, or those of the executing warp
  int group = -1;        // only this warpgroup of the role; -1: all
};

struct Unrolled {
  bool ok = true;  // false: too long, or control follows from data
  std::vector<Event> common;
  struct Role {
    int first = 0, warps = 0;
    std::vector<Event> events;
  };
  std::vector<Role> roles;
  std::vector<int64_t> path;  // trip counts and branches
  int64_t executed = 0;       // times `block` was
  int barriers = 0;
  // The first misuse of the tensor core's registers (core_tiles.h), or of a ring: then not `ok`.
  std::string fault;
};

// `seed`: of what is loaded from memory and steers.
Unrolled Unroll(const Function& fn, const std::map<ValueId, int64_t>& params, uint64_t seed,
                BlockId block);

// Where an execution goes, without what it does there: its trip counts and branches, and how often
// it comes to each block.
struct Way {
  bool ok = true;  // false: too long, or control follows from data
  bool too_long = false;
  std::vector<int64_t> path;
  std::vector<int64_t> executed;  // by block
};

// The ops that ways follow from, by block; all others are passed by. Two programs whose `key` is
// the same go the same ways.
struct Steering {
  std::vector<std::vector<OpId>> ops;
  std::string key;
};
Steering SteeringOf(const Function& fn);
Way Follow(const Function& fn, const Steering& steering, const std::map<ValueId, int64_t>& params,
           uint64_t seed);
// Scalars that go from role to role through a buffer of one element, with what was written:
// whoever reads one gets, each time, the next of the numbers made up for it. Those that one role
// alone takes from tiles are made up as well.
std::map<ValueId, ValueId> HandedOf(const Function& fn);

}  // namespace tilec::ir
