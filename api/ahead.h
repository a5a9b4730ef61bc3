// Work that is likely to be asked for soon, done beside the asker by threads of its own: items are
// taken in their order, and whoever needs one that is in work waits for it, which the keeper of
// results sees to (FoundOnce of api/tune_memory.h). What is done does not depend on the threads.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace tilec::api {

// For a launch that waits: a few, of what the machine has.
inline int ChoosingThreads() {
  constexpr int kMost = 16;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMost);
}

class Ahead {
 public:
  // `does` items `first` to `end`, by `threads` less the asker; none for one thread.
  Ahead(int threads, size_t first, size_t end, std::function<void(size_t)> does)
      : next_(first), does_(std::move(does)) {
    const auto work = [this, end] {
      for (size_t i = next_++; i < end && !stop_; i = next_++) does_(i);
    };
    for (int t = 1; t < threads; ++t) threads_.emplace_back(work);
  }
  // Waits for what is in work.
  ~Ahead() {
    stop_ = true;
    for (std::thread& t : threads_) t.join();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

 private:
  std::atomic<size_t> next_;
  std::atomic<bool> stop_{false};
  const std::function<void(size_t)> does_;
  std::vector<std::thread> threads_;
};

}  // namespace tilec::api
