// The mbarrier state machine.
//
// The eight bytes in shared memory are opaque to programs, so the emulator keeps the state beside
// them, with a phase counter that never wraps: a waiter that was lapped can be told from one that
// is on time. Nothing here blocks or reports; the executor turns errors into diagnostics and
// keeps the happens-before clocks.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tilec::runtime::emulator {

inline constexpr uint32_t kMBarrierMaxCount = (1u << 20) - 1;
inline constexpr int64_t kMBarrierMaxTx = (1 << 20) - 1;

enum class MBarrierError : uint8_t {
  kNone,
  kNotInitialized,       // operation on bytes that are no mbarrier (or were invalidated)
  kAlreadyInitialized,   // init on a live mbarrier
  kCountRange,           // a count outside [1, 2^20 − 1]
  kTxRange,              // a tx operand outside [0, 2^20 − 1]
  kArriveUnderflow,      // more arrivals than the phase still expects
  kNoCompleteCompletes,  // .noComplete arrival that would finish the phase
  kTxOverflow,           // the tx count would leave ±(2^20 − 1)
  kStalePhase,           // token of a phase before the immediately preceding one
  kParityRange,          // parity operand neither 0 nor 1
};

// "arrival count exceeds the pending count", for messages.
std::string_view Describe(MBarrierError error);

// A state token: the phase it was taken in and the pending count before the arrival.
struct MBarrierToken {
  uint64_t phase = 0;
  uint32_t pending = 0;
  // The 64-bit register value (44 bits of phase).
  uint64_t Pack() const { return phase << 20 | pending; }
  static MBarrierToken Unpack(uint64_t v) {
    return {v >> 20, static_cast<uint32_t>(v & kMBarrierMaxCount)};
  }
};

struct MBarrierStep {
  MBarrierError error = MBarrierError::kNone;
  bool completed = false;  // this operation finished a phase
  MBarrierToken token;     // state before the operation
  bool ok() const { return error == MBarrierError::kNone; }
};

struct MBarrierWait {
  MBarrierError error = MBarrierError::kNone;
  bool done = false;
};

class MBarrier {
 public:
  MBarrierStep Init(uint32_t count);
  MBarrierStep Invalidate();

  MBarrierStep ExpectTx(uint32_t bytes);
  MBarrierStep CompleteTx(uint32_t bytes);
  MBarrierStep Arrive(uint32_t count = 1, bool no_complete = false);
  // arrive.expect_tx: the expectation and one arrival, indivisible.
  MBarrierStep ArriveExpectTx(uint32_t bytes);
  MBarrierStep ArriveDrop(uint32_t count = 1, bool no_complete = false);
  MBarrierStep ArriveDropExpectTx(uint32_t bytes);
  // cp.async.mbarrier.arrive: the arrival triggered by finished copies. Without .noinc the pending
  // count is raised by one when the instruction is issued and lowered when the copies are done;
  // IncrementPending is that first half, Arrive the second.
  MBarrierStep IncrementPending();

  // True once the phase with this parity (the current one, or the one before) is complete.
  MBarrierWait TestParity(uint32_t parity) const;
  MBarrierWait TestToken(MBarrierToken token) const;

  bool valid() const { return valid_; }
  uint64_t phase() const { return phase_; }  // phases completed since init
  uint32_t expected() const { return expected_; }
  uint32_t pending() const { return pending_; }
  int64_t tx() const { return tx_; }

  bool operator==(const MBarrier&) const = default;

 private:
  MBarrierStep Begin() const;
  MBarrierStep Finish(MBarrierStep step);

  bool valid_ = false;
  uint32_t expected_ = 0;  // arrivals of the next phase
  uint32_t pending_ = 0;
  int64_t tx_ = 0;
  uint64_t phase_ = 0;
};

}  // namespace tilec::runtime::emulator
