// CHECK: for *our* mistakes only, on in release too. A user's mistake never reaches one.
// A failing CHECK prints what we were doing, calls the crash hook (which writes a replayable
// bundle, ir/pass.cc) and aborts.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tilec {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

// Called once by a failing CHECK before abort; set per thread by the pass runner.
using CrashHook = void (*)(void* state, const std::string& what);
struct ScopedCrashHook {
  ScopedCrashHook(CrashHook hook, void* state);
  ~ScopedCrashHook();
  ScopedCrashHook(const ScopedCrashHook&) = delete;
  ScopedCrashHook& operator=(const ScopedCrashHook&) = delete;

 private:
  CrashHook old_hook_;
  void* old_state_;
};

}  // namespace tilec

#define CHECK(cond, ...)                                                           \
  do {                                                                             \
    if (!(cond)) [[unlikely]]                                                      \
      ::tilec::CheckFailed(__FILE__, __LINE__, #cond, ::std::string(__VA_ARGS__)); \
  } while (false)
#define UNREACHABLE(...) \
  ::tilec::CheckFailed(__FILE__, __LINE__, "unreachable", ::std::string(__VA_ARGS__))
