// What the replay test compiles, read from tests/replay/corpus.txt. A row is
//
//   [cold] FILE.tile                    | SCHEDULE… [@TARGET…]   every call of its `test` blocks
//   [cold] FILE.tile:KERNEL NAME=VALUE… | SCHEDULE… [@TARGET…]   one call, tensors dense
//   tiles FIRST-LAST                    | SCHEDULE… [@TARGET…]   random programs (tests/fuzz)
//   loops FIRST-LAST                    | SCHEDULE… [@TARGET…]   random kernels around one loop
//
// Targets: h200 where none is given. `cold`: solved afresh, whatever is kept. Paths begin at the
// root of the tree. Of compilations that must give the same image only the first is kept.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/pipeline.h"
#include "support/diag.h"

namespace tilec::replay {

struct Case {
  std::string id;  // "stdlib/matmul.tile:gemm M=300 N=200 K=136 @h200 solve"
  std::shared_ptr<api::Loaded> loaded;
  std::string kernel;
  api::Call call;
  std::string schedule, target;
  std::string schedule_path;  // of a schedule that is a file
  bool cold = false;
};

// Nothing, with `why`, where a row cannot be read. Ids are unique.
std::optional<std::vector<Case>> ReadCorpus(const std::string& root, std::string* why);

}  // namespace tilec::replay
