// What every entry of the two interfaces begins with: the lock, and the process.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "shim/process.h"

// An entry that programs find by its name.
#define SHIM_API extern "C" __attribute__((visibility("default")))

namespace tilec::shim {

class Call {
 public:
  Call() : process_(Process::Get()), lock_(process_.mutex()) {}
  Process* operator->() { return &process_; }
  Process& operator*() { return process_; }

 private:
  Process& process_;
  std::lock_guard<std::recursive_mutex> lock_;
};

// What the driver's attributes of a device are; both interfaces count them alike. kInvalidValue:
// there is no such attribute.
Code DeviceAttribute(const Process& process, int attribute, int* value);
// The driver's entry of that name; null: there is none.
void* DriverEntry(const char* name, int version);
const char* ErrorName(int code);  // "CUDA_ERROR_INVALID_VALUE"; null: no such error
const char* ErrorText(int code);
// The one version that is claimed: CUDA 13.0.
inline constexpr int kVersion = 13000;
// What stands for the only context and the only pool of memory.
void* TheContext();
void* ThePool();
bool IsPool(const void* handle);

}  // namespace tilec::shim
