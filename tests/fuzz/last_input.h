// What a fuzzer was at when it died: the input is printed on a fatal signal and before a sanitizer
// ends the process, so that a run of hours need not be repeated to see it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

// Short histories of allocations: `--only` brings the long ones back when they are wanted.
extern "C" __attribute__((used)) inline const char* __asan_default_options() {
  return "malloc_context_size=0:quarantine_size_mb=8:detect_leaks=0";
}

namespace tilec::fuzz {

struct LastInput {
  uint64_t seed = 0, index = 0;
  std::string text;
};

inline LastInput& Last() {
  static LastInput last;
  return last;
}

inline void PrintLast() {
  char head[96];
  const int n = std::snprintf(head, sizeof head, "\n---- seed %llu, input %llu\n",
                              static_cast<unsigned long long>(Last().seed),
                              static_cast<unsigned long long>(Last().index));
  ssize_t written = write(1, head, static_cast<size_t>(n));
  written += write(1, Last().text.data(), Last().text.size());
  if (written < 0) std::_Exit(2);
}

inline void OnFatal(int signal) {
  PrintLast();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Inputs::Next sets the clock.
inline void OnHang(int) {
  constexpr char kWords[] = "\n---- hang: this input has taken half a minute";
  const ssize_t written = write(1, kWords, sizeof kWords - 1);
  PrintLast();
  std::_Exit(written < 0 ? 2 : 3);
}

inline void ShowLastInputOnDeath() {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(PrintLast);
  std::signal(SIGABRT, OnFatal);
  std::signal(SIGALRM, OnHang);
  if (__sanitizer_set_death_callback == nullptr)
    for (int s : {SIGSEGV, SIGFPE, SIGBUS, SIGILL}) std::signal(s, OnFatal);
}

// An input's own dice: any one can be made again without those before it.
inline uint64_t InputSeed(uint64_t seed, uint64_t index) {
  uint64_t h = seed * 0x9e3779b97f4a7c15ull ^ (index + 1) * 0xbf58476d1ce4e5b9ull;
  h ^= h >> 29;
  h *= 0x94d049bb133111ebull;
  return h ^ h >> 32;
}

}  // namespace tilec::fuzz
