// What the runtime's interface keeps besides: what nvcc's host code registered, configurations
// between <<<…>>> and the launch, and the last error of each thread.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "shim/api.h"

namespace tilec::shim {

struct Registered {
  Library* library = nullptr;
  const void* image = nullptr;
  // Managed variables: where the program keeps the address, and the name.
  std::vector<std::pair<void**, std::string>> managed;
};
struct HostSymbol {
  Registered* from = nullptr;
  std::string name;
};

// Guarded by the lock of the process.
struct RuntimeState {
  std::unordered_map<void*, std::unique_ptr<Registered>> fatbins;
  std::unordered_map<const void*, HostSymbol> functions, variables;
  static RuntimeState& Get();
};

// Keeps the code for cudaGetLastError.
int Last(int code);
int& LastError();

// A host function of nvcc's, a kernel, or a function of the driver's interface.
Code KernelOf(Call& c, const void* handle, Function** out);
Code SymbolOf(Call& c, const void* host, uint64_t* address, uint64_t* bytes);

}  // namespace tilec::shim
