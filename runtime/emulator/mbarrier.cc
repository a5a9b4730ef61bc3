// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mbarrier.h"

namespace tilec::runtime::emulator {
namespace {

MBarrierStep FailedStep(MBarrierStep step, MBarrierError error) {
  step.error = error;
  return step;
}

bool CountInRange(uint32_t count) { return count >= 1 && count <= kMBarrierMaxCount; }

bool TxInRange(int64_t tx) { return tx >= -kMBarrierMaxTx && tx <= kMBarrierMaxTx; }

}  // namespace

std::string_view Describe(MBarrierError error) {
  switch (error) {
    case MBarrierError::kNone: return "no error";
    case MBarrierError::kNotInitialized: return "the mbarrier is not initialized";
    case MBarrierError::kAlreadyInitialized: return "the mbarrier is live already";
    case MBarrierError::kCountRange: return "the count is outside [1, 1048575]";
    case MBarrierError::kTxRange: return "the transaction count is outside [0, 1048575]";
    case MBarrierError::kArriveUnderflow: return "more arrivals than the phase still expects";
    case MBarrierError::kNoCompleteCompletes:
      return "a .noComplete arrival would complete the phase";
    case MBarrierError::kTxOverflow: return "the transaction count would leave ±1048575";
    case MBarrierError::kStalePhase:
      return "the state is older than the immediately preceding phase";
    case MBarrierError::kParityRange: return "the phase parity is neither 0 nor 1";
  }
  return "";
}

MBarrierStep MBarrier::Begin() const {
  MBarrierStep step;
  step.token = {phase_, pending_};
  if (!valid_) step.error = MBarrierError::kNotInitialized;
  return step;
}

MBarrierStep MBarrier::Finish(MBarrierStep step) {
  if (pending_ == 0 && tx_ == 0) {
    phase_++;
    pending_ = expected_;
    step.completed = true;
  }
  return step;
}

MBarrierStep MBarrier::Init(uint32_t count) {
  MBarrierStep step;
  if (valid_) return FailedStep(step, MBarrierError::kAlreadyInitialized);
  if (!CountInRange(count)) return FailedStep(step, MBarrierError::kCountRange);
  *this = {};
  valid_ = true;
  expected_ = pending_ = count;
  step.token = {0, count};
  return step;
}

MBarrierStep MBarrier::Invalidate() {
  MBarrierStep step = Begin();
  if (step.ok()) valid_ = false;
  return step;
}

MBarrierStep MBarrier::ExpectTx(uint32_t bytes) {
  MBarrierStep step = Begin();
  if (!step.ok()) return step;
  if (bytes > kMBarrierMaxTx) return FailedStep(step, MBarrierError::kTxRange);
  if (!TxInRange(tx_ + bytes)) return FailedStep(step, MBarrierError::kTxOverflow);
  tx_ += bytes;
  return Finish(step);
}

MBarrierStep MBarrier::CompleteTx(uint32_t bytes) {
  MBarrierStep step = Begin();
  if (!step.ok()) return step;
  if (bytes > kMBarrierMaxTx) return FailedStep(step, MBarrierError::kTxRange);
  if (!TxInRange(tx_ - bytes)) return FailedStep(step, MBarrierError::kTxOverflow);
  tx_ -= bytes;
  return Finish(step);
}

MBarrierStep MBarrier::Arrive(uint32_t count, bool no_complete) {
  MBarrierStep step = Begin();
  if (!step.ok()) return step;
  if (!CountInRange(count)) return FailedStep(step, MBarrierError::kCountRange);
  if (count > pending_) return FailedStep(step, MBarrierError::kArriveUnderflow);
  if (no_complete && count == pending_ && tx_ == 0) {
    return FailedStep(step, MBarrierError::kNoCompleteCompletes);
  }
  pending_ -= count;
  return Finish(step);
}

MBarrierStep MBarrier::ArriveExpectTx(uint32_t bytes) {
  MBarrierStep step = Begin();
  if (!step.ok()) return step;
  if (bytes > kMBarrierMaxTx) return FailedStep(step, MBarrierError::kTxRange);
  if (!TxInRange(tx_ + bytes)) return FailedStep(step, MBarrierError::kTxOverflow);
  if (pending_ < 1) return FailedStep(step, MBarrierError::kArriveUnderflow);
  tx_ += bytes;
  pending_ -= 1;
  return Finish(step);
}

MBarrierStep MBarrier::ArriveDrop(uint32_t count, bool no_complete) {
  const MBarrier before = *this;
  if (valid_ && CountInRange(count) && count > expected_) {
    return FailedStep(Begin(), MBarrierError::kArriveUnderflow);
  }
  if (valid_ && CountInRange(count)) expected_ -= count;
  MBarrierStep step = Arrive(count, no_complete);
  if (!step.ok()) *this = before;
  return step;
}

MBarrierStep MBarrier::ArriveDropExpectTx(uint32_t bytes) {
  const MBarrier before = *this;
  if (valid_ && expected_ < 1) return FailedStep(Begin(), MBarrierError::kArriveUnderflow);
  if (valid_) expected_ -= 1;
  MBarrierStep step = ArriveExpectTx(bytes);
  if (!step.ok()) *this = before;
  return step;
}

MBarrierStep MBarrier::IncrementPending() {
  MBarrierStep step = Begin();
  if (!step.ok()) return step;
  if (pending_ >= kMBarrierMaxCount) return FailedStep(step, MBarrierError::kCountRange);
  pending_ += 1;
  return step;
}

MBarrierWait MBarrier::TestParity(uint32_t parity) const {
  if (!valid_) return {MBarrierError::kNotInitialized, false};
  if (parity > 1) return {MBarrierError::kParityRange, false};
  return {MBarrierError::kNone, (phase_ & 1) != parity};
}

MBarrierWait MBarrier::TestToken(MBarrierToken token) const {
  if (!valid_) return {MBarrierError::kNotInitialized, false};
  if (token.phase > phase_ || token.phase + 1 < phase_) {
    return {MBarrierError::kStalePhase, token.phase < phase_};
  }
  return {MBarrierError::kNone, token.phase < phase_};
}

}  // namespace tilec::runtime::emulator
