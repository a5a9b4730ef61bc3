// Which functions an entry can reach, called ones first, and how much stack that takes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/emulator/ptx_ast.h"

namespace tilec::runtime::emulator {

// What a thread may use for calls whose depth the text does not say; CUDA's default is less.
inline constexpr uint64_t kRecursionStack = 16 << 10;

struct CallGraph {
  struct Node {
    int32_t number = -1;  // in PtxModule::function_names
    int32_t body = -1;    // in PtxModule::functions
    bool recursive = false;
  };
  std::vector<Node> order;
  uint64_t stack_bytes = 0;  // beyond the entry's own frame
};

CallGraph FindCalls(const PtxModule& module, const Entry& entry);

}  // namespace tilec::runtime::emulator
