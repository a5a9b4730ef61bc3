// Every handler that is not lane-wise arithmetic (alu.h), by the file that has it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/access.h"
#include "runtime/emulator/internal.h"

namespace tilec::runtime::emulator {

#define HANDLER(name) Step name(Warp& w, const Inst& i, uint32_t mask);

// exec_scalar.cc
HANDLER(RunRounded)
HANDLER(RunUnary)
HANDLER(RunUnaryF64)
HANDLER(RunPredicateLogic)
HANDLER(RunMovPredicate)
HANDLER(RunClock)
HANDLER(RunPack)
HANDLER(RunUnpack)
// exec_cvt.cc
HANDLER(RunCvt)
HANDLER(RunCvtPack)
HANDLER(RunCvtBf16x2) HANDLER(RunCvtF16x2) HANDLER(RunCvtU32U64) HANDLER(RunCvtU64U32)
    HANDLER(RunCvtS64S32) HANDLER(RunCvtF32Bf16) HANDLER(RunCvtF32F16)
    // exec_memory.cc
    HANDLER(RunLdParam) HANDLER(RunLd) HANDLER(RunSt) HANDLER(RunCvta) HANDLER(RunIsSpace)
        HANDLER(RunMapa) HANDLER(RunGetCtaRank) HANDLER(RunPrefetchMap)
    // exec_atomic.cc
    HANDLER(RunAtom)
    // exec_control.cc
    HANDLER(RunBra) HANDLER(RunRet) HANDLER(RunTrap) HANDLER(RunNanosleep) HANDLER(RunNothing)
        HANDLER(RunRefused) HANDLER(RunSetMaxNReg) HANDLER(RunBar) HANDLER(RunBarRed)
            HANDLER(RunBarWarp) HANDLER(RunClusterArrive) HANDLER(RunClusterWait)
    // exec_rare.cc
    HANDLER(RunCarry) HANDLER(RunBmsk) HANDLER(RunSzext) HANDLER(RunMul24) HANDLER(RunDp2a)
        HANDLER(RunFns) HANDLER(RunTestp) HANDLER(RunApprox64) HANDLER(RunRounded64)
            HANDLER(RunCvtSat) HANDLER(RunLop3Bool)
    // exec_wmma.cc
    HANDLER(RunWmmaMove) HANDLER(RunWmma) HANDLER(RunSmallMma) HANDLER(RunVideo) HANDLER(RunSetTo)
        HANDLER(RunStoreAsync)
    // exec_call.cc
    HANDLER(RunCall) HANDLER(RunReturn)
    // exec_warp.cc
    HANDLER(RunShfl) HANDLER(RunVote) HANDLER(RunMatch) HANDLER(RunActiveMask) HANDLER(RunRedux)
        HANDLER(RunElect)
    // exec_async.cc
    HANDLER(RunMBarrier) HANDLER(RunMBarrierPending) HANDLER(RunMBarrierWait) HANDLER(RunCpAsync)
        HANDLER(RunCpAsyncArrive) HANDLER(RunBulkLoad) HANDLER(RunBulkShared) HANDLER(RunBulkStore)
            HANDLER(RunBulkReduce) HANDLER(RunTensorLoad) HANDLER(RunTensorStore)
    // exec_map.cc
    HANDLER(RunReplaceMap) HANDLER(RunCopyMap) HANDLER(RunTryCancel) HANDLER(RunQueryCancel)
        HANDLER(RunStoreBulk)
    // judge_hooks.cc
    HANDLER(RunSync)
    // exec_mma.cc
    HANDLER(RunLdMatrix) HANDLER(RunMma) HANDLER(RunScaledMma) HANDLER(RunWgmma)
    // exec_tcgen05.cc
    HANDLER(RunTensorAlloc) HANDLER(RunTensorLd) HANDLER(RunTensorSt) HANDLER(RunTensorWait)
        HANDLER(RunTensorFence)
    // exec_tcgen05_async.cc
    HANDLER(RunTensorMma) HANDLER(RunTensorCp) HANDLER(RunTensorShift) HANDLER(RunTensorCommit)

#undef HANDLER

}  // namespace tilec::runtime::emulator
