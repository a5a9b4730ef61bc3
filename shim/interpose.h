// Programs that carry NVIDIA's runtime library inside (nvcc's default) get ours in its place: at
// the start, before anything of the program runs, the entries of that library are made to jump
// here. They are found by the program's own table of symbols.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tilec::shim {

// One of our runtime's entries; null: we know no such entry.
void* RuntimeEntry(const char* name);

struct Interposed {
  int entries = 0;
  std::string wrong;  // "": nothing
};
// Looks at the program's file and patches it in memory. Nothing to do where it has no such library.
Interposed ReplaceStaticRuntime();

}  // namespace tilec::shim
