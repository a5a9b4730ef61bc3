// tune = "model:improve" and "classes:improve": a thread that measures sizes which were launched,
// so that a later launch runs what is fastest. It works off what it is given, one after the other;
// whoever gives it something waits for nothing. Whose work it is may end at any time: Finish leaves
// out what was not begun and waits for what was, which is asked to stop.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tilec::api {

constexpr double kImproveSeconds = 0.2;  // of launches, for one set of sizes
// What another program has to be faster by: the device does something else meanwhile.
constexpr double kImproveFaster = 0.03;

// "model:improve" → "model", "classes:improve" → "classes", and true. Others stay as they are.
bool TakeImprove(std::string* tune);

class Improver {
 public:
  using Work = std::function<void(const std::atomic<bool>& stop)>;
  Improver() : thread_([this] { Run(); }) {}
  ~Improver();  // of nobody's work is anything left by then
  Improver(const Improver&) = delete;
  Improver& operator=(const Improver&) = delete;

  static constexpr size_t kMostWaiting = 256;
  // False: there are so many already.
  bool Add(const void* owner, Work work);
  // Not for the thread itself.
  void Finish(const void* owner);

 private:
  void Run();
  struct Item {
    const void* owner = nullptr;
    Work work;
  };
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  const void* running_ = nullptr;
  bool end_ = false;
  std::atomic<bool> stop_{false};  // what runs
  std::thread thread_;             // the last: it uses the others
};

}  // namespace tilec::api
