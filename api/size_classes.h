// Classes of sizes (--tune=classes): what the model chooses for a launch is chosen for the class of
// its sizes, so that a size which nobody saw before finds the program of its class. A class is
// chosen for by its largest member, and depends on the sizes of the launch and on nothing that ran
// before: another process, or another order of launches, takes the same programs.
//
// Three binary digits of a dim count: 1 … 8, 10, 12, 14, 16, 20, 24, 28, 32, 40 …, each standing
// for what lies behind the one before; of an integer scalar one digit, of others none. Dims that
// are compiled in are classes of their own, and so is a dim where the kernel's facts do not hold of
// the largest member (H % G == 0).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/call.h"
#include "frontend/frontend.h"

namespace tilec::api {

constexpr int kDimDigits = 3, kScalarDigits = 1;

// The largest number of its class: the least one from `size` on with so many digits that count.
int64_t ClassOf(int64_t size, int digits = kDimDigits);

// One from each class that has members in first … last, and where `alignments` are asked for, one
// for each power of two up to so many that members of a class are multiples of. Ascending.
std::vector<int64_t> MembersOf(int64_t first, int64_t last, int64_t alignments = 1);

// Integers that choices look at, each as its class says: what TextOfSizes says of the
// representative, where all of its dims could be rounded.
std::string TextOfClass(const frontend::Signature& signature, const Call& call);
std::string TextOfSizes(const Call& call);

// The call that stands for the class of `call`, as far as choices look at it: its facts and statics
// are those of `call`.
Call Representative(const frontend::Program& program, const frontend::Signature& signature,
                    const Call& call);

}  // namespace tilec::api
