// Scripted sequences: each line is one operation and the state after it.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/emulator/mbarrier.h"

#include "gtest/gtest.h"

namespace tilec::runtime::emulator {
namespace {

void ExpectState(const MBarrier& b, uint64_t phase, uint32_t pending, int64_t tx, int line) {
  EXPECT_EQ(b.phase(), phase) << "line " << line;
  EXPECT_EQ(b.pending(), pending) << "line " << line;
  EXPECT_EQ(b.tx(), tx) << "line " << line;
}
#define STATE(phase, pending, tx) ExpectState(b, phase, pending, tx, __LINE__)

TEST(MBarrier, PhaseCompletesOnLastArrival) {
  MBarrier b;
  EXPECT_TRUE(b.Init(2).ok());
  STATE(0, 2, 0);
  EXPECT_FALSE(b.TestParity(0).done);
  EXPECT_TRUE(b.TestParity(1).done);  // a fresh barrier passes the odd parity
  const MBarrierStep first = b.Arrive();
  EXPECT_FALSE(first.completed);
  EXPECT_EQ(first.token.phase, 0u);
  EXPECT_EQ(first.token.pending, 2u);
  STATE(0, 1, 0);
  EXPECT_TRUE(b.Arrive().completed);
  STATE(1, 2, 0);
  EXPECT_TRUE(b.TestParity(0).done);
  EXPECT_FALSE(b.TestParity(1).done);
  EXPECT_TRUE(b.TestToken(MBarrierToken::Unpack(first.token.Pack())).done);
}

TEST(MBarrier, TransactionsHoldThePhase) {
  MBarrier b;
  b.Init(1);
  EXPECT_FALSE(b.ArriveExpectTx(4096).completed);
  STATE(0, 0, 4096);
  EXPECT_FALSE(b.CompleteTx(1024).completed);
  STATE(0, 0, 3072);
  EXPECT_TRUE(b.CompleteTx(3072).completed);
  STATE(1, 1, 0);
  // A copy may finish before anybody expected it.
  EXPECT_FALSE(b.CompleteTx(512).completed);
  STATE(1, 1, -512);
  EXPECT_TRUE(b.ArriveExpectTx(512).completed);
  STATE(2, 1, 0);
  // Expectation alone, then the arrival, then the bytes.
  EXPECT_FALSE(b.ExpectTx(64).completed);
  EXPECT_FALSE(b.Arrive().completed);
  EXPECT_TRUE(b.CompleteTx(64).completed);
  STATE(3, 1, 0);
}

TEST(MBarrier, ExpectThenArriveIsIndivisible) {
  MBarrier b;
  b.Init(1);
  EXPECT_FALSE(b.CompleteTx(128).completed);
  EXPECT_TRUE(b.ArriveExpectTx(128).completed);
  STATE(1, 1, 0);
}

TEST(MBarrier, DropLowersFollowingPhases) {
  MBarrier b;
  b.Init(3);
  EXPECT_TRUE(b.ArriveDrop(1).ok());
  STATE(0, 2, 0);
  EXPECT_EQ(b.expected(), 2u);
  EXPECT_TRUE(b.Arrive(2).completed);
  STATE(1, 2, 0);
  EXPECT_FALSE(b.ArriveDropExpectTx(16).completed);
  EXPECT_FALSE(b.Arrive(1).completed);
  EXPECT_TRUE(b.CompleteTx(16).completed);
  STATE(2, 1, 0);
}

TEST(MBarrier, CopiesRaiseThePendingCount) {
  MBarrier b;
  b.Init(1);
  EXPECT_TRUE(b.IncrementPending().ok());
  EXPECT_FALSE(b.Arrive().completed);
  EXPECT_TRUE(b.Arrive().completed);
  STATE(1, 1, 0);
}

TEST(MBarrier, ErrorsChangeNothing) {
  MBarrier b;
  EXPECT_EQ(b.Arrive().error, MBarrierError::kNotInitialized);
  EXPECT_EQ(b.TestParity(0).error, MBarrierError::kNotInitialized);
  EXPECT_EQ(b.Init(0).error, MBarrierError::kCountRange);
  EXPECT_EQ(b.Init(1u << 20).error, MBarrierError::kCountRange);
  EXPECT_TRUE(b.Init(2).ok());
  EXPECT_EQ(b.Init(2).error, MBarrierError::kAlreadyInitialized);
  const MBarrier before = b;
  EXPECT_EQ(b.Arrive(3).error, MBarrierError::kArriveUnderflow);
  EXPECT_EQ(b.Arrive(0).error, MBarrierError::kCountRange);
  EXPECT_EQ(b.Arrive(2, true).error, MBarrierError::kNoCompleteCompletes);
  EXPECT_EQ(b.ArriveDrop(3).error, MBarrierError::kArriveUnderflow);
  EXPECT_EQ(b.ArriveDrop(2, true).error, MBarrierError::kNoCompleteCompletes);
  EXPECT_EQ(b.ExpectTx(1u << 20).error, MBarrierError::kTxRange);
  EXPECT_EQ(b.CompleteTx(1u << 20).error, MBarrierError::kTxRange);
  EXPECT_EQ(b.TestParity(2).error, MBarrierError::kParityRange);
  EXPECT_EQ(b, before);
  EXPECT_TRUE(b.ExpectTx((1u << 20) - 1).ok());
  EXPECT_EQ(b.ExpectTx(1).error, MBarrierError::kTxOverflow);
  EXPECT_EQ(b.ArriveExpectTx(1).error, MBarrierError::kTxOverflow);
  STATE(0, 2, (1 << 20) - 1);
  EXPECT_TRUE(b.Arrive(2).ok());  // the bytes are still outstanding
  EXPECT_EQ(b.Arrive().error, MBarrierError::kArriveUnderflow);
  EXPECT_EQ(b.ArriveExpectTx(0).error, MBarrierError::kArriveUnderflow);
  EXPECT_TRUE(b.Invalidate().ok());
  EXPECT_EQ(b.CompleteTx(1).error, MBarrierError::kNotInitialized);
  EXPECT_TRUE(b.Init(5).ok());
  STATE(0, 5, 0);
}

TEST(MBarrier, TokensOfOldPhases) {
  MBarrier b;
  b.Init(1);
  const MBarrierToken t0 = b.Arrive().token;
  EXPECT_TRUE(b.TestToken(t0).done);
  const MBarrierToken t1 = b.Arrive().token;
  EXPECT_EQ(t1.phase, 1u);
  EXPECT_TRUE(b.TestToken(t1).done);
  EXPECT_EQ(b.TestToken(t0).error, MBarrierError::kStalePhase);
  EXPECT_EQ(b.TestToken({7, 1}).error, MBarrierError::kStalePhase);
  EXPECT_FALSE(b.TestToken({2, 1}).done);
}

}  // namespace
}  // namespace tilec::runtime::emulator
