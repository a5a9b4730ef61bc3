// Which read-modify-write operations exist on which types.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/emulator/ptx_ast.h"

namespace tilec::runtime::emulator {

enum class AtomOp : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kCas, kInc, kDec };

bool AtomDefined(AtomOp op, Type t);

}  // namespace tilec::runtime::emulator
