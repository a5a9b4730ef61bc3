// Which read-modify-write operations exist on which types.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/ptx_ast.h"

namespace tilec::runtime::emulator {

enum class AtomOp : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kCas, kInc, kDec };

// Of an instruction, in u[5].
enum AtomForm : uint8_t { kAtomReduces, kAtomReturns, kAtomOfVector };

bool AtomDefined(AtomOp op, Type t);

// What an atomic operation on memory of `old` leaves there.
uint64_t AtomResult(AtomOp op, Type t, uint64_t old, uint64_t value);

}  // namespace tilec::runtime::emulator
