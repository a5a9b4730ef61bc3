// Which inputs a fuzzer makes and for how long: options of the command line, and the loop.
//
//   for (uint64_t k; inputs.Next(done, &k);) { … }
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace tilec::fuzz {

struct Inputs {
  // `most`: the option that ends the run after so many, "--texts".
  Inputs(CLI::App& app, const std::string& most) {
    app.add_option("--seconds", seconds);
    app.add_option(most, most_);
    app.add_option("--seed", seed);
    app.add_option("--only", only, "this input alone, from 1");
  }

  // The number of the next input; false: it was the last. `done` of what `most` counts.
  bool Next(uint64_t done, uint64_t* k) {
    if (next_ == 0) start_ = Clock::now(), next_ = only > 0 ? only : 1;
    const double now = Seconds();
    if (now - before_ > slowest_) slowest_ = now - before_, slowest_input_ = next_ - 1;
    before_ = now;
    // An input that takes longer has no budget that holds: last_input.h says which one it was.
    if (now >= armed_ + 1 || armed_ < 0) armed_ = now, alarm(kHangSeconds);
    if (only > 0 ? next_ > only : most_ > 0 ? done >= most_ : now >= seconds)
      return alarm(0), false;
    *k = next_++;
    return true;
  }
  // After the last one.
  void PrintSlowest() const {
    std::printf("  slowest: %.0f ms, input %llu\n", slowest_ * 1000,
                static_cast<unsigned long long>(slowest_input_));
  }
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  // Once a minute: time to say how far it is.
  bool Minute() {
    if (Seconds() < told_ + 60) return false;
    told_ = Seconds();
    return true;
  }

  double seconds = 5;
  uint64_t seed = 1, only = 0;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kHangSeconds = 30;
  uint64_t most_ = 0, next_ = 0, slowest_input_ = 0;
  Clock::time_point start_;
  double told_ = 0, before_ = 0, slowest_ = 0, armed_ = -1;
};

}  // namespace tilec::fuzz
