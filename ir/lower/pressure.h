// How many registers the tiles of a role need at once: liveness over its structured program. A
// bound for refusing programs that ptxas would spill, not a prediction: tiles made in place of
// their operands count once, what costs no data (broadcasts, constants, positions) counts nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::ir {

// 32-bit registers per thread, at the worst place of one role of a warp function.
int64_t PeakRegisters(const Function& fn, OpId role);
// … of one block, without what only passes it by.
int64_t PeakRegisters(const Function& fn, BlockId block);
// … and where they wait for each other or for memory: what is in use piece by piece is not counted.
int64_t HeldRegisters(const Function& fn, OpId role);

// The role of a warp program that keeps most registers of tiles alive, for messages.
struct RolePressure {
  std::string role;
  int64_t kept = 0;   // of a thread, at the worst place
  int64_t given = 0;  // its quota; 0: what ptxas finds for it
  int64_t held = 0;   // of `kept`, where threads wait; arithmetic uses up the rest piece by piece
  int64_t most =
      0;  // what a thread can be given: the quota, else by the launch and the register file
};
RolePressure FullestRole(const Function& warps, const Target& target);

// 32-bit registers per thread that a role's loops of products want because what they carry, and
// what is in flight meanwhile, has places that cannot be shared, although not all is alive at once.
int64_t PlacedRegisters(const Function& fn, OpId role);

// Registers of a thread that must be left beside tiles, by how many products the role (none: the
// program) has, with all prologues and versions of turns. Measured: of programs that are as full,
// those with many products spill more often. Supposed: accumulators stand in consecutive registers,
// and where there are many their places do not agree from one product to the next.
int64_t SpareRegisters(const Function& fn, const Target& target, OpId role = {});

// Tensors that the role's threads read, write or combine with in iterations that have products.
int64_t TensorsBesideProducts(const Function& fn, OpId role);
// … and in all of the role.
int64_t TensorsOfThreads(const Function& fn, OpId role);

// Registers of a thread that a program as solved is to leave beside tiles. A program whose only
// warpgroup computes leaves more: it makes all of the addresses and bounds.
int64_t BesideScheduled(const Function& warps, const Target& target);

// … and beside those tiles that it holds where threads wait, which is enough where more is alive in
// between. 0: not on this machine.
int64_t BesideHeld(const Function& warps, const Target& target);

// Do tiles leave more than that of every role's quota? Loops solved with fewer registers have more
// stages, and so more products than were thought of when registers were withheld: with 2 left, 220
// bytes were spilled.
bool LeavesRegisters(const Function& warps, const Target& target);

// Threads of a CTA that, where one is all that an SM has room for, is told of no number: the
// assembler would take all registers for it (backend/emit_signature.cc).
inline constexpr int64_t kLargeCta = 512;

// CTAs of a program without asynchronous products that one SM should hold at a time. They hide each
// other's waits, so as many as find room; the register allocator has to be told. Counted is what is
// held where threads wait (for each other, around loops), and the largest tile alone unless tiles
// are read again from shared memory: arithmetic makes and uses up its tiles piece by piece.
// 0: ptxas is told nothing; threads that exchange much fit better as it arranges them by itself.
// `chunks`: what is read again are the tiles of a row, one after the other.
int64_t CtasPerSm(const Function& fn, const Target& target, OpId role, bool chunks);

// Registers that a thread of such a role is taken to want; 0: nothing is known of it.
int64_t RowRegisters(const Function& fn, const Target& target, OpId role, bool chunks);

}  // namespace tilec::ir
