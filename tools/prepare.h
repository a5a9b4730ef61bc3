// A kernel with the values it is compiled for, from NAME=VALUE words, for commands that launch
// nothing.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "api/call.h"
#include "tools/session.h"

namespace tilec::tools {

struct Prepared {
  std::string kernel;
  api::Call call;
};

// Loads the session's file and reads `words`. Tensors are taken as a launch would most likely bring
// them: dense, aligned; dims that are only known at launch are left open, so only static ones have
// to be given.
Result<Prepared> Prepare(Session& session, const char* command,
                         const std::vector<std::string>& words);

}  // namespace tilec::tools
