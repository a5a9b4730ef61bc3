// SPDX-License-Identifier: Apache-2.0
#include "support/check.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tilec {
namespace {
thread_local CrashHook crash_hook = nullptr;
thread_local void* crash_state = nullptr;
}  // namespace

ScopedCrashHook::ScopedCrashHook(CrashHook hook, void* state)
    : old_hook_(std::exchange(crash_hook, hook)), old_state_(std::exchange(crash_state, state)) {}
ScopedCrashHook::~ScopedCrashHook() {
  crash_hook = old_hook_;
  crash_state = old_state_;
}

void CheckFailed(const char* file, int line, const char* condition, const std::string& message) {
  const std::string what = std::string(file) + ":" + std::to_string(line) + ": CHECK(" + condition +
                           ") failed" + (message.empty() ? "" : ": " + message);
  std::fprintf(stderr, "tilec: internal error: %s\n", what.c_str());
  if (CrashHook hook = std::exchange(crash_hook, nullptr)) hook(crash_state, what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tilec
