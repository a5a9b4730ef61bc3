// What handlers of exec_rare.cc find in Inst::u[0].
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tilec::runtime::emulator {

enum class CarryOp : uint8_t { kAdd, kSub, kMadLo, kMadHi };

}  // namespace tilec::runtime::emulator
