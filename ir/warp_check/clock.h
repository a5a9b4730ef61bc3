// What a role or a barrier knows: a count for each component. A state has three clocks a barrier
// and is copied wherever control may go two ways, so copies share their counts until one of them is
// written; and most clocks of barriers say nothing, which takes no memory. All clocks of a walk
// have one size, so what one gives back the next takes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tilec::ir::warp_check {

// Counts that nobody has, of the size that was asked for last.
class FreeCounts {
 public:
  static FreeCounts& OfThread() {
    static thread_local FreeCounts counts;
    return counts;
  }
  int32_t* Take(size_t size) {
    if (size != size_) {
      free_.clear();
      size_ = size;
    }
    if (free_.empty()) return new int32_t[1 + size];
    int32_t* const counts = free_.back().release();
    free_.pop_back();
    return counts;
  }
  void Give(int32_t* counts, size_t size) {
    std::unique_ptr<int32_t[]> given(counts);
    if (size == size_ && free_.size() < kMost) free_.push_back(std::move(given));
  }

 private:
  static constexpr size_t kMost = 4096;
  size_t size_ = 0;
  std::vector<std::unique_ptr<int32_t[]>> free_;
};

class Clock {
 public:
  Clock() = default;
  explicit Clock(size_t size) : size_(size) {}  // all zero
  Clock(const Clock& other) : size_(other.size_), counts_(other.counts_) { Share(); }
  Clock(Clock&& other) noexcept : size_(other.size_), counts_(other.counts_) {
    other.counts_ = nullptr;
  }
  Clock& operator=(Clock other) noexcept {
    std::swap(size_, other.size_);
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~Clock() { Drop(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool zero() const { return counts_ == nullptr; }  // no count was ever written
  int32_t operator[](size_t i) const { return counts_ ? counts_[1 + i] : 0; }
  const int32_t* counts() const { return counts_ + 1; }  // where not `zero`

  int32_t* Write() {  // `size` counts that are its own
    if (counts_ && *counts_ == 1) return counts_ + 1;
    int32_t* const own = FreeCounts::OfThread().Take(size_);
    *own = 1;
    if (counts_)
      std::copy_n(counts_ + 1, size_, own + 1);
    else
      std::fill_n(own + 1, size_, 0);
    Drop();
    counts_ = own;
    return own + 1;
  }
  void Set(size_t i, int32_t n) {
    if ((*this)[i] != n) Write()[i] = n;
  }
  void Raise(size_t i, int32_t n) {
    if ((*this)[i] < n) Write()[i] = n;
  }
  void Clear() { *this = Clock(size_); }

  // Is some count larger than the one it stands beside?
  bool AnyAbove(const Clock& other) const {
    if (zero() || counts_ == other.counts_) return false;
    if (other.zero())
      return std::any_of(counts(), counts() + size_, [](int32_t n) { return n > 0; });
    uint32_t above = 0;  // (all of them, four at a time)
    for (size_t i = 0; i < size_; ++i) above |= counts()[i] > other.counts()[i] ? 1u : 0u;
    return above != 0;
  }

 private:
  void Share() {
    if (counts_) ++*counts_;
  }
  void Drop() {
    if (counts_ && --*counts_ == 0) FreeCounts::OfThread().Give(counts_, size_);
  }

  size_t size_ = 0;
  int32_t* counts_ = nullptr;  // how many share them, then `size_` counts; null: all are zero
};

inline void Join(Clock& into, const Clock& from) {
  if (!from.AnyAbove(into)) return;
  if (into.zero()) {
    into = from;
    return;
  }
  int32_t* const to = into.Write();
  for (size_t i = 0; i < into.size(); ++i) to[i] = std::max(to[i], from.counts()[i]);
}

}  // namespace tilec::ir::warp_check
