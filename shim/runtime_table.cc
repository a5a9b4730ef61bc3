// The table of the runtime's entries, for programs that carry NVIDIA's own (interpose.cc).
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/api.h"
#include "shim/interpose.h"

// Only the addresses are taken here.
#define ENTRY(symbol) extern "C" int symbol(...);
#define REFUSED(symbol) \
  SHIM_API int symbol() { return tilec::shim::Process::Get().Refuse(#symbol); }
#define SAME(symbol, driver, parameters, arguments) extern "C" int symbol(...);
#include "shim/runtime.def"
#include "shim/runtime_same.def"
#undef ENTRY
#undef REFUSED
#undef SAME

namespace tilec::shim {
namespace {

struct RuntimeRow {
  const char* name;
  void* entry;
};
const RuntimeRow kRuntimeRows[] = {
#define ENTRY(symbol) {#symbol, reinterpret_cast<void*>(&symbol)},
#define REFUSED(symbol) {#symbol, reinterpret_cast<void*>(&symbol)},
#define SAME(symbol, driver, parameters, arguments) {#symbol, reinterpret_cast<void*>(&symbol)},
#include "shim/runtime.def"
#include "shim/runtime_same.def"
#undef ENTRY
#undef REFUSED
#undef SAME
};

}  // namespace

void* RuntimeEntry(const char* name) {
  size_t bytes = strlen(name);
  // Their default stream is the thread's; here there is one.
  for (const char* suffix : {"_ptsz", "_ptds"})
    if (bytes > 5 && strcmp(name + bytes - 5, suffix) == 0) bytes -= 5;
  for (const RuntimeRow& row : kRuntimeRows)
    if (strncmp(row.name, name, bytes) == 0 && row.name[bytes] == '\0') return row.entry;
  return nullptr;
}

}  // namespace tilec::shim
