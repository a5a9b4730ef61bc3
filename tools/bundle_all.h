// FILE:* of `tilec bundle`: every kernel of a file, for the values that its tests call it with. So
// one command builds a library for several machines.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "support/result.h"
#include "tools/bundle_words.h"
#include "tools/options.h"

namespace tilec::tools {

class Session;

// Each FILE:* becomes its kernels, once for each combination of constants in the file's tests: what
// a build must know, and no tunes. Kernels that no test calls are left out, and named on standard
// error; an error if there is no other.
Result<std::vector<Wanted>> WithEveryKernel(Session& session, const std::vector<Wanted>& wanted);

}  // namespace tilec::tools
