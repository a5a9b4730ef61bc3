// SPDX-License-Identifier: Apache-2.0
#include "api/improve.h"

namespace tilec::api {

bool TakeImprove(std::string* tune) {
  if (*tune != "model:improve" && *tune != "classes:improve") return false;
  tune->resize(tune->find(':'));
  return true;
}

Improver::~Improver() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Improver::Add(const void* owner, Work work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= kMostWaiting) return false;
    waiting_.push_back({owner, std::move(work)});
  }
  changed_.notify_all();
  return true;
}

void Improver::Finish(const void* owner) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::erase_if(waiting_, [&](const Item& item) { return item.owner == owner; });
  if (running_ == owner) stop_ = true;
  changed_.wait(lock, [&] { return running_ != owner; });
}

void Improver::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return end_ || !waiting_.empty(); });
    if (end_) return;
    {
      const Item item = std::move(waiting_.front());
      waiting_.pop_front();
      running_ = item.owner;
      stop_ = false;
      lock.unlock();
      item.work(stop_);
    }  // what it holds is let go of before anybody is told
    lock.lock();
    running_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace tilec::api
