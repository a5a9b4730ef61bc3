// The table of the driver's entries, and how programs find them: by name and version.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "shim/api.h"

// Only the addresses are taken here; each file that defines entries has their types.
#define ENTRY(name, symbol, since) extern "C" int symbol(...);
#define REFUSED(symbol)
#define cuGetProcAddress cuGetProcAddress_unused
#define cuGetProcAddress_v2 cuGetProcAddress_v2_unused
#define cuGetExportTable cuGetExportTable_unused
#include "shim/driver.def"
#undef cuGetProcAddress
#undef cuGetProcAddress_v2
#undef cuGetExportTable
#undef ENTRY
#undef REFUSED

using namespace tilec::shim;  // NOLINT: entries have C names

#define ENTRY(name, symbol, since)
#define REFUSED(symbol) \
  SHIM_API int symbol() { return Process::Get().Refuse(#symbol); }
#include "shim/driver.def"
#undef ENTRY
#undef REFUSED

SHIM_API int cuGetProcAddress_v2(const char* name, void** entry, int version, uint64_t flags,
                                 int* status);
SHIM_API int cuGetProcAddress(const char* name, void** entry, int version, uint64_t flags);
SHIM_API int cuGetExportTable(const void** table, const Uuid* id);

namespace tilec::shim {
namespace {

struct Row {
  const char* name;
  void* entry;
  int since;
};
const Row kRows[] = {
#define ENTRY(name, symbol, since) {#name, reinterpret_cast<void*>(&symbol), since},
#define REFUSED(symbol) {#symbol, reinterpret_cast<void*>(&symbol), 0},
#include "shim/driver.def"
#undef ENTRY
#undef REFUSED
};

struct ErrorRow {
  int number;
  const char *name, *text;
};
const ErrorRow kErrors[] = {
#define ERROR(number, driver, runtime, text) {number, #driver, text},
#include "shim/errors.def"
#undef ERROR
};

}  // namespace

void* DriverEntry(const char* name, int version) {
  const Row* best = nullptr;
  for (const Row& row : kRows)
    if (strcmp(row.name, name) == 0 && row.since <= version &&
        (best == nullptr || best->since <= row.since))
      best = &row;
  return best == nullptr ? nullptr : best->entry;
}

const char* ErrorName(int code) {
  for (const ErrorRow& row : kErrors)
    if (row.number == code) return row.name;
  return nullptr;
}
const char* ErrorText(int code) {
  for (const ErrorRow& row : kErrors)
    if (row.number == code) return row.text;
  return nullptr;
}

}  // namespace tilec::shim

SHIM_API int cuGetProcAddress_v2(const char* name, void** entry, int version, uint64_t,
                                 int* status) {
  if (name == nullptr || entry == nullptr) return kInvalidValue;
  *entry = DriverEntry(name, version);
  // 0 found, 1 there is none, 2 the version is too old.
  if (status != nullptr)
    *status = *entry != nullptr ? 0 : DriverEntry(name, 0x7fffffff) != nullptr ? 2 : 1;
  return *entry != nullptr || status != nullptr ? kOk : kNotFound;
}
SHIM_API int cuGetProcAddress(const char* name, void** entry, int version, uint64_t flags) {
  int status = 0;
  const int code = cuGetProcAddress_v2(name, entry, version, flags, &status);
  return code == kOk && status != 0 ? kNotFound : code;
}
// NVIDIA's runtime library asks for tables that nobody documents, and checks that it talks to
// NVIDIA's driver. Programs that run here have our runtime library in its place (runtime_*.cc,
// interpose.cc).
SHIM_API int cuGetExportTable(const void** table, const Uuid*) {
  if (table != nullptr) *table = nullptr;
  Process::Get().Note(
      "a CUDA runtime library of NVIDIA's was reached that could not be replaced (a program "
      "without "
      "symbols, or one that brings its own copy): link it with `-cudart=shared`, or do not strip "
      "it");
  return kNotFound;
}
