// Random schedules that every law accepts: from a first answer, periods are stretched and ops moved
// about while the judge of schedules still agrees. As text of a .sched file.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "ir/function.h"
#include "ir/target.h"

namespace tilec::fuzz {

// For the loops of a cleaned-up tile function, its rows cut into `slices`. "": there is none.
// `crossing`: ops are divided among compute roles at random, and tiles pass between them.
std::string RandomSchedules(const ir::Function& fn, int slices, const ir::Target& target,
                            uint64_t seed, bool crossing = false);

}  // namespace tilec::fuzz
