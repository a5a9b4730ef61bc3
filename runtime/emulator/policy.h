// Which warp of a cluster goes on, and for how long: the policies of runtime/execution.h.
//
// A policy sees who could run and what came of the last turn, nothing of the program. A warp that
// only polls steps behind the others, whatever its rank, so that no policy can starve the warp it
// waits for.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/execution.h"

namespace tilec::runtime::emulator {

struct Turn {
  uint32_t warp = 0;
  uint64_t instructions = 0;
};

// What a policy may know of a warp.
struct WarpView {
  uint32_t warp = 0;
  uint64_t copies = 0;  // asynchronous loads issued so far
};

class PolicyState {
 public:
  void Start(Policy policy, int depth, uint64_t seed, uint32_t warps,
             const std::vector<Decision>* replay);
  // `runnable` is ascending and not empty.
  Turn Next(const std::vector<WarpView>& runnable);
  void Ran(uint32_t warp, uint64_t executed, bool polled);
  // A replayed list says that a copy lands now: the one at this place in the queue; −1: no.
  int64_t Lands(size_t in_flight);
  // Landing::kRandom: the same question to the dice.
  int64_t DiceLands(size_t in_flight);
  bool AllPoll(const std::vector<WarpView>& runnable) const;

 private:
  Turn RoundRobin(const std::vector<WarpView>& runnable);
  Turn Random(const std::vector<WarpView>& runnable);
  Turn Pct(const std::vector<WarpView>& runnable);
  Turn ByCopies(const std::vector<WarpView>& runnable, bool most);
  uint64_t Dice(uint64_t* state);

  Policy policy_ = Policy::kRunToBlock;
  const std::vector<Decision>* replay_ = nullptr;
  size_t at_ = 0;
  uint32_t last_ = ~0u;
  uint64_t rng_ = 1, land_rng_ = 1;
  uint64_t executed_ = 0;
  uint64_t stayed_ = 0;              // instructions of `last_` since another warp ran
  std::vector<uint8_t> polls_;       // fruitless since anybody else ran
  std::vector<uint64_t> ran_;        // by copies: instructions since all had their share
  std::vector<int64_t> priorities_;  // pct: higher goes first
  std::vector<uint64_t> changes_;    // pct: at how many executed instructions, descending
  int64_t lowest_ = 0;
};

}  // namespace tilec::runtime::emulator
